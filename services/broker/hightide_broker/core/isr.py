"""The in-sync replica set as its leader sees it (V3 G; KIP-497).

A change of the ISR is asked of ZooKeeper by a conditional set and is certain only when the answer is
there. Until then the leader must not commit on less than *both* sets agree on: `maximal` is committed ∪
pending, and the high watermark is the minimum over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Committed:
    """The ISR is what the znode says. Transitions: a follower catches up => PendingExpand; lags =>
    PendingShrink."""

    isr: tuple[int, ...]
    partition_epoch: int

    @property
    def maximal(self) -> tuple[int, ...]:
        """Every replica that may be in the stored ISR."""
        return self.isr

    @property
    def wanted(self) -> tuple[int, ...]:
        """The ISR that the leader wants stored."""
        return self.isr


@dataclass(frozen=True, slots=True)
class PendingExpand:
    """`joining` may have joined. Transitions: stored, or found in the znode => Committed; refused for good
    => void, and when the znode is read => Committed."""

    isr: tuple[int, ...]
    joining: tuple[int, ...]
    partition_epoch: int
    wanted: tuple[int, ...]
    """What the conditional set holds: isr and joining, sorted."""
    incarnations: tuple[int, ...]
    """The lives in which those that join fetched; the conditional set holds for these only."""
    is_void: bool = False
    """The set was refused because one of them has begun another life: it will not happen any more. Whether
    an earlier try of it has happened is being read."""

    @property
    def maximal(self) -> tuple[int, ...]:
        """Every replica that may be in the stored ISR: those that join too."""
        return self.wanted


@dataclass(frozen=True, slots=True)
class PendingShrink:
    """`leaving` may have left. Transitions: stored, or found in the znode => Committed."""

    isr: tuple[int, ...]
    leaving: tuple[int, ...]
    partition_epoch: int
    wanted: tuple[int, ...]
    """What the conditional set holds: isr without leaving."""

    @property
    def maximal(self) -> tuple[int, ...]:
        """Every replica that may be in the stored ISR: those that leave are still counted."""
        return self.isr


IsrState: TypeAlias = Committed | PendingExpand | PendingShrink


def expand(state: Committed, joining: tuple[int, ...], incarnations: tuple[int, ...]) -> PendingExpand:
    """Ask for `joining` to be taken in, each in the life in which it fetched."""
    assert joining
    assert len(joining) == len(incarnations)
    assert not set(joining) & set(state.isr)
    wanted = tuple(sorted({*state.isr, *joining}))
    return PendingExpand(state.isr, joining, state.partition_epoch, wanted, incarnations)


def shrink(state: Committed, leaving: tuple[int, ...]) -> PendingShrink:
    """Ask for `leaving` to be taken out."""
    assert leaving
    assert set(leaving) < set(state.isr), "an ISR never becomes empty: its leader stays"
    return PendingShrink(
        state.isr, leaving, state.partition_epoch, tuple(r for r in state.isr if r not in leaving)
    )
