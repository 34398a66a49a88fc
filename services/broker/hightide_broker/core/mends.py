"""Which mends of the replication text are in force. Only a test ever builds another value than `Mends()`.

The text (V3) loses committed records as written; docs/protocol.md, "The safety rules" lists what holds
instead. Each mend that lives in the broker core has one switch here, so that a simulation can show that the
invariants need it. The mends that live in the controller have their own switches in the controller's core.
Each switch names its rule there, or a KIP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Mends:
    """The switches. True is what Hightide does, False is what V3 says."""

    truncate_by_epoch: bool = True
    """Truncate by epoch (KIP-101, KIP-279). Off: become_follower truncates to its high watermark (V3 C,
    becomeFollower)."""

    fence_by_epoch: bool = True
    """Fencing by epochs (KIP-320). Off: epochs in commands, fetches and epoch questions are not compared
    (V3 C, G)."""

    high_watermark_never_falls: bool = True
    """The high watermark never falls. Off: it is the minimum over the ISR, whatever it was before (V3 G)."""

    join_at_epoch_start: bool = True
    """Joining and leaving the ISR (KAFKA-7128). Off: a follower joins when its lag is small (V3 G,
    MIN_BYTES_LAG)."""

    shrink_on_timer: bool = True
    """Joining and leaving the ISR. Off: it is only looked at when some follower fetches (V3 G, the "???")."""

    maximal_isr: bool = True
    """The high watermark never falls (KIP-497). Off: it counts the ISR that the leader asked for, before that
    is stored."""

    spent_epochs: bool = True
    """A restarted broker is not trusted. Off: a leader that was restarted leads on in the epoch that it led
    in before."""

    fenced_joins: bool = True
    """Joining and leaving the ISR (KIP-841, KIP-903). Off: a follower joins by a fetch of an earlier life of
    it."""

    commits_by_min_insync: bool = True
    """KIP-966. Off: an ISR below min.insync.replicas commits, though it does not acknowledge (V3 G)."""

    heeds_newer_isr: bool = True
    """A restarted broker is not trusted. Off: a leader commits by the ISR that it knows, though a fetch tells
    that another is stored."""


V3_TO_THE_LETTER: Final = Mends(
    truncate_by_epoch=False,
    fence_by_epoch=False,
    high_watermark_never_falls=False,
    join_at_epoch_start=False,
    shrink_on_timer=False,
    maximal_isr=False,
    spent_epochs=False,
    fenced_joins=False,
    commits_by_min_insync=False,
    heeds_newer_isr=False,
)
"""Every mend of the broker core off. Nothing but a test may use it."""

SMALL_LAG_RECORDS: Final = 4
"""V3's MIN_BYTES_LAG, in records; used only where `join_at_epoch_start` is off."""
