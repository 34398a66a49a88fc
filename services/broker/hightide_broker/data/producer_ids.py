"""Ids for idempotent producers, unique in the cluster for ever (KIP-98's blocks).

A broker reserves a block of ids in /producer_ids by a conditional write, and assigns them from memory. The
rest of a block is lost when the broker stops; 2^63 ids are enough.
"""

from __future__ import annotations

import asyncio
from typing import Final

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError
from hightide_runtime.znodes.cluster_znodes import ProducerIdsZnode, ZnodeGarbage
from hightide_runtime.zookeeper.session import (
    BadVersion,
    ConnectionLost,
    NodeExists,
    NoNode,
    SessionExpired,
    ZooKeeperRefused,
    ZooKeeperSession,
)

ATTEMPTS: Final = 20
"""Each lost race means that another broker reserved a block. Twenty in a row do not happen."""


class ProducerIds:
    """Assigns producer ids. One for each broker."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._next = 0
        self._end = 0
        self._taking = asyncio.Lock()

    async def take(self) -> int:
        """An id that no other producer has. Raises ServiceError(ZOOKEEPER_UNAVAILABLE)."""
        async with self._taking:
            if self._next == self._end:
                try:
                    self._next = await self._take_block()
                except ZnodeGarbage as error:
                    raise ServiceError(
                        ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE,
                        f"the broker cannot assign a producer id, because {error}; write a number into it "
                        "that is larger than any id in use, such as "
                        f"{ProducerIdsZnode(10**12).encode().decode()}",
                    ) from error
                except (ConnectionLost, SessionExpired, ZooKeeperRefused) as error:
                    raise ServiceError(
                        ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE,
                        f"the broker cannot assign a producer id while ZooKeeper does not answer: {error}; "
                        "try again",
                    ) from error
                self._end = self._next + ProducerIdsZnode.BLOCK_SIZE
            self._next += 1
            return self._next - 1

    async def _take_block(self) -> int:
        # A write with an unknown outcome may have reserved a block that no broker uses. This does no harm.
        for _ in range(ATTEMPTS):
            try:
                znode = await self._session.get(ProducerIdsZnode.path())
                first = ProducerIdsZnode.decode(znode.data).next_id
                after = ProducerIdsZnode(first + ProducerIdsZnode.BLOCK_SIZE).encode()
                await self._session.set(ProducerIdsZnode.path(), after, znode.version)
            except NoNode:
                # If an operator deleted it, at least none of this broker's ids is assigned again.
                anew = ProducerIdsZnode(self._end)
                try:
                    await self._session.create(ProducerIdsZnode.path(), anew.encode())
                except NodeExists:
                    continue
            except BadVersion:
                continue
            else:
                return first
        raise ServiceError(
            ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE,
            f"other brokers won {ATTEMPTS} races for a block of producer ids; try again",
        )
