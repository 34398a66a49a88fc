"""The log start: it never falls in a life, nor below what was written down, and passes nothing that was asked
for."""

from __future__ import annotations

from sim.checkers.checker import Checker


class LogStart(Checker):
    """Looks at every replica. Who leads makes no difference: so no leader change lets the start of a replica
    fall that has heard of it."""

    def __init__(self, world: object) -> None:
        super().__init__(world)  # type: ignore[arg-type]
        self._seen: dict[tuple[int, int], int] = {}
        """(broker, life) → its last log start."""

    def check(self) -> None:
        for broker in self.world.brokers.values():
            if not broker.alive:
                continue
            start = broker.state.log_start_offset
            if start != broker.disk.log_start:
                self.violated(f"{broker.broker_id} begins at {broker.disk.log_start}, its core at {start}")
            key = (broker.broker_id, broker.lives)
            before = max(self._seen.get(key, 0), broker.disk.log_start_written)
            # Where records were lost that had been deleted, a log begins where its leader's does.
            if start < before and self.world.unclean_epoch == 0:
                self.violated(f"{broker.broker_id} went back from {before} to {start}")
            if start > self.world.asked_before:
                self.violated(
                    f"{broker.broker_id} begins at {start}; nobody asked for more than "
                    f"{self.world.asked_before}"
                )
            self._seen[key] = start
