"""What must hold of leader and ISR znodes where no controller writes them, and what is well after healing."""

from __future__ import annotations

from typing import Final

from hightide_runtime.znodes.led_nodes import FIRST_EPOCH
from sim.checkers import ALL_CHECKERS, Checker
from sim.checkers.healed import Healed
from sim.checkers.znodes import Znodes, is_departure
from sim.zookeeper import StateWrite


class LedZnodes(Checker):
    """Each election begins the next epoch, of one that is trusted; each other change is its leader's."""

    def __init__(self, world: object) -> None:
        super().__init__(world)  # type: ignore[arg-type]
        self._led: dict[int, int] = {}
        """Leader epoch → who was elected in it."""

    def check(self) -> None:
        for write in self.world.zookeeper.state_writes:
            self._check(write)
        self.world.zookeeper.state_writes.clear()

    def _check(self, write: StateWrite) -> None:
        before, after = write.before, write.after
        if after.leader != -1 and after.leader not in after.isr:
            self.violated(f"LeaderInIsr: {after}")
        if after.leader != -1 and not {log[0] for log in after.recovered}.isdisjoint(after.isr):
            # The end of a move goes by the ISR alone (`moves.lead_on`).
            self.violated(f"the ISR of a leader has a member whose log may have lost its end: {after}")
        if before is None:
            if (after.leader, after.leader_epoch) != (write.writer, FIRST_EPOCH):
                self.violated(f"{write.writer} began with {after}")
            self._led[after.leader_epoch] = after.leader
            return
        if after.leader_epoch > before.leader_epoch:
            self._check_election(write)
        elif after.leader_epoch < before.leader_epoch:
            self.violated(f"the leader epoch went back: {before} to {after}")
        elif after.leader not in (-1, before.leader):
            self.violated(f"one epoch, two leaders: {before} and {after}")
        elif (
            after._replace(leader=before.leader) != before
            and not is_departure(write)
            and not self._is_taken_back(write)
            and self._led.get(after.leader_epoch) != write.writer
        ):
            self.violated(f"{write.writer} changed {before} to {after} without being its leader")

    def _is_taken_back(self, write: StateWrite) -> bool:
        """Whether an admin took back a move: those that are not assigned any more left, and the leader's term
        is over."""
        before, after = write.before, write.after
        assert before is not None
        gone = set(before.isr) - set(after.isr)
        rest = after._replace(
            leader=before.leader, isr=before.isr, eligible=before.eligible, recovered=before.recovered
        )
        is_smaller = set(after.eligible) <= set(before.eligible) and set(after.isr) <= set(before.isr)
        is_safe = bool(set(after.isr) & set(before.trusted))
        assigned = self.world.assigned
        return rest == before and after.leader == -1 and is_smaller and is_safe and gone.isdisjoint(assigned)

    def _check_election(self, write: StateWrite) -> None:
        before, after = write.before, write.after
        assert before is not None
        if (after.leader, after.leader_epoch) != (write.writer, before.leader_epoch + 1):
            self.violated(f"{write.writer} made {after} of {before}")
        if before.leader not in (-1, write.writer):
            self.violated(f"{write.writer} took the place of a leader: {before} to {after}")
        self._led[after.leader_epoch] = after.leader
        unclean = after.unclean_epoch == after.leader_epoch and not before.trusted
        if after.leader not in before.trusted and not unclean:
            self.violated(f"unclean election: {before} to {after}")


class LedNumbers(Checker):
    """A partition whose number was used before begins above all epochs of the earlier ones, and is led from
    logs of its own."""

    def check(self) -> None:
        for wrong in self.world.zookeeper.wrong:  # type: ignore[attr-defined]
            self.violated(wrong)
        for broker in self.world.brokers.values():
            for wrong in broker.wrong:  # type: ignore[attr-defined]
                self.violated(wrong)


LED_CHECKERS: Final = (*(each for each in ALL_CHECKERS if each is not Znodes), LedZnodes, LedNumbers)


class LedHealed(Healed):
    """As ever; and the preferred replica leads, queues are empty, and nothing is being moved."""

    def check(self) -> None:
        super().check()
        world = self.world
        if world.leader != world.assigned[0]:
            self.violated(f"{world.leader} leads, {world.assigned[0]} is preferred")
        world.check_nothing_waits()  # type: ignore[attr-defined]
