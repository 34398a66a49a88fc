"""Invariants of a ClusterState that hold between any two events. Tests check them after each event;
O(total)."""

from __future__ import annotations

from hightide_controller.core.partition_election import waited_for
from hightide_controller.core.state.cluster_state import (
    ClusterState,
    Role,
    StoreInFlight,
    TopicStoreInFlight,
    WaitingRequest,
)
from hightide_controller.core.state.request_purposes import (
    AltersTopic,
    CreatesTopic,
    DeletesTopic,
    ElectsLeaders,
    MovesPartitions,
)
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, PartitionState, TopicPartition
from hightide_controller.core.values.requested_changes import RequestedMoves

__all__ = ["check"]


def check(state: ClusterState) -> None:
    """Raise AssertionError that names the violated invariant."""
    if state.role is not Role.ACTIVE:
        assert not state.partitions
        assert not state.brokers
        assert not state.waiters
    _check_partitions(state)
    _check_indexes(state)
    _check_stores(state)
    _check_work(state)
    for broker_id in (*state.dead, *state.silent, *state.shutting_down):
        assert broker_id in state.brokers, f"{broker_id} is marked but not registered"


def _check_partitions(state: ClusterState) -> None:
    assert {name.topic for name in state.partitions} == set(state.topics)
    for name, partition in state.partitions.items():
        assert partition.name == name
        assert partition.replicas == state.topics[name.topic].assignment[name.partition]
        known = partition.leader_and_isr
        if known is None:
            assert partition.state is PartitionState.NEW
            continue
        assert len(set(known.isr)) == len(known.isr), f"{name} has a broker twice in its ISR"
        strangers = set(known.isr) - set(partition.replicas)
        is_busy = name in state.storing or name in state.rereading or state.is_being_deleted(name.topic)
        assert not strangers or is_busy or known.leader == NO_LEADER, f"{name}: {strangers} in its ISR"
        offline = known.leader == NO_LEADER
        assert (partition.state is PartitionState.OFFLINE) == offline, name
        if not offline:
            assert known.leader in known.isr, f"LeaderInIsr: {name} {known}"
        _check_remembered(name, known)


def _check_remembered(name: TopicPartition, known: LeaderAndIsr) -> None:
    assert known.isr, f"{name} has an empty ISR"


def _check_indexes(state: ClusterState) -> None:
    replicas_on: dict[int, set[TopicPartition]] = {}
    led_by: dict[int, set[TopicPartition]] = {}
    in_sync_on: dict[int, set[TopicPartition]] = {}
    awaited: dict[tuple[int, ...], set[TopicPartition]] = {}
    unled, under_replicated = set(), set()
    for name, partition in state.partitions.items():
        for broker_id in partition.replicas:
            replicas_on.setdefault(broker_id, set()).add(name)
        if broker_ids := waited_for(partition):
            awaited.setdefault(broker_ids, set()).add(name)
        known = partition.leader_and_isr
        if known is None or known.leader == NO_LEADER:
            unled.add(name)
        else:
            led_by.setdefault(known.leader, set()).add(name)
        if known is not None:
            for broker_id in known.isr:
                in_sync_on.setdefault(broker_id, set()).add(name)
            if len(known.isr) < len(partition.replicas):
                under_replicated.add(name)
    for kept, recomputed in (
        (state.replicas_on, replicas_on),
        (state.led_by, led_by),
        (state.in_sync_on, in_sync_on),
    ):
        assert {broker_id: names for broker_id, names in kept.items() if names} == recomputed
    assert {broker_ids: set(names) for broker_ids, names in state.awaited.items()} == awaited
    assert state.unled == unled
    assert set(state.under_replicated) == under_replicated


def _check_stores(state: ClusterState) -> None:
    in_stores: list[TopicPartition] = []
    for store_id, store in state.stores.items():
        if isinstance(store, StoreInFlight):
            in_stores += [change.name for change in store.changes]
        elif isinstance(store, TopicStoreInFlight):
            in_stores += store.partitions
            assert state.work[store.topic_name].store_id == store_id, "a topic has two writes under way"
    assert len(set(in_stores)) == len(in_stores), "a partition has two writes under way"
    assert state.storing == set(in_stores)
    assert not state.storing & state.rereading
    assert set(state.again) <= state.storing | state.rereading, "a partition waits for nothing"


def _check_work(state: ClusterState) -> None:
    assert not state.due_topics, "what is due is decided in the same step"
    for topic_name, work in state.work.items():
        assert not work.is_idle, f"{topic_name} has work that is none"
        assert work.store_id is None or work.store_id in state.stores
        assert not (work.store_id is not None and work.is_reading), "it is read while it is written"
        assert not (work.newcomer is not None and topic_name in state.topics)
        assert work.deletion is None or topic_name in state.topics
        assert work.unsure <= state.rereading
        assert set(work.complaints.items()) <= set(state.complaints.items()) or len(state.complaints) >= 1_000
        assert (
            {TopicPartition(topic_name, number) for number in work.moves if work.moves[number].original}
            == {name for name in state.moving.under_way if name.topic == topic_name}
            or work.is_busy
            or work.is_resting
        ), f"the moves of {topic_name} are not in the books"
    for waiter in state.waiters.values():
        if waiter.is_unwritten:
            assert _is_worked_on(state, waiter), f"nothing is done for request {waiter.request_id}"
    for name, failed in state.failed_replicas.items():
        assert name in state.partitions
        assert failed == {broker_id for broker_id, names in state.failed_on.items() if name in names}
    for name, damaged in state.damaged_replicas.items():
        assert damaged <= set(state.partitions[name].replicas), f"{name} is damaged where there is no replica"
    assert set(state.elections) <= state.storing | state.rereading, "an election waits for nothing"


def _is_worked_on(state: ClusterState, waiter: WaitingRequest) -> bool:
    purpose = waiter.purpose
    if waiter.request_id in state.throttle_work.requested_changes:
        return True
    if isinstance(purpose, CreatesTopic | AltersTopic | DeletesTopic):
        return purpose.topic.name in state.work
    if isinstance(purpose, MovesPartitions):
        requested = {
            TopicPartition(topic_name, number)
            for topic_name, work in state.work.items()
            for requested in work.requested_changes
            if isinstance(requested, RequestedMoves) and requested.request_id == waiter.request_id
            for number in requested.targets
        }
        return set(purpose.names) == requested | set(purpose.outcomes)
    if isinstance(purpose, ElectsLeaders):
        return set(purpose.names) == set(purpose.outcomes) | {
            name for name, election in state.elections.items() if waiter.request_id in election.request_ids
        }
    return False
