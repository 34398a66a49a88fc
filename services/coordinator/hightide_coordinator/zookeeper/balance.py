"""Spreads the shards over the coordinators: one that has more than another gives shards up, one at a time.

A process that starts late, or comes back, finds a coordinator for every shard. The one that has the most
then gives one up, and the process that has the fewest campaigns first (`candidacy`). This is a failover in
which members keep their partitions. It waits until nothing else has changed for a whole interval: no
coordinator, and no candidate.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence

from hightide_runtime.process.repeated_step import RepeatedStep
from hightide_runtime.zookeeper.session import ZooKeeperError

from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.zookeeper.watches import CoordinatorWatches

__all__ = ["Balance", "shard_to_give_up"]

_log = logging.getLogger(__name__)

Place = tuple[str, int]
"""Host and port, by which a process is the same in all lists."""
Shares = tuple[tuple[Place | None, ...], frozenset[Place]]
"""The coordinators by shard, and the candidates."""


def shard_to_give_up(me: Place, holders: Sequence[Place | None], candidates: Collection[Place]) -> int | None:
    """The shard that this process gives up; None if none. `holders` are the coordinators by shard,
    `candidates` all processes that could be elected.

    It gives one up if a candidate has fewer by two at least: by one less it would only change the roles. Of
    several that have the most, the first by address does, so that they do not act at once.
    """
    counts = Counter(dict.fromkeys(candidates, 0))
    counts.update(each for each in holders if each is not None)
    if None in holders or me not in candidates or not counts:
        return None
    most = max(counts.values())
    if counts[me] < most or most - min(counts[each] for each in candidates) < 2:
        return None
    if me != min(each for each, count in counts.items() if count == most):
        return None
    return next(shard for shard, each in enumerate(holders) if each == me)


class Balance:
    """Compares what the coordinators have, again and again. One for each process."""

    def __init__(
        self,
        identity: Endpoint,
        watches: CoordinatorWatches,
        read_candidates: Callable[[], Awaitable[Collection[Endpoint]]],
        interval_ms: int,
    ) -> None:
        """`read_candidates` raises ZooKeeperError. With an interval of 0 nothing is compared."""
        self._me = _place_of(identity)
        self._watches = watches
        self._read_candidates = read_candidates
        self._is_on = interval_ms > 0 and len(watches.candidacies) > 1
        self._before: Shares | None = None
        self._comparing = RepeatedStep("the comparison of shards", interval_ms / 1000, self._compare)

    def start(self) -> None:
        """Begin. With a single shard there is nothing to spread."""
        if self._is_on:
            self._comparing.start()

    async def close(self) -> None:
        """Stop."""
        await self._comparing.close()

    async def _compare(self) -> None:
        before, self._before = self._before, None
        try:
            now = await self._look()
        except ZooKeeperError:
            return
        if now == before and now is not None:
            self._give_up(*now)
        self._before = now

    async def _look(self) -> Shares | None:
        """What there is now; None while this process has no shard to give up."""
        if not self._watches.connected.is_set() or not self._watches.held():
            return None
        candidates = frozenset(_place_of(each) for each in await self._read_candidates())
        holders = (each.holder for each in self._watches.candidacies)
        return tuple(None if each is None else _place_of(each) for each in holders), candidates

    def _give_up(self, holders: Sequence[Place | None], candidates: Collection[Place]) -> None:
        shard = shard_to_give_up(self._me, holders, candidates)
        if shard is not None and self._watches.give_up(shard) is not None:
            _log.info(
                "shard %d: given up, since this coordinator has %d of %d, and another one has fewer by two "
                "at least",
                *(shard, holders.count(self._me), len(holders)),
            )


def _place_of(endpoint: Endpoint) -> Place:
    return endpoint.host, endpoint.port
