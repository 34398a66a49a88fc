"""The leaderAndISR znode: changed only under the current controller epoch, and only forward."""

from __future__ import annotations

from sim.checkers.checker import Checker
from sim.zookeeper import StateWrite


class Znodes(Checker):
    """Looks at each write once."""

    def check(self) -> None:
        for write in self.world.zookeeper.state_writes:
            self._check(write)
        self.world.zookeeper.state_writes.clear()

    def _check(self, write: StateWrite) -> None:
        before, after = write.before, write.after
        if write.writer in self.world.controllers:
            if after.controller_epoch != write.current_controller_epoch:
                self.violated(
                    f"controller {write.writer} wrote {after} under epoch {after.controller_epoch}; "
                    f"the current one is {write.current_controller_epoch}"
                )
        elif before is not None and is_departure(write):
            return  # It lost its power: its log may be shorter than others count on.
        elif before is None or (before.leader, before.leader_epoch) != (write.writer, after.leader_epoch):
            self.violated(f"{write.writer} changed {before} to {after} without being its leader")
        if after.leader != -1 and after.leader not in after.isr:
            self.violated(f"LeaderInIsr: {after}")
        if before is None:
            return
        if after.leader_epoch < before.leader_epoch:
            self.violated(f"the leader epoch went back: {before} to {after}")
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            self.violated(f"one epoch, two leaders: {before} and {after}")
        unclean = after.unclean_epoch == after.leader_epoch and not before.trusted
        if after.leader not in (-1, before.leader) and after.leader not in before.trusted and not unclean:
            self.violated(f"unclean election: {before} to {after}")


def is_departure(write: StateWrite) -> bool:
    """Whether its writer takes itself out, and says what it has."""
    ends = [each for each in write.after.recovered if each[0] == write.writer]
    return bool(ends) and write.before is not None and write.after == write.before.without(*ends[0])
