"""Watches the processes of other coordinators, by one stream to each for all of its shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hightide_runtime.addresses import HostPort
from hightide_runtime.clock import Clock
from hightide_runtime.process.process_watcher import ProcessWatcher
from hightide_runtime.serving.channels import OpenChannel

__all__ = ["COORDINATOR_SERVICE", "PeerWatch"]

COORDINATOR_SERVICE: Final = "hightide.v1.CoordinatorService"


class PeerWatch:
    """The watches of other coordinators. One for each process. ProcessWatcher says when a process counts as
    dead."""

    def __init__(self, clock: Clock, open_channel: OpenChannel) -> None:
        self._clock = clock
        self._open_channel = open_channel
        self._watchers: dict[HostPort, ProcessWatcher] = {}
        self._callbacks: dict[HostPort, dict[int, Callable[[int | None], None]]] = {}
        """The callbacks, by address and shard."""

    def watch(self, shard: int, address: HostPort, on_death: Callable[[int | None], None]) -> None:
        """Call `on_death` once when the process at this address is dead, for the candidacy of this shard. It
        gets the wall-clock time in microseconds at which the stream broke, or None if there was no stream.
        Replaces an earlier watch of the shard."""
        self.unwatch(shard)
        self._callbacks.setdefault(address, {})[shard] = on_death
        if address not in self._watchers:
            self._watchers[address] = ProcessWatcher(
                address,
                COORDINATOR_SERVICE,
                self._clock,
                self._open_channel,
                lambda broke_at_us: self._died(address, broke_at_us),
            )

    def unwatch(self, shard: int) -> None:
        """End the watch of this shard."""
        for address, callbacks in list(self._callbacks.items()):
            if callbacks.pop(shard, None) is not None and not callbacks:
                del self._callbacks[address]
                self._watchers.pop(address).close()

    def is_watching(self, shard: int) -> bool:
        """Whether there is a watch for this shard."""
        return any(shard in callbacks for callbacks in self._callbacks.values())

    def _died(self, address: HostPort, broke_at_us: int) -> None:
        was_reached = self._watchers.pop(address).was_reached
        for on_death in self._callbacks.pop(address).values():
            on_death(broke_at_us if was_reached else None)
