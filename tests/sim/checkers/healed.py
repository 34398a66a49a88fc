"""After healing: a leader, ISR = AR, HW = LEO everywhere, equal logs, and the next record is acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.checkers.checker import Checker

if TYPE_CHECKING:
    from sim.world import World


class Healed(Checker):
    """Not an invariant: asked once, when faults have ended and time has passed."""

    def check(self) -> None:
        world = self.world
        leader = world.leader
        if leader == -1:
            self.violated(f"no leader: {world.zookeeper.state()}")
        if set(world.isr) != set(world.assigned):
            self.violated(f"the ISR is {world.isr}")
        first = world.brokers[leader]
        if not first.state.is_leader:
            self.violated(f"{leader} does not lead, it is {first.state.role}")
        for broker in (world.brokers[broker_id] for broker_id in world.assigned):
            state = broker.state
            if state.leader_epoch != first.state.leader_epoch:
                self.violated(f"{broker.broker_id} is in epoch {state.leader_epoch}")
            if not state.high_watermark == state.log_end_offset == first.state.log_end_offset:
                self.violated(
                    f"{broker.broker_id} has HW {state.high_watermark}, LEO {state.log_end_offset}; "
                    f"the leader's log ends at {first.state.log_end_offset}"
                )
            start = max(broker.disk.log_start, first.disk.log_start)
            if broker.disk.log[start:] != first.disk.log[start:]:
                self.violated(f"the logs of {broker.broker_id} and {leader} differ")
            if state.log_start_offset < first.state.log_start_offset:
                self.violated(
                    f"{broker.broker_id} begins at {state.log_start_offset}, its leader at "
                    f"{first.state.log_start_offset}"
                )

    def check_progress(self) -> None:
        """One more record, and it is acknowledged."""
        world = self.world
        value = world.produce(world.leader)
        world.converge(2)
        if value is None:
            self.violated("the next record is refused")
        self.check_acknowledged(value)

    def check_acknowledged(self, value: int) -> None:
        """The producer of this record does not wait any more."""
        if all(record[1] != value for record in self.world.acked.values()):
            self.violated(f"record {value} is not acknowledged")


def heal(world: World) -> None:
    """Faults end; all must be well after a while."""
    world.settle()
    world.heal()
    world.converge()
    healed = Healed(world)
    healed.check()
    healed.check_progress()
