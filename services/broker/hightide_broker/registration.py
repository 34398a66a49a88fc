"""The broker's presence in ZooKeeper: /brokers/ids/[id], ephemeral (V3 Paths 2 and section E).

The czxid of the registration is the broker epoch: each life of the broker, and each session of a
life, has another one. Losing the session means registering anew; what the broker leads it keeps
serving meanwhile, since no ISR can change without ZooKeeper (V3 discussion 3).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import StartupError
from hightide_runtime.znodes import BrokerZnode, ZnodeGarbage
from hightide_runtime.zookeeper import (
    BadVersion,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    SessionExpired,
    Znode,
    ZooKeeperError,
    ZooKeeperSession,
)

log = logging.getLogger(__name__)

RETRY_S: Final = 0.1


class Registration:
    """Keeps this broker registered. One for each broker; belongs to the event loop's thread."""

    def __init__(self, session: ZooKeeperSession, broker_id: int, znode: BrokerZnode) -> None:
        self._session = session
        self._broker_id = broker_id
        self._znode = znode
        self._known = asyncio.Event()
        self.broker_epoch = -1
        """The czxid of the last registration; followers speak under it also while a new one is made."""

    async def known(self, timeout_s: float) -> int:
        """Wait until there is a broker epoch: the controller can speak before the create is answered.

        Raises TimeoutError.
        """
        await asyncio.wait_for(self._known.wait(), timeout_s)
        return self.broker_epoch

    async def until_known(self) -> None:
        """Wait until there is a broker epoch, however long that takes. Fetchers begin with it."""
        await self._known.wait()

    async def withdraw(self) -> None:
        """Be gone from ZooKeeper, as the last thing before the session is closed. Never raises."""
        try:
            await self._session.delete(BrokerZnode.path(self._broker_id))
        except ZooKeeperError as error:
            log.debug("the registration goes with the session: %s", error)

    def lost(self) -> None:
        """The session expired: what a controller sends from here on is meant for the next broker epoch."""
        self._known.clear()

    async def register(self, patience_s: float) -> None:
        """Create the ephemeral znode, however often the connection breaks.

        A registration at our own address is an earlier life of ours, since the port is ours now: it
        is replaced at once. One at another address may be another process under the same id: wait
        as long as a dead one needs to expire, then raise StartupError that names it.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + patience_s
        while True:
            try:
                registered = await self._try_register()
            except (ConnectionLost, SessionExpired) as error:
                log.warning("registering broker %d is retried: %s", self._broker_id, error)
                registered = None
            if registered is not None:
                self.broker_epoch = registered.czxid
                self._known.set()
                log.info("broker %d is registered, broker epoch %d", self._broker_id, registered.czxid)
                return
            if loop.time() > give_up_at:
                await self._refuse_to_share_an_id()
            await asyncio.sleep(RETRY_S)

    async def _try_register(self) -> Znode | None:
        """One attempt; None where another registration stands in the way."""
        path, data = BrokerZnode.path(self._broker_id), self._znode.encode()
        try:
            return await self._session.create(path, data, ephemeral=True)
        except NodeExists:
            pass
        try:
            found = await self._session.get(path)
        except NoNode:
            return None
        if found.ephemeral_owner == self._session.session_id:
            return found  # ours: an earlier attempt whose answer was lost
        if self._address_of(found) != HostPort(self._znode.host, self._znode.port):
            return None
        try:
            await self._session.multi([Delete(path, found.version), Create(path, data, ephemeral=True)])
            log.info("broker %d replaced the registration of its earlier life", self._broker_id)
        except (NoNode, BadVersion, NodeExists):
            return None
        return await self._session.get(path)

    async def _refuse_to_share_an_id(self) -> None:
        path = BrokerZnode.path(self._broker_id)
        try:
            found = await self._session.get(path)
        except (NoNode, ConnectionLost, SessionExpired):
            return  # it went away, or ZooKeeper did: keep trying
        if found.ephemeral_owner != self._session.session_id:
            raise StartupError(
                f"broker id {self._broker_id} is registered by another process at {self._address_of(found)} "
                f"(znode {path}); give this one another --broker-id, or stop that one"
            )

    @staticmethod
    def _address_of(found: Znode) -> HostPort | None:
        try:
            other = BrokerZnode.decode(found.data)
        except ZnodeGarbage:
            return None
        return HostPort(other.host, other.port)
