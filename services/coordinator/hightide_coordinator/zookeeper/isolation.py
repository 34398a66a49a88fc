"""An active coordinator that is cut off from ZooKeeper, while its consumers need the next one.

Its session expires without its knowledge, and another process is elected. It cannot write any more, but its
streams exist, and its Pings would let its consumers read on, for as long as it is cut off, what others got
meanwhile (§8, C5). Brokers know the new coordinator, so they are asked while ZooKeeper cannot be. If
ZooKeeper is away altogether, there is no election. The brokers then name this process, and it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.zookeeper.watches import CoordinatorWatches

__all__ = ["Isolation", "successor_of"]

_LOOK_S: Final = 1.0
"""How often the connection is checked, and brokers are asked while there is none."""


class Isolation:
    """Checks for isolation. One for each process."""

    def __init__(
        self,
        identity: Endpoint,
        watches: CoordinatorWatches,
        ask: Callable[[], Awaitable[Sequence[Sequence[Endpoint]]]],
    ) -> None:
        """`ask`: returns the coordinators by shard, as each broker knows them. Raises nothing."""
        # As brokers name it here: through their internal listeners they return internal addresses.
        self._identity = Endpoint(identity.id, identity.host, identity.port)
        self._watches = watches
        self._ask = ask
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="isolation")

    async def close(self) -> None:
        """Stop checking."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        was_connected = True
        while True:
            await asyncio.sleep(_LOOK_S)
            is_connected = self._watches.connected.is_set()
            if not (is_connected or was_connected) and self._watches.held():
                await self._look()
            was_connected = is_connected

    async def _look(self) -> None:
        told = await self._ask()
        if self._watches.connected.is_set():
            return  # ZooKeeper itself can be asked now.
        for candidacy in self._watches.candidacies:
            other = successor_of(self._identity, candidacy.shard, told)
            if other is not None:
                self._watches.overtaken(candidacy.shard, other)


def successor_of(identity: Endpoint, shard: int, told: Sequence[Sequence[Endpoint]]) -> Endpoint | None:
    """The process that more brokers name as the coordinator of a shard than name this one: a single broker
    may be cut off itself, and know an older one."""
    named = Counter(each[shard] for each in told if shard < len(each) and each[shard].host)
    others = [(count, other) for other, count in named.items() if other != identity]
    count, other = max(others, key=lambda each: each[0], default=(0, identity))
    return other if count > named[identity] else None
