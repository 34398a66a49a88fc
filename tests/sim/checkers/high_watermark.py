"""HW: monotone at a leader, ≤ the smallest end over its maximal ISR, and what is below it never changes."""

from __future__ import annotations

from hightide_broker.core.isr_state import IsrState
from hightide_broker.core.replica import Replica
from sim.checkers.checker import Checker
from sim.messages import GONE, Record


class HighWatermark(Checker):
    """Looks at every replica, and remembers what was committed by anyone at each offset."""

    def __init__(self, world: object) -> None:
        super().__init__(world)  # type: ignore[arg-type]
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}
        """(broker, life) → its last high watermark, and the latest leader epoch in its log then."""
        self._committed: list[Record] = []
        self._unclean_epoch = 0

    def check(self) -> None:
        if self._unclean_epoch < self.world.unclean_epoch:
            self._unclean_epoch = self.world.unclean_epoch
            self._forget_lost(self.world.kept)
        for broker in self.world.brokers.values():
            if not broker.alive:
                continue
            state = broker.state
            key = (broker.broker_id, broker.lives)
            before, epoch = self._seen.get(key, (0, -1))
            if (
                state.high_watermark < before
                and epoch >= self._unclean_epoch
                and not self._is_begun_anew(state, before, epoch)
            ):
                self.violated(f"{broker.broker_id} went back from {before} to {state.high_watermark}")
            self._seen[key] = (state.high_watermark, state.epochs.latest_epoch)
            if state.leading is not None and state.leader_epoch >= self._unclean_epoch:
                self._check_leader(broker.broker_id, state.leading.isr, state.high_watermark)
                log = broker.disk.log[: state.high_watermark]
                # What lies before that is not on its disk is for Acknowledged to miss.
                start = max(state.log_start_offset, broker.disk.log_start)
                self._remember(broker.broker_id, log, start)

    def _is_begun_anew(self, state: Replica, before: int, epoch: int) -> bool:
        """Whether all that a replica had below its high watermark was deleted, and the best of those that
        lost their ends leads since: it may have lost the deletion too, and others begin where it does."""
        return before <= self.world.deleted_before and epoch < state.decision.unclean_epoch

    def _check_leader(self, leader: int, isr: IsrState, high_watermark: int) -> None:
        for member in isr.maximal:
            end_offset = len(self.world.brokers[member].disk.log)
            if end_offset < high_watermark and self.world.counts(member, isr):
                self.violated(
                    f"leader {leader} committed up to {high_watermark}; {member} in its maximal ISR ends at "
                    f"{end_offset}"
                )

    def _forget_lost(self, kept: tuple[Record, ...]) -> None:
        """All had lost their ends: what was committed, and is not in the log of the best of them, is gone."""
        both = zip(kept, self._committed, strict=False)
        differs = next((at for at, (held, shown) in enumerate(both) if held not in (shown, GONE)), len(kept))
        del self._committed[differs:]

    def _remember(self, leader: int, committed: list[Record], start: int) -> None:
        common = min(len(committed), len(self._committed))
        for at in range(start, common):
            if self._committed[at] == GONE:  # Its leader lacked it; another one has it.
                self._committed[at] = committed[at]
        changed = (at for at in range(start, common) if committed[at] != self._committed[at])
        if (first := next(changed, None)) is not None:
            if not self._is_given_up(self._committed[first]):
                self.violated(
                    f"leader {leader} shows {committed} to consumers; they were shown {self._committed}"
                )
            del self._committed[first:]
        self._committed += committed[len(self._committed) :]

    def _is_given_up(self, record: Record) -> bool:
        """Whether as many disks have lost a record as have it when it is acknowledged. After an election of
        one that lost its end, that one may lose it again, alone in the ISR."""
        return len(self.world.losses.get(record, ())) >= self.world.promised_copies
