"""StrongIsr: whatever any presumed leader calls committed is in the log of every member of the true ISR."""

from __future__ import annotations

from sim.checkers.checker import Checker


class StrongIsr(Checker):
    """For each broker that believes to lead, its log below its HW equals that of each stored ISR member.

    WeakIsr is the same over the ISR that the presumed leader believes in; both are checked.
    """

    def check(self) -> None:
        world = self.world
        for broker in world.brokers.values():
            if not broker.alive or broker.state.leading is None:
                continue
            if broker.state.leader_epoch < world.unclean_epoch:
                continue  # What it has committed may be lost since.
            high_watermark = broker.state.high_watermark
            committed = broker.disk.log[:high_watermark]
            believed = broker.state.leading.isr
            for member in sorted({*world.electable, *believed.isr}):
                if not world.counts(member, None if member in world.electable else believed):
                    continue
                held = world.brokers[member].disk
                start = max(broker.disk.log_start, held.log_start)
                # What lies before was deleted.
                if len(held.log) < high_watermark or (held.log[start:high_watermark] != committed[start:]):
                    name = "StrongIsr" if member in world.electable else "WeakIsr"
                    self.violated(
                        f"({name}) leader {broker.broker_id} in epoch {broker.state.leader_epoch} has "
                        f"committed {committed}; ISR member {member} has {world.brokers[member].disk.log}"
                    )
