"""Where all that had everything may have lost the ends of their logs, the best of them leads, and no record
is given up that fewer disks lost than min.insync.replicas."""

from __future__ import annotations

from sim.checkers.checker import Checker
from sim.zookeeper import StateWrite


class LostPower(Checker):
    """Looks at each election that may lose records. What is lost for good is not asked for any more."""

    def check(self) -> None:
        for write in self.world.zookeeper.state_writes:
            if write.before is not None and write.after.unclean_epoch > write.before.unclean_epoch:
                self._check(write)

    def _check(self, write: StateWrite) -> None:
        world, before, after = self.world, write.before, write.after
        assert before is not None
        if before.trusted:
            self.violated(f"{sorted(before.trusted)} were to be waited for: {before} to {after}")
        kept = world.brokers[after.leader].disk
        told = {member: (epoch, end) for member, epoch, end in before.recovered}
        _, told_end = told.get(after.leader, (-1, 0))
        if kept.is_doubtful and len(kept.log) < told_end:
            return  # It died since it was chosen, and says what it has left before it leads.
        # One that is alive has less than it told of where it has since cut what another leader never had.
        # It fetches from nobody before it leads, so its log is what it was elected with.
        for offset, record in sorted(world.acked.items()):
            if kept.log[offset : offset + 1] == [record]:
                continue
            del world.acked[offset]
            if offset < world.deleted_before:
                continue
            for member in sorted(before.doubted):
                log = world.brokers[member].disk.log
                epoch, end = told[member]
                # What it has of a later epoch than it told of, it has fetched since.
                if record[0] <= epoch and offset < end and log[offset : offset + 1] == [record]:
                    self.violated(f"{member} told of {record} at {offset}; {after.leader} leads without it")
            lost_by = world.losses.get(record, set())
            if len(lost_by) < world.promised_copies:
                self.violated(f"{record} at {offset} is given up, and only the disks {lost_by} have lost it")
        world.unclean_epoch = after.leader_epoch
        world.kept = tuple(kept.log)
        # What comes behind that log was deleted by nobody, though other records there were.
        world.deleted_before = min(world.deleted_before, len(kept.log))
