"""Which mends of the replication text are in force: docs/protocol.md, "The safety rules".

Production always runs with all of them. Tests turn one off to show that the invariants then go red,
and all of them off to show that V3 to the letter loses committed data.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALL_MENDS", "V3_TO_THE_LETTER", "Mends"]


@dataclass(frozen=True, slots=True)
class Mends:
    """One switch a mend; built by tests only, everyone else uses ALL_MENDS."""

    fenced_writes: bool = True
    """Controller writes are fenced: each checks /controller_epoch. Off: a deposed controller still writes."""
    clean_elections: bool = True
    """Only an ISR member leads, unless the topic asks otherwise. Off: V3 A.3.2, any live replica."""
    last_isr_remembered: bool = True
    """Only an ISR member leads: the ISR stays when its last member dies. Off: it becomes empty."""
    departures_end_epochs: bool = True
    """Moves go on from ZooKeeper alone: when a replica leaves AR a new leader epoch begins. Off: only where
    the leader changes."""
    new_is_not_offline: bool = True
    """Only an ISR member leads: only a partition without a znode is initialised. Off: V3 D.6, leaderless ones
    start again."""
    eligible_leaders: bool = True
    """KIP-966: who leaves an ISR that commits nothing may be elected. Off: whoever is left alone leads."""
    best_recovered_leads: bool = True
    """A restarted broker is not trusted: where all may have lost the ends of their logs, who has most leads.
    Off: whoever is left in the ISR."""


ALL_MENDS = Mends()
V3_TO_THE_LETTER = Mends(
    fenced_writes=False,
    clean_elections=False,
    last_isr_remembered=False,
    departures_end_epochs=False,
    new_is_not_offline=False,
    eligible_leaders=False,
    best_recovered_leads=False,
)
