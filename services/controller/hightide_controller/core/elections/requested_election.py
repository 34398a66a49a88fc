"""A requested election, as a pure function of what is known (KIP-183, KIP-460).

stores.py calls it instead of `partition_election.decide` as long as the election is in
`ClusterState.elections`. So it is decided on what ZooKeeper holds, decided again after a refused write, and
sent like any decision.
"""

from __future__ import annotations

from msgspec.structs import replace

from hightide_controller.core.effects import ElectionOutcome, PartitionOutcome, Refusal
from hightide_controller.core.partition_election import (
    Candidates,
    elected_uncleanly,
    eligible_with,
    isr_that_stays,
    live_eligible,
    recovered_with,
    trusted_isr,
    unclean_leader,
)
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.request_purposes import ElectsLeaders
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, Partition, TopicPartition
from hightide_controller.core.values.requests import ElectionKind

__all__ = ["elect", "settle", "settle_carried"]


def elect(
    kind: ElectionKind, partition: Partition, candidates: Candidates, controller_epoch: int
) -> LeaderAndIsr | PartitionOutcome:
    """What to write for the partition, or the reason why there is nothing to write."""
    if kind is ElectionKind.PREFERRED:
        return _preferred(partition, candidates, controller_epoch)
    return _unclean(partition, candidates, controller_epoch)


def _preferred(
    partition: Partition, candidates: Candidates, controller_epoch: int
) -> LeaderAndIsr | PartitionOutcome:
    name, known, preferred = partition.name, partition.leader_and_isr, partition.replicas[0]
    if known is None:
        message = f"{_dashed(name)} has never had a leader, and gets one when one of its replicas is alive"
        return PartitionOutcome(name, Refusal.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    if known.leader == preferred and preferred in candidates.live:
        return PartitionOutcome(name, None, f"broker {preferred} leads {_dashed(name)} already")
    isr = isr_that_stays(partition.replicas, trusted_isr(known), candidates)
    if preferred not in candidates.live:
        reason = "is not alive, or its data directory failed"
    elif preferred in candidates.leaving:
        reason = "is shutting down"
    elif preferred in candidates.silent:
        reason = "does not acknowledge what the controller sends"
    elif preferred not in isr:
        reason = f"is not in the ISR {list(known.isr)}"
    else:
        return replace(
            known,
            leader=preferred,
            leader_epoch=known.leader_epoch + 1,
            isr=isr,
            controller_epoch=controller_epoch,
            partition_epoch=known.partition_epoch + 1,
            eligible=eligible_with(partition, known, isr, candidates),
            recovered=recovered_with(partition, known, isr, candidates),
        )
    message = f"the preferred replica of {_dashed(name)}, broker {preferred}, {reason}"
    return PartitionOutcome(name, Refusal.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)


def _unclean(
    partition: Partition, candidates: Candidates, controller_epoch: int
) -> LeaderAndIsr | PartitionOutcome:
    name, known = partition.name, partition.leader_and_isr
    if known is None:
        message = (
            f"{_dashed(name)} has never had a leader, so it has no records that a clean election could save"
        )
        return PartitionOutcome(name, Refusal.ELECTION_NOT_NEEDED, message)
    if known.leader != NO_LEADER:
        message = f"broker {known.leader} leads {_dashed(name)}; an unclean election is not needed"
        return PartitionOutcome(name, Refusal.ELECTION_NOT_NEEDED, message)
    if isr_that_stays(partition.replicas, trusted_isr(known), candidates) or live_eligible(
        partition, known, candidates
    ):
        message = f"a member of the ISR {list(known.isr)} of {_dashed(name)} is alive, and is elected cleanly"
        return PartitionOutcome(name, Refusal.ELECTION_NOT_NEEDED, message)
    leader = unclean_leader(partition, known, candidates)
    if leader is None:
        message = f"none of the replicas {list(partition.replicas)} of {_dashed(name)} is alive"
        return PartitionOutcome(name, Refusal.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    return elected_uncleanly(partition, known, leader, candidates, controller_epoch)


def settle(state: ClusterState, name: TopicPartition, outcome: PartitionOutcome) -> None:
    """Pass the outcome of a requested election on to its request."""
    election = state.elections.pop(name)
    partition = state.partitions.get(name)
    known = None if partition is None else partition.leader_and_isr
    before = election.before
    if outcome.refusal is not None or outcome.message:
        if before is not None and known is not None and _has_happened(election.kind, before, known, outcome):
            # By a write whose answer was lost.
            outcome = PartitionOutcome(name)
        else:
            before = None
    elected = ElectionOutcome(
        outcome,
        leader=NO_LEADER if known is None else known.leader,
        leader_epoch=0 if known is None else known.leader_epoch,
        previous_leader=NO_LEADER if before is None else before.leader,
        previous_isr=() if before is None else before.isr,
    )
    for request_id in election.request_ids:
        waiter = state.waiters.get(request_id)
        if waiter is not None and isinstance(waiter.purpose, ElectsLeaders):
            waiter.purpose.outcomes[name] = elected
            waiter.is_unwritten = len(waiter.purpose.outcomes) < len(waiter.purpose.names)


def settle_carried(state: ClusterState, names: list[TopicPartition]) -> None:
    """Take note that these decisions are stored: the elections in them are done."""
    for name in names if state.elections else ():
        election = state.elections.get(name)
        if election is not None and election.before is not None:
            settle(state, name, PartitionOutcome(name))


def _has_happened(
    kind: ElectionKind, before: LeaderAndIsr, known: LeaderAndIsr, outcome: PartitionOutcome
) -> bool:
    """Whether there is nothing to do because this very election was stored."""
    if known.leader_epoch <= before.leader_epoch:
        return False
    if kind is ElectionKind.PREFERRED:
        return outcome.refusal is None
    return outcome.refusal is Refusal.ELECTION_NOT_NEEDED and known.leader not in before.isr


def _dashed(name: TopicPartition) -> str:
    return f"{name.topic}-{name.partition}"
