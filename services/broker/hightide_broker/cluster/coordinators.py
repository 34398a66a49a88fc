"""The coordinator of each shard of groups, for GetMetadata (consumer coordinator §7).

Watched in ZooKeeper, because coordinators send nothing else to brokers. If stale news sends a consumer to the
wrong coordinator, that one refuses the consumer, which then asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from hightide_runtime.znodes.cluster_znodes import ZnodeGarbage
from hightide_runtime.znodes.group_znodes import CoordinatorZnode, ShardsZnode
from hightide_runtime.zookeeper.session import (
    SessionState,
    SessionStateChanged,
    WatchFired,
    Znode,
    ZooKeeperError,
    ZooKeeperEvent,
    ZooKeeperSession,
)
from hightide_runtime.zookeeper.znode_reader import RepeatedReader

from hightide_broker.cluster.metadata import EndpointView, MetadataCache

log = logging.getLogger(__name__)

SHARDS_PATH: Final = ShardsZnode.path()


class Coordinators:
    """Keeps the coordinators of a MetadataCache up to date. One for each broker; belongs to the event loop's
    thread.

    The reader of the session's events passes them on to it.
    """

    def __init__(self, session: ZooKeeperSession, cache: MetadataCache) -> None:
        self._session = session
        self._cache = cache
        self._connected = asyncio.Event()
        self._connected.set()
        self._watched: set[str] = set()
        self._paths: tuple[str, ...] = ()
        """The znode of each shard's coordinator."""
        self._reader = RepeatedReader("coordinators", self._read, self._connected)

    def start(self) -> None:
        """Begin to read."""
        self._reader.start()
        self._reader.mark()

    async def close(self) -> None:
        """Stop reading."""
        await self._reader.close()

    def take(self, event: ZooKeeperEvent) -> None:
        """Handle an event of the session."""
        match event:
            case SessionStateChanged(state=SessionState.CONNECTED):
                self._watched.clear()
                self._connected.set()
                self._reader.mark()
            case SessionStateChanged():
                self._connected.clear()
            case WatchFired(path=path) if path in self._watched:
                self._watched.discard(path)
                self._reader.mark()
            case _:
                pass

    async def _read(self) -> None:
        await self._watch([SHARDS_PATH])
        self._paths = self._paths_of((await self._session.multi_read([SHARDS_PATH])).get(SHARDS_PATH))
        await self._watch(self._paths)
        found = await self._session.multi_read(self._paths)
        self._cache.coordinators = tuple(_endpoint_in(found.get(path)) for path in self._paths)

    async def _watch(self, paths: Sequence[str]) -> None:
        """Set watches, whether or not the znodes exist."""
        new = [path for path in paths if path not in self._watched]
        self._watched.update(new)
        try:
            await asyncio.gather(*(self._session.exists(path, watch=True) for path in new))
        except ZooKeeperError:
            self._watched.difference_update(new)
            raise

    def _paths_of(self, found: Znode | None) -> tuple[str, ...]:
        if found is None:
            return ()  # no coordinator was ever started
        try:
            count = ShardsZnode.decode(found.data).shard_count
        except ZnodeGarbage as error:
            log.error("%s; correct it, or delete it while no coordinator runs", error)
            return self._paths
        return tuple(CoordinatorZnode.path(shard, count) for shard in range(count))


def _endpoint_in(found: Znode | None) -> EndpointView | None:
    if found is None:
        return None
    try:
        znode = CoordinatorZnode.decode(found.data)
    except ZnodeGarbage as error:
        log.error("%s; delete the znode", error)
        return None
    return EndpointView(
        znode.coordinator_id, znode.host, znode.port, znode.external_host, znode.external_port
    )
