"""The next step of one partition that moves, as a pure function of what ZooKeeper holds (V3 F).

    AR = original        the znode holds RAR alone: begin   AR := original ∪ RAR, original is written down
    AR = original ∪ RAR  not all of RAR in the ISR: wait    leaders let the new replicas in
    AR = original ∪ RAR  RAR ⊆ ISR: complete                AR, ISR := RAR, leader in RAR, znode deleted

It is computed again after every event about the partition, so a move continues from wherever a crash, a
refused write, another controller or an operator has left it. Completion requires only RAR to be in sync, so a
dead original replica holds up nothing. The leader changes only if it must, and the leader epoch with it. But
the epoch also grows when a replica leaves AR, so that the replica's further fetches are from an old epoch.
Otherwise a replica that is moved back at once could join the ISR before it gets the StopReplica of its
departure.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from hightide_controller.core.effects import Refusal
from hightide_controller.core.events import StoredReassignment
from hightide_controller.core.partition_election import Candidates, decide, who_has_most
from hightide_controller.core.state.topic_rules import Fault
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, Partition

__all__ = [
    "MoveBlocked",
    "MoveConditions",
    "MoveStep",
    "MoveWaits",
    "step_back",
    "step_forward",
    "target_fault",
    "union",
]


class MoveConditions(Struct, frozen=True):
    """What a step depends on besides the partition."""

    candidates: Candidates
    """The brokers that can lead it."""
    eligible: frozenset[int]
    """Brokers that may be given new replicas."""
    registered: frozenset[int]
    controller_epoch: int


class MoveStep(Struct, frozen=True):
    """What to write next, in one multi."""

    replicas: tuple[int, ...]
    """The new AR."""
    decided: LeaderAndIsr | None
    """The new leaderAndISR; None: it has none, or nothing changes."""
    original: tuple[int, ...] = ()
    """The original AR for the znode of the move; empty: the znode is deleted."""


class MoveWaits(Struct, frozen=True):
    """The move is under way. Names brokers that it waits for and that are not alive."""

    absent: tuple[int, ...] = ()


class MoveBlocked(Struct, frozen=True):
    """The move cannot be made, and nothing is lost by leaving everything as it is."""

    refusal: Refusal
    message: str


def union(original: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """AR while a move is under way: the original replicas first, so that the preferred one stays."""
    return (*original, *(broker_id for broker_id in target if broker_id not in original))


def step_forward(
    partition: Partition, znode: StoredReassignment | None, target: tuple[int, ...], around: MoveConditions
) -> MoveStep | MoveWaits | MoveBlocked:
    """The next step of the move of a partition to `target`.

    `znode`: the znode below /admin about it, which may have another target.
    """
    replicas = partition.replicas
    begun = znode is not None and bool(znode.original) and znode.target == target
    if begun and znode is not None and union(znode.original, target) == replicas:
        return _progress(partition, target, around)
    original = znode.original if znode is not None and set(znode.original) <= set(replicas) else ()
    if target == replicas and original in ((), target):
        return MoveStep(target, None)
    if (fault := target_fault(partition, target, around)) is not None:
        return MoveBlocked(*fault)
    known = partition.leader_and_isr
    if known is None and not original:
        # It never had a leader, so there is nothing to copy.
        return MoveStep(target, None)
    if known is not None and set(target) <= set(known.isr):
        shaped = _reshaped(partition, target, around)
        if shaped is not None and shaped.leader != NO_LEADER:
            return MoveStep(target, shaped)
    original = original or replicas
    wide = union(original, target)
    if known is None:
        return MoveStep(wide, None, original)
    shaped = _reshaped(partition, wide, around)
    if shaped is None:
        return MoveBlocked(Refusal.ELIGIBLE_LEADERS_NOT_AVAILABLE, _nobody_left(partition, wide))
    return MoveStep(wide, shaped, original)


def step_back(
    partition: Partition, znode: StoredReassignment | None, around: MoveConditions
) -> MoveStep | MoveBlocked:
    """The one step that cancels a move."""
    if znode is None:
        return MoveBlocked(Refusal.NO_REASSIGNMENT, f"{_dashed(partition)} is not being moved")
    if not znode.original or not set(znode.original) <= set(partition.replicas):
        return MoveStep(partition.replicas, None)
    if partition.leader_and_isr is None:
        return MoveStep(znode.original, None)
    shaped = _reshaped(partition, znode.original, around)
    if shaped is None:
        message = _nobody_left(partition, znode.original)
        return MoveBlocked(Refusal.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"{message}; the move goes on")
    return MoveStep(znode.original, shaped)


def target_fault(partition: Partition, target: tuple[int, ...], around: MoveConditions) -> Fault | None:
    """The reason why these brokers cannot be RAR of a partition; None if they can."""
    dashed = _dashed(partition)
    if not target:
        return Refusal.INVALID_ASSIGNMENT, f"{dashed}: no broker is named; name at least one"
    if len(set(target)) != len(target):
        return Refusal.INVALID_ASSIGNMENT, f"{dashed}: a broker is named twice: {list(target)}"
    if len(target) > len(around.registered | set(partition.replicas)):
        message = (
            f"{dashed}: {len(target)} replicas are more than there are brokers, {len(around.registered)}"
        )
        return Refusal.INVALID_ASSIGNMENT, message
    for broker_id in target:
        if broker_id in partition.replicas or broker_id in around.eligible:
            continue
        if broker_id in around.candidates.leaving:
            reason = "is shutting down"
        elif broker_id in around.registered:
            reason = "is not alive, or its data directory failed"
        else:
            reason = "is not registered"
        return Refusal.INVALID_ASSIGNMENT, (
            f"{dashed}: broker {broker_id} {reason}, so it cannot get a replica; these brokers can: "
            f"{_listed(around.eligible)}"
        )
    return None


def _progress(partition: Partition, target: tuple[int, ...], around: MoveConditions) -> MoveStep | MoveWaits:
    known = partition.leader_and_isr
    live = around.candidates.live
    if known is None:
        return MoveWaits(tuple(broker_id for broker_id in partition.replicas if broker_id not in live))
    missing = [broker_id for broker_id in target if broker_id not in known.isr]
    if not missing:
        shaped = _reshaped(partition, target, around)
        if shaped is not None and shaped.leader != NO_LEADER:
            return MoveStep(target, shaped)
        missing = list(target)
    return MoveWaits(tuple(broker_id for broker_id in missing if broker_id not in live))


def _reshaped(partition: Partition, replicas: tuple[int, ...], around: MoveConditions) -> LeaderAndIsr | None:
    """The leaderAndISR of the partition if these were its replicas.

    None if no member of the ISR is among them, if the partition would lose its leader by it, or if those
    that leave have records which all that stay may have lost: nobody has allowed an unclean election.
    """
    known = partition.leader_and_isr
    assert known is not None, partition.name
    isr = tuple(broker_id for broker_id in known.isr if broker_id in replicas)
    if not isr or who_has_most(partition, known).isdisjoint(replicas):
        return None
    eligible = tuple(broker_id for broker_id in known.eligible if broker_id in replicas)
    kept = replace(known, isr=isr, eligible=eligible)
    shaped = replace(partition, replicas=replicas, leader_and_isr=kept)
    decided = decide(shaped, around.candidates, around.controller_epoch, unclean=False)
    if decided is None:
        epoch = known.partition_epoch + 1
        decided = replace(kept, controller_epoch=around.controller_epoch, partition_epoch=epoch)
    if _departs(partition, replicas) and decided.leader_epoch == known.leader_epoch:
        decided = replace(decided, leader_epoch=known.leader_epoch + 1)
    if decided.leader == NO_LEADER and known.leader != NO_LEADER:
        return None
    return decided


def _departs(partition: Partition, replicas: tuple[int, ...]) -> bool:
    """Whether a replica leaves AR, so that a new leader epoch begins."""
    return not set(partition.replicas) <= set(replicas)


def _nobody_left(partition: Partition, replicas: tuple[int, ...]) -> str:
    known = partition.leader_and_isr
    assert known is not None
    return (
        f"{_dashed(partition)}: none of {list(replicas)} is alive, in the ISR {list(known.isr)} and sure to "
        "have all records, so none of them could lead; try again when one of them is"
    )


def _dashed(partition: Partition) -> str:
    return f"{partition.name.topic}-{partition.name.partition}"


def _listed(broker_ids: Collection[int]) -> str:
    return ", ".join(str(broker_id) for broker_id in sorted(broker_ids)) or "none"
