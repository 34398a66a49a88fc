"""Finds out whether an active coordinator that is cut off from ZooKeeper has been replaced.

Its session expires without its knowledge, and another process is elected. It cannot write any more, but its
streams exist. As long as it is cut off, its Pings would let its consumers read on in partitions that others
own by now (§8, C5). Brokers know the new coordinator, so they are asked while ZooKeeper cannot be asked. If
ZooKeeper is not available at all, there is no election. Then the brokers name this process, and it goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from hightide_runtime.process.repeated_step import RepeatedStep

from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.zookeeper.watches import CoordinatorWatches

__all__ = ["IsolationCheck", "successor_of"]

_CHECK_S: Final = 1.0
"""The interval in which the connection is checked, and brokers are asked while there is none."""


class IsolationCheck:
    """Checks for isolation, and ends the coordination of shards that another process has. One for each
    process."""

    def __init__(
        self,
        identity: Endpoint,
        watches: CoordinatorWatches,
        ask: Callable[[], Awaitable[Sequence[Sequence[Endpoint]]]],
    ) -> None:
        """`ask` returns the coordinators by shard that each broker knows. It raises nothing."""
        # Without the external address, since brokers return internal addresses through internal listeners.
        self._identity = Endpoint(identity.id, identity.host, identity.port)
        self._watches = watches
        self._ask = ask
        self._was_connected = True
        self._checking = RepeatedStep("the check for isolation", _CHECK_S, self._check)

    def start(self) -> None:
        """Start the checks."""
        self._checking.start()

    async def close(self) -> None:
        """Stop the checks."""
        await self._checking.close()

    async def _check(self) -> None:
        was_connected, self._was_connected = self._was_connected, self._watches.connected.is_set()
        if not (self._was_connected or was_connected) and self._watches.held():
            await self._look()

    async def _look(self) -> None:
        answers = await self._ask()
        if self._watches.connected.is_set():
            return  # ZooKeeper itself can be asked now.
        for candidacy in self._watches.candidacies:
            other = successor_of(self._identity, candidacy.shard, answers)
            if other is not None:
                self._watches.overtaken(candidacy.shard, other)


def successor_of(identity: Endpoint, shard: int, answers: Sequence[Sequence[Endpoint]]) -> Endpoint | None:
    """The process that more brokers name as the coordinator of a shard than name this one, or None. A single
    broker may be cut off itself and know an older coordinator."""
    named = Counter(each[shard] for each in answers if shard < len(each) and each[shard].host)
    others = [(count, other) for other, count in named.items() if other != identity]
    count, other = max(others, key=lambda each: each[0], default=(0, identity))
    return other if count > named[identity] else None
