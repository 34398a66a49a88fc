"""Adding and removing partitions: by request, or because of znodes below /admin (V3 H, mended).

Numbers run from 0 without a gap, so partitions are added at the end and removed from the end, each in one
multi with the topic znode. New partitions get their leaders as those of a new topic do.

A removed number may be used again. Brokers may still hold data of its earlier life with older leader epochs.
So the topic znode remembers the first epoch of the next life, and a log with earlier records goes into
quarantine.
"""

from __future__ import annotations

from collections.abc import Sequence

from hightide_runtime.topics.assignment import assign
from hightide_runtime.topics.topic_configs import config_fault
from hightide_runtime.znodes.paths import partition_add_path, partition_remove_path
from msgspec.structs import replace

from hightide_controller.core.effects import Refusal
from hightide_controller.core.elections.waiting_requests import refuse, satisfy
from hightide_controller.core.events import Topic
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.topic_plan import TopicPlan
from hightide_controller.core.state.topic_rules import (
    ASSIGNMENT_BYTES_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    Fault,
    assignment_fault,
    partition_bytes,
    size_fault,
)
from hightide_controller.core.state.topic_work import TopicWork
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.values.requested_changes import RequestedGrowth, RequestedShrink
from hightide_controller.core.writes import AdditionDone, MarkerRaised, PartitionRemoved, RemovalDone, Write

__all__ = ["choose_replicas", "growth_fault", "plan_additions", "plan_removals", "shrink_fault"]


def eligible_brokers(state: ClusterState) -> list[int]:
    """Brokers that may get new replicas."""
    return [b.broker_id for b in state.live_brokers() if b.broker_id not in state.shutting_down]


# ---- more


def growth_fault(
    state: ClusterState, topic: Topic, partition_count: int, assignment: Sequence[tuple[int, ...]]
) -> Fault | None:
    """The reason why the topic cannot have so many partitions; None if it can."""
    count = len(topic.assignment)
    if not count < partition_count <= PARTITIONS_PER_TOPIC_MAX:
        return (
            Refusal.INVALID_PARTITION_COUNT,
            f"topic {topic.name!r} has {count} partitions and cannot be grown to {partition_count}; the new "
            f"number is larger, and at most {PARTITIONS_PER_TOPIC_MAX:,}",
        )
    eligible = eligible_brokers(state)
    added = partition_count - count
    if assignment and len(assignment) != added:
        return (
            Refusal.INVALID_ASSIGNMENT,
            f"the assignment is of {len(assignment)} partitions, but {added} are new: {count} to "
            f"{partition_count - 1}",
        )
    if not assignment and len(eligible) < len(topic.assignment[0]):
        return (
            Refusal.INVALID_REPLICATION_FACTOR,
            f"partitions of {topic.name!r} have {len(topic.assignment[0])} replicas, but only "
            f"{len(eligible)} brokers are alive to be given new ones",
        )
    if (fault := assignment_fault(assignment, eligible, first=count)) is not None:
        return Refusal.INVALID_ASSIGNMENT, fault
    replicas_min = min((len(replicas) for replicas in assignment), default=len(topic.assignment[0]))
    if (fault := config_fault(topic.configs, replicas_min)) is not None:
        return Refusal.INVALID_ASSIGNMENT, fault
    chosen = tuple(assignment) or (topic.assignment[0],) * added
    if (fault := size_fault((*topic.assignment, *chosen))) is not None:
        return Refusal.INVALID_PARTITION_COUNT, fault
    return None


def choose_replicas(state: ClusterState, topic: Topic, partition_count: int) -> tuple[tuple[int, ...], ...]:
    """Balanced replicas for new partitions, after `growth_fault` found nothing."""
    eligible = eligible_brokers(state)
    added = partition_count - len(topic.assignment)
    start = state.seed % len(eligible)
    state.seed += added
    return assign(eligible, added, len(topic.assignment[0]), start)


def plan_additions(state: ClusterState, plan: TopicPlan) -> None:
    """Add partitions that are requested below /admin/partitions_add, then those that clients request."""
    assert plan.topic is not None
    work = state.work[plan.name]
    if plan.touched:
        # This multi removes partitions. A number that is used again is added in another one.
        return
    _plan_additions_by_hand(state, plan, work)
    for requested in list(work.requested_changes):
        if isinstance(requested, RequestedGrowth):
            _plan_growth(state, plan, work, requested)


def _plan_additions_by_hand(state: ClusterState, plan: TopicPlan, work: TopicWork) -> None:
    topic = plan.topic
    assert topic is not None
    if not work.additions:
        return
    eligible = eligible_brokers(state)
    assignment = list(topic.assignment)
    size_bytes = before_bytes = sum(partition_bytes(*pair) for pair in enumerate(assignment))
    for number in sorted(work.additions):
        znode = work.additions[number]
        size_bytes += partition_bytes(number, znode.replicas)
        fault = _addition_fault(topic, len(assignment), number, znode.replicas, eligible)
        if fault is None and size_bytes > ASSIGNMENT_BYTES_MAX:
            fault = f"topic {topic.name!r} would not fit into its znode any more"
        if fault is not None:
            path = partition_add_path(topic.name, number)
            plan.complaints[path] = (
                f"{fault}; the request is not carried out: correct this znode, or delete it"
            )
            continue
        done = AdditionDone(TopicPartition(topic.name, number), znode.version)
        if len(assignment) == len(topic.assignment):
            plan.alter(topic)
        if not plan.has_room(done, extra_bytes=size_bytes - before_bytes):
            break
        plan.add(done)
        assignment.append(znode.replicas)
    if len(assignment) > len(topic.assignment):
        plan.alter(replace(topic, assignment=tuple(assignment)))


def _addition_fault(
    topic: Topic, count: int, number: int, replicas: tuple[int, ...], eligible: Sequence[int]
) -> str | None:
    """The reason why partition `number` cannot be added to a topic that has `count` by now; None if it
    can."""
    if number < len(topic.assignment):
        return f"topic {topic.name!r} has a partition {number} already"
    if number >= PARTITIONS_PER_TOPIC_MAX:
        return f"a topic has at most {PARTITIONS_PER_TOPIC_MAX:,} partitions"
    if number != count:
        return f"partition {count} of topic {topic.name!r} is the next one that can be added, not {number}"
    if (fault := assignment_fault((replicas,), eligible, first=number)) is not None:
        return fault
    return config_fault(topic.configs, len(replicas))


def _plan_growth(state: ClusterState, plan: TopicPlan, work: TopicWork, requested: RequestedGrowth) -> None:
    topic = plan.topic
    assert topic is not None
    if requested.is_begun:
        first = requested.partition_count - len(requested.assignment)
        if topic.assignment[first : requested.partition_count] == requested.assignment:
            work.requested_changes.remove(requested)
            satisfy(state, requested.request_id)
            return
    elif requested.request_id not in state.waiters:
        # Its time ran out before it was begun.
        work.requested_changes.remove(requested)
        return
    if (fault := growth_fault(state, topic, requested.partition_count, requested.assignment)) is not None:
        work.requested_changes.remove(requested)
        plan.effects += refuse(state, requested.request_id, *fault)
        return
    requested.assignment = requested.assignment or choose_replicas(state, topic, requested.partition_count)
    plan.alter(replace(topic, assignment=(*topic.assignment, *requested.assignment)))
    plan.begin(requested)


# ---- fewer


def shrink_fault(state: ClusterState, topic: Topic, partition_count: int) -> Fault | None:
    """The reason why the topic cannot be shrunk to so many partitions; None if it can."""
    count = len(topic.assignment)
    if not 1 <= partition_count < count:
        return (
            Refusal.INVALID_PARTITION_COUNT,
            f"topic {topic.name!r} has {count} partitions and cannot be shrunk to {partition_count}; the "
            "new number is smaller, and at least 1: partition 0 is deleted only with the topic",
        )
    work = state.work.get(topic.name)
    moving = sorted(number for number in work.moves if number >= partition_count) if work else []
    if moving:
        return (
            Refusal.REASSIGNMENT_IN_PROGRESS,
            f"{len(moving)} partitions that would go are being moved, the first is "
            f"{topic.name}-{moving[0]}; wait for the moves, or cancel them",
        )
    return None


def plan_removals(state: ClusterState, plan: TopicPlan) -> None:
    """Remove as many of the highest partitions as fit, if requests or /admin/partitions_remove ask for it."""
    work = state.work[plan.name]
    keep = _count_by_hand(plan, work)
    for requested in list(work.requested_changes):
        if isinstance(requested, RequestedShrink):
            keep = min(keep, _requested_count(state, plan, work, requested))
    topic = plan.topic
    assert topic is not None
    number = len(topic.assignment)
    first_epochs = dict(topic.first_leader_epochs)
    raised = MarkerRaised(topic.name, topic.topic_id)
    while number > keep:
        name = TopicPartition(topic.name, number - 1)
        if name in state.storing or name in state.rereading:
            break
        known = state.partitions[name].leader_and_isr
        group: list[Write] = [PartitionRemoved(name, None if known is None else known.partition_epoch)]
        if name.partition in work.removals:
            group.append(RemovalDone(name, work.removals[name.partition].version))
        if number == len(topic.assignment):
            plan.alter(topic)
        if not plan.has_room(*group, raised):
            break
        plan.add(*group)
        next_epoch = state.first_leader_epoch_of(name) if known is None else known.leader_epoch + 1
        if next_epoch > 0:
            first_epochs[name.partition] = next_epoch
        number -= 1
    if number < len(topic.assignment):
        plan.alter(replace(topic, assignment=topic.assignment[:number], first_leader_epochs=first_epochs))
        plan.add(raised)


def _count_by_hand(plan: TopicPlan, work: TopicWork) -> int:
    """How many partitions stay according to the znodes below /admin/partitions_remove."""
    topic = plan.topic
    assert topic is not None
    count = len(topic.assignment)
    keep = count
    while keep > 1 and keep - 1 in work.removals and keep - 1 not in work.moves:
        keep -= 1
    for number in work.removals:
        if keep <= number < count:
            continue
        if number == 0:
            fault = "partition 0 is deleted only with its topic: delete the topic if you mean that"
        elif number >= count:
            fault = f"topic {topic.name!r} has no partition {number}"
        elif number in work.moves:
            fault = "it is being moved: wait for the move, or cancel it"
        else:
            fault = f"only the highest partitions can go, and partition {keep - 1} stays"
        path = partition_remove_path(topic.name, number)
        plan.complaints[path] = f"{fault}; the request is not carried out: delete this znode"
    return keep


def _requested_count(
    state: ClusterState, plan: TopicPlan, work: TopicWork, requested: RequestedShrink
) -> int:
    """How many partitions stay according to a request; all of them if it is done, or cannot be carried
    out."""
    topic = plan.topic
    assert topic is not None
    count = len(topic.assignment)
    if requested.is_begun and count <= requested.partition_count:
        work.requested_changes.remove(requested)
        satisfy(state, requested.request_id)
        return count
    if not requested.is_begun and requested.request_id not in state.waiters:
        # Its time ran out before it was begun.
        work.requested_changes.remove(requested)
        return count
    if (fault := shrink_fault(state, topic, requested.partition_count)) is not None:
        work.requested_changes.remove(requested)
        plan.effects += refuse(state, requested.request_id, *fault)
        return count
    plan.begin(requested)
    return requested.partition_count
