"""Which mends of the consumer coordinator text are in force (C1 to C7).

Production always runs with all of them. Tests turn one off to show that an invariant then goes red.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALL_MENDS", "Mends"]


@dataclass(frozen=True, slots=True)
class Mends:
    """One switch a mend; built by tests only, everyone else uses ALL_MENDS."""

    answers_matched: bool = True
    """C1: an answer counts for the order whose sequence it names. Off: any answer of its kind clears whatever
    order is open, also a late one that answers an attempt of before."""
    commits_fenced: bool = True
    """C2: a commit counts for (member, generation of the partition) only. Off: whoever asks may commit."""
    positions_fenced: bool = True
    """C3: positions in answers come from the owner and move forward. Off: they are taken as they come."""
    owners_before_start: bool = True
    """C4: owners are durable before StartFetcher. Off: §9 step 4.4 before 4.6."""
    epochs_fenced: bool = True
    """C5: a coordinator whose epoch is over writes nothing. Off: it goes on; simulated stores look at this
    switch too, and write for whoever asks, and simulated consumers obey any epoch."""
    changes_rerun: bool = True
    """C6: a change during a rebalance is followed by another. Off: the text's "if the bit is not set"."""
    only_moved_stop: bool = True
    """C7: only what moves is stopped, and changes are gathered. Off: every change at once stops everyone."""


ALL_MENDS = Mends()
