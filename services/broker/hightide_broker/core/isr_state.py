"""The in-sync replica set as its leader sees it (V3 G; KIP-497).

A change of the ISR is asked of ZooKeeper by a conditional set and is certain only when the answer is
there. Until then the leader must not commit on less than *both* sets agree on: `maximal` is committed ∪
pending, and the high watermark is the minimum over it and over the eligible, whom the controller elects where
nobody of the ISR is alive (KIP-966): all who may lead next.

Whoever leaves an ISR that falls below min.insync.replicas holds all that is committed, and goes on holding
it, since nothing is committed below that. So it stays eligible, until an ISR that is large enough is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class RecoveredLog(NamedTuple):
    """What a replica had after it may have lost the end of its log."""

    broker_id: int
    leader_epoch: int
    """The latest in its log; -1 where it had no record."""
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The ISR is what the znode says. Transitions: a follower catches up => PendingExpand; lags =>
    PendingShrink."""

    isr: tuple[int, ...]
    partition_epoch: int
    eligible: tuple[int, ...] = ()
    """Out of the ISR; hold all that is committed."""
    recovered: tuple[RecoveredLog, ...] = ()
    """What replicas had that may have lost the end of their logs."""

    @property
    def maximal(self) -> tuple[int, ...]:
        """Every replica that may be in the stored ISR."""
        return self.isr

    @property
    def electable(self) -> tuple[int, ...]:
        """Every replica that may be elected next."""
        return self.isr + self.eligible if self.eligible else self.isr

    @property
    def wanted(self) -> tuple[int, ...]:
        """The ISR that the leader wants stored."""
        return self.isr

    @property
    def wanted_eligible(self) -> tuple[int, ...]:
        """Who is to be eligible with it."""
        return self.eligible

    @property
    def wanted_recovered(self) -> tuple[RecoveredLog, ...]:
        """What is to be remembered with it of logs that may have lost their ends."""
        return self.recovered


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
    eligible: tuple[int, ...] = ()
    wanted_eligible: tuple[int, ...] = ()
    recovered: tuple[RecoveredLog, ...] = ()
    wanted_recovered: tuple[RecoveredLog, ...] = ()

    @property
    def maximal(self) -> tuple[int, ...]:
        """Every replica that may be in the stored ISR: those that join too."""
        return self.wanted

    @property
    def electable(self) -> tuple[int, ...]:
        """Every replica that may be elected next, whichever of the two is stored."""
        return self.wanted + self.eligible if self.eligible else self.wanted


@dataclass(frozen=True, slots=True)
class PendingShrink:
    """`leaving` may have left, and the eligible may be so no more. Transitions: stored, or found in the
    znode => Committed."""

    isr: tuple[int, ...]
    leaving: tuple[int, ...]
    partition_epoch: int
    wanted: tuple[int, ...]
    """What the conditional set holds: isr without leaving."""
    eligible: tuple[int, ...] = ()
    wanted_eligible: tuple[int, ...] = ()
    """What it holds beside: where the ISR is too small, those that leave too."""
    recovered: tuple[RecoveredLog, ...] = ()
    wanted_recovered: tuple[RecoveredLog, ...] = ()

    @property
    def maximal(self) -> tuple[int, ...]:
        """Every replica that may be in the stored ISR: those that leave are still counted."""
        return self.isr

    @property
    def electable(self) -> tuple[int, ...]:
        """Every replica that may be elected next, whichever of the two is stored."""
        return self.isr + self.eligible if self.eligible else self.isr


IsrState: TypeAlias = Committed | PendingExpand | PendingShrink


def expand(
    state: Committed, joining: tuple[int, ...], incarnations: tuple[int, ...], minimum: int
) -> PendingExpand:
    """Ask for `joining` to be taken in, each in the life in which it fetched. `minimum`: as in
    `eligible_with`."""
    assert joining
    assert len(joining) == len(incarnations)
    assert not set(joining) & set(state.isr)
    wanted = tuple(sorted({*state.isr, *joining}))
    return PendingExpand(
        state.isr,
        joining,
        state.partition_epoch,
        wanted,
        incarnations,
        eligible=state.eligible,
        wanted_eligible=eligible_with(state, wanted, minimum),
        recovered=state.recovered,
        wanted_recovered=recovered_with(state, wanted, minimum),
    )


def shrink(state: Committed, leaving: tuple[int, ...], minimum: int) -> PendingShrink:
    """Ask for `leaving` to be taken out. `minimum`: as in `eligible_with`."""
    assert leaving
    assert set(leaving) < set(state.isr), "an ISR never becomes empty: its leader stays"
    return _pending(state, leaving, minimum)


def settle(state: Committed, minimum: int) -> PendingShrink | None:
    """Ask for the ISR to be stored as it is, with nobody eligible beside it; None where nobody is, or it is
    too small. A leader that may commit with this ISR may not do so while others may be elected."""
    if not state.eligible or eligible_with(state, state.isr, minimum):
        return None
    return _pending(state, (), minimum)


def _pending(state: Committed, leaving: tuple[int, ...], minimum: int) -> PendingShrink:
    wanted = tuple(r for r in state.isr if r not in leaving)
    return PendingShrink(
        state.isr,
        leaving,
        state.partition_epoch,
        wanted,
        eligible=state.eligible,
        wanted_eligible=eligible_with(state, wanted, minimum),
        recovered=state.recovered,
        wanted_recovered=recovered_with(state, wanted, minimum),
    )


def eligible_with(state: Committed, wanted: tuple[int, ...], minimum: int) -> tuple[int, ...]:
    """Who is eligible beside an ISR: nobody where it has `minimum` members and so may commit, else whoever
    was so or leaves the ISR (KIP-966)."""
    if len(wanted) >= minimum:
        return ()
    return tuple(sorted({*state.eligible, *state.isr} - {*wanted}))


def recovered_with(state: Committed, wanted: tuple[int, ...], minimum: int) -> tuple[RecoveredLog, ...]:
    """What is remembered of logs that may have lost their ends: nothing beside an ISR that is large enough,
    else that of those out of it. It may be all that is left, where the few of this ISR lose theirs."""
    if not state.recovered or len(wanted) >= minimum:
        return ()
    return tuple(log for log in state.recovered if log.broker_id not in wanted)
