"""Acknowledged ⊆ the log of every ISR member and of who is eligible: whoever may lead next has what producers
were promised, but for what an operator has deleted."""

from __future__ import annotations

from sim.checkers.checker import Checker


class Acknowledged(Checker):
    """Each acknowledged record is at its offset in the log of every member of the stored ISR, and of
    those that may be elected beside it."""

    def check(self) -> None:
        world = self.world
        for offset, record in world.contradictions:
            self.violated(f"{world.acked[offset]} and {record} are both acknowledged at {offset}")
        for member in world.electable:
            if not world.counts(member):
                continue
            disk = world.brokers[member].disk
            log = disk.log
            gone_before = min(disk.log_start, world.deleted_before)
            for offset, record in world.acked.items():
                if offset < gone_before:
                    continue
                if offset >= len(log) or log[offset] != record:
                    held = log[offset] if offset < len(log) else "nothing"
                    self.violated(f"acknowledged {record} at {offset}; {member}, which may lead, has {held}")
