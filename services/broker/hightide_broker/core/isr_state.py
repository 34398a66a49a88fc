"""The in-sync replica set as its leader sees it (V3 G; KIP-497).

A leader requests a change of the ISR by a conditional set in ZooKeeper. The change is certain only when the
answer is there. Until then the leader must not commit on less than *both* sets agree on. So `maximal` is
committed ∪ pending, and the high watermark is the minimum over it and over the eligible replicas, which the
controller elects if no member of the ISR is alive (KIP-966). These are all replicas that may lead next.

A replica that leaves an ISR which falls below min.insync.replicas has all committed records, and keeps having
them, because nothing is committed below that number. So it stays eligible until a large enough ISR is stored.
"""

from __future__ import annotations

from typing import TypeAlias

from hightide_runtime.znodes.recovered_log import RecoveredLog
from msgspec import Struct


class CommittedIsr(Struct, frozen=True):
    """The ISR is the one in the znode. Transitions: a follower catches up => PendingExpand; lags =>
    PendingShrink."""

    isr: tuple[int, ...]
    partition_epoch: int
    eligible: tuple[int, ...] = ()
    """Replicas out of the ISR with all committed records."""
    recovered: tuple[RecoveredLog, ...] = ()
    """How far the logs of replicas go that may have lost their ends."""

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
        """The replicas that should be eligible with it."""
        return self.eligible

    @property
    def wanted_recovered(self) -> tuple[RecoveredLog, ...]:
        """The log ends to store with it, of replicas that may have lost some."""
        return self.recovered


class PendingExpand(Struct, frozen=True):
    """`joining` may have joined. Transitions: stored, or found in the znode => Committed; refused for good
    => void, and when the znode is read => Committed."""

    isr: tuple[int, ...]
    joining: tuple[int, ...]
    partition_epoch: int
    wanted: tuple[int, ...]
    """The content of the conditional set: isr and joining, sorted."""
    incarnations: tuple[int, ...]
    """The lives in which the joining replicas fetched; the conditional set is valid for these only."""
    is_void: bool = False
    """The set was refused because one of them has begun another life, so it will not happen any more. Whether
    an earlier attempt has happened is being read."""
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


class PendingShrink(Struct, frozen=True):
    """`leaving` may have left, and the eligible may be so no more. Transitions: stored, or found in the
    znode => Committed."""

    isr: tuple[int, ...]
    leaving: tuple[int, ...]
    partition_epoch: int
    wanted: tuple[int, ...]
    """The content of the conditional set: isr without leaving."""
    eligible: tuple[int, ...] = ()
    wanted_eligible: tuple[int, ...] = ()
    """The eligible replicas in it: if the ISR is too small, those that leave too."""
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


IsrState: TypeAlias = CommittedIsr | PendingExpand | PendingShrink


def expand(
    state: CommittedIsr, joining: tuple[int, ...], incarnations: tuple[int, ...], minimum: int
) -> PendingExpand:
    """Request that `joining` are added, each in the life in which it fetched. `minimum`: as in
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


def shrink(state: CommittedIsr, leaving: tuple[int, ...], minimum: int) -> PendingShrink:
    """Request that `leaving` are removed. `minimum`: as in `eligible_with`."""
    assert leaving
    assert set(leaving) < set(state.isr), "an ISR never becomes empty: its leader stays"
    return _pending(state, leaving, minimum)


def settle(state: CommittedIsr, minimum: int) -> PendingShrink | None:
    """Request that the ISR is stored as it is, without eligible replicas; None if there are none, or the ISR
    is too small. A leader that may commit with this ISR must not do so while others may be elected."""
    if not state.eligible or eligible_with(state, state.isr, minimum):
        return None
    return _pending(state, (), minimum)


def _pending(state: CommittedIsr, leaving: tuple[int, ...], minimum: int) -> PendingShrink:
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


def eligible_with(state: CommittedIsr, wanted: tuple[int, ...], minimum: int) -> tuple[int, ...]:
    """The eligible replicas beside an ISR: none if it has `minimum` members and so may commit. Otherwise
    those that were eligible before or leave the ISR (KIP-966)."""
    if len(wanted) >= minimum:
        return ()
    return tuple(sorted({*state.eligible, *state.isr} - {*wanted}))


def recovered_with(state: CommittedIsr, wanted: tuple[int, ...], minimum: int) -> tuple[RecoveredLog, ...]:
    """The recorded log ends of replicas that may have lost some: none beside an ISR that is large enough,
    otherwise those of replicas out of it. They may be all that is left, if the few of this ISR lose
    theirs."""
    if not state.recovered or len(wanted) >= minimum:
        return ()
    return tuple(log for log in state.recovered if log.broker_id not in wanted)
