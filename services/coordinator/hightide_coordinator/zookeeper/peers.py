"""Watching the processes of other coordinators: one stream to each, whatever number of shards it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hightide_runtime.addresses import HostPort
from hightide_runtime.clock import Clock
from hightide_runtime.process.process_watcher import ProcessWatcher

__all__ = ["COORDINATOR_SERVICE", "Peers"]

COORDINATOR_SERVICE: Final = "hightide.v1.CoordinatorService"


class Peers:
    """Watches the other coordinators. One for each process. See ProcessWatcher for what counts as dead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watchers: dict[HostPort, ProcessWatcher] = {}
        self._told: dict[HostPort, dict[int, Callable[[int | None], None]]] = {}
        """By address and shard: the callback."""

    def watch(self, shard: int, address: HostPort, on_death: Callable[[int | None], None]) -> None:
        """Call back once when the process at this address is dead, for the candidacy of this shard: with the
        wall-clock time in us at which its stream broke, None if it was dead before there was a stream.
        Replaces an earlier watch of the shard."""
        self.unwatch(shard)
        self._told.setdefault(address, {})[shard] = on_death
        if address not in self._watchers:
            self._watchers[address] = ProcessWatcher(
                address,
                COORDINATOR_SERVICE,
                self._clock,
                lambda broke_at_us: self._died(address, broke_at_us),
            )

    def unwatch(self, shard: int) -> None:
        """End the watch of this shard."""
        for address, told in list(self._told.items()):
            if told.pop(shard, None) is not None and not told:
                del self._told[address]
                self._watchers.pop(address).close()

    def is_watching(self, shard: int) -> bool:
        """Whether there is a watch for this shard."""
        return any(shard in told for told in self._told.values())

    def _died(self, address: HostPort, broke_at_us: int) -> None:
        was_reached = self._watchers.pop(address).was_reached
        for on_death in self._told.pop(address).values():
            on_death(broke_at_us if was_reached else None)
