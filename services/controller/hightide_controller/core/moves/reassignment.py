"""Moving partitions to other brokers: by request, or as /admin/partitions_reassigned says (V3 F, mended).

move_steps.py computes the next step of one partition. This module puts as many steps of one topic as fit into
one multi: the topic znode, the leaderAndISR of each partition, and the znodes of the moves (docs/protocol.md,
"Moves go on from ZooKeeper alone"). Moves that can complete at the same time do so in one multi.

An operator starts a move by writing RAR there, changes its target by writing another one, and cancels it by
deleting the znode (or by writing the old replicas). An invalid znode is complained about and left alone.
"""

from __future__ import annotations

from hightide_runtime.topics.topic_configs import config_fault
from hightide_runtime.znodes.paths import reassignment_path
from msgspec.structs import replace

from hightide_controller.core.effects import LogWarning, Refusal
from hightide_controller.core.elections.stores import candidates_for, candidates_of
from hightide_controller.core.elections.waiting_requests import settle_move
from hightide_controller.core.events import StoredReassignment
from hightide_controller.core.moves.move_steps import (
    MoveBlocked,
    MoveConditions,
    MoveStep,
    MoveWaits,
    step_back,
    step_forward,
    union,
)
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.multi_limits import topic_bytes
from hightide_controller.core.state.topic_plan import TopicPlan
from hightide_controller.core.state.topic_rules import ASSIGNMENT_BYTES_MAX, Fault, partition_bytes
from hightide_controller.core.state.topic_work import TopicWork
from hightide_controller.core.values.partition import Partition, TopicPartition
from hightide_controller.core.values.requested_changes import RequestedMoves
from hightide_controller.core.writes import LeaderAndIsrWrite, ReassignmentDone, ReassignmentWrite, Write

__all__ = ["cancel_fault", "heed_moves", "look_at_moves_again", "move_fault", "plan_moves", "surroundings_of"]


def surroundings_of(state: ClusterState) -> MoveConditions:
    """What the next step of any move depends on."""
    candidates = candidates_of(state)
    return MoveConditions(
        candidates,
        frozenset(broker_id for broker_id in candidates.live if broker_id not in candidates.leaving),
        frozenset(state.brokers),
        state.controller_epoch,
    )


def _topic_fault(state: ClusterState, topic_name: str) -> Fault | None:
    if topic_name not in state.topics:
        return Refusal.UNKNOWN_TOPIC, f"topic {topic_name[:260]!r} does not exist"
    if state.is_being_deleted(topic_name):
        return Refusal.TOPIC_BEING_DELETED, f"topic {topic_name!r} is being deleted"
    return None


def move_fault(
    state: ClusterState, name: TopicPartition, target: tuple[int, ...], around: MoveConditions
) -> Fault | None:
    """The reason why a request cannot move this partition there; None if it can."""
    if (unusable := _topic_fault(state, name.topic)) is not None:
        return unusable
    topic = state.topics[name.topic]
    partition = state.partitions.get(name)
    if partition is None:
        message = (
            f"topic {name.topic!r} has {len(topic.assignment)} partitions and no partition {name.partition}"
        )
        return Refusal.UNKNOWN_PARTITION, message
    work = state.work.get(name.topic)
    znode = None if work is None else work.moves.get(name.partition)
    path = reassignment_path(*name)
    if znode is None and path in state.complaints:
        # It could not be created, and other writes about the topic would wait for it.
        message = f"the content of {path} is invalid: {state.complaints[path]}"
        return Refusal.INVALID_REQUEST, message
    step = step_forward(partition, znode, target, _around(state, name, around))
    if isinstance(step, MoveBlocked):
        return step.refusal, step.message
    if target == partition.replicas and znode is None:
        message = f"{name.topic}-{name.partition} is on brokers {list(target)} already there"
        return Refusal.INVALID_ASSIGNMENT, message
    if (fault := config_fault(topic.configs, len(target))) is not None:
        return Refusal.INVALID_ASSIGNMENT, f"{name.topic}-{name.partition}: {fault}"
    return None


def cancel_fault(state: ClusterState, name: TopicPartition, around: MoveConditions) -> Fault | None:
    """The reason why a request cannot cancel the move of this partition; None if it can."""
    if (unusable := _topic_fault(state, name.topic)) is not None:
        return unusable
    topic = state.topics[name.topic]
    partition = state.partitions.get(name)
    work = state.work.get(name.topic)
    znode = None if work is None else work.moves.get(name.partition)
    if partition is None and znode is None:
        message = (
            f"topic {name.topic!r} has {len(topic.assignment)} partitions and no partition {name.partition}"
        )
        return Refusal.UNKNOWN_PARTITION, message
    if partition is None:
        return None
    step = step_back(partition, znode, _around(state, name, around))
    return (step.refusal, step.message) if isinstance(step, MoveBlocked) else None


def heed_moves(state: ClusterState, topic_name: str) -> None:
    """Update the records of a topic's moves, after a possible change below /admin/partitions_reassigned."""
    work = state.work[topic_name]
    for number in work.due_moves:
        znode = work.moves.get(number)
        before = state.moving.note(TopicPartition(topic_name, number), znode)
        if znode is not None:
            work.abandoned.pop(number, None)
        elif before is not None:
            work.abandoned[number] = before


def look_at_moves_again(state: ClusterState, cause: str) -> None:
    """Check moves again after brokers came or went: they may wait for other brokers, or be able to begin."""
    for topic_name, work in state.work.items():
        if work.moves:
            work.due_moves.update(dict.fromkeys(work.moves))
            state.mark_due(topic_name, cause)


def plan_moves(state: ClusterState, plan: TopicPlan) -> None:
    """Put the next steps of moves into the topic's next multi: first requested moves, then those under
    way."""
    work = state.work[plan.name]
    if (
        work.due_moves
        or work.abandoned
        or any(isinstance(requested, RequestedMoves) for requested in work.requested_changes)
    ):
        _Planner(state, plan, work).run()
    for number, fault in work.move_faults.items():
        plan.complaints[reassignment_path(plan.name, number)] = (
            f"{fault}; the request waits until it can be carried out"
        )
    for broker_id, numbers in work.awaited.items():
        if numbers:
            plan.complaints[f"broker {broker_id}, moves of topic {plan.name}"] = (
                f"broker {broker_id} is not alive, or its data directory failed, and moves of partitions of "
                f"{plan.name!r} wait for it: start it, cancel the moves, or move the partitions elsewhere"
            )


class _Planner:
    """Plans the moves in one decision about one topic."""

    def __init__(self, state: ClusterState, plan: TopicPlan, work: TopicWork) -> None:
        assert plan.topic is not None
        self._state = state
        self._plan = plan
        self._work = work
        self._around = surroundings_of(state)
        self._count = len(plan.topic.assignment)
        self._assignment: list[tuple[int, ...]] = []
        """The new AR of all partitions; empty until something moves."""
        self._size_bytes = 0
        self._added_bytes = 0
        self._is_full = False
        self._is_wide = False
        """Whether the topic znode has no room for another move that begins; one that ends makes room."""

    def run(self) -> None:
        """Plan all that fits."""
        for requested in list(self._work.requested_changes):
            if isinstance(requested, RequestedMoves):
                self._carry_out(requested)
        for number, znode in list(self._work.abandoned.items()):
            self._take_back(number, znode)
        for number in list(self._work.due_moves):
            if self._is_full:
                break
            self._go_on(number)
        if self._assignment:
            assert self._plan.topic is not None
            self._plan.alter(replace(self._plan.topic, assignment=tuple(self._assignment)))

    # ---- by request

    def _carry_out(self, requested: RequestedMoves) -> None:
        is_awaited = requested.request_id in self._state.waiters
        for number, target in list(requested.targets.items()):
            if self._is_full:
                return
            if number in requested.begun and self._is_fulfilled(number, target):
                self._settle(requested, number)
            elif not is_awaited and number not in requested.begun:
                # Its time was up before it was begun.
                del requested.targets[number]
            elif not self._is_free(number):
                continue
            elif (fault := self._fault_of(number, target)) is not None:
                self._settle(requested, number, *fault)
            else:
                self._begin(requested, number, target)
        if not requested.targets:
            self._work.requested_changes.remove(requested)

    def _is_fulfilled(self, number: int, target: tuple[int, ...] | None) -> bool:
        znode = self._work.moves.get(number)
        partition = self._partition(number)
        if target is None:
            return znode is None
        if znode is None:
            return partition is not None and partition.replicas == target
        return znode.target == target and bool(znode.original)

    def _settle(
        self, requested: RequestedMoves, number: int, refusal: Refusal | None = None, message: str = ""
    ) -> None:
        del requested.targets[number]
        name = TopicPartition(self._plan.name, number)
        settle_move(self._state.waiters.get(requested.request_id), name, refusal, message)

    def _fault_of(self, number: int, target: tuple[int, ...] | None) -> Fault | None:
        name = TopicPartition(self._plan.name, number)
        if target is None:
            return cancel_fault(self._state, name, self._around)
        return move_fault(self._state, name, target, self._around)

    def _begin(self, requested: RequestedMoves, number: int, target: tuple[int, ...] | None) -> None:
        znode = self._work.moves.get(number)
        partition = self._partition(number)
        if partition is None:
            # An operator asked for a move of a partition that does not exist, and it is cancelled.
            assert znode is not None
            done = ReassignmentDone(TopicPartition(self._plan.name, number), znode.version)
            if self._plan.has_room(done, extra_bytes=self._added_bytes):
                self._plan.add(done)
                self._plan.touched.add(number)
                requested.begun.add(number)
            return
        around = _around(self._state, partition.name, self._around)
        step: MoveStep | MoveWaits | MoveBlocked
        if target is None:
            step = step_back(partition, znode, around)
        else:
            step = step_forward(partition, znode, target, around)
        assert not isinstance(step, MoveBlocked), step
        if isinstance(step, MoveWaits):
            # It is under way to that target already.
            self._settle(requested, number)
        elif self._add(partition, step, target or ()):
            requested.begun.add(number)

    # ---- by operators, and going on

    def _take_back(self, number: int, znode: StoredReassignment) -> None:
        """Cancel a move under way whose znode an operator deleted."""
        partition = self._partition(number)
        replicas = () if partition is None else partition.replicas
        is_wide = replicas == union(znode.original, znode.target) and replicas not in (
            znode.original,
            znode.target,
        )
        if partition is None or not is_wide:
            # The move is done, or an operator has written the topic znode too.
            del self._work.abandoned[number]
            return
        if self._is_full or not self._is_free(number):
            return
        step = step_back(partition, znode, _around(self._state, partition.name, self._around))
        if isinstance(step, MoveStep):
            self._add(partition, step, ())
            return
        del self._work.abandoned[number]
        path = reassignment_path(*partition.name)
        message = (
            f"{path} was deleted, but the move cannot be cancelled, so the replicas stay as they are: "
            f"{step.message}"
        )
        self._plan.effects.append(LogWarning(message))

    def _go_on(self, number: int) -> None:
        work = self._work
        znode = work.moves.get(number)
        if znode is None:
            self._note(number, "", ())
            del work.due_moves[number]
            return
        if self._is_wide and not znode.original:
            return
        partition = self._partition(number)
        if partition is None:
            self._note(number, f"topic {self._plan.name!r} has no partition {number}", ())
            del work.due_moves[number]
            return
        if not self._is_free(number):
            return
        step = step_forward(
            partition, znode, znode.target, _around(self._state, partition.name, self._around)
        )
        match step:
            case MoveStep():
                self._note(number, self._hand_fault(number, znode), ())
                if number not in work.move_faults and not self._add(partition, step, znode.target):
                    if not self._is_full:
                        self._note(
                            number, "other moves of the topic have to end first: its znode is full", ()
                        )
                    return
            case MoveWaits(absent):
                self._note(number, "", absent)
            case MoveBlocked(_, message):
                self._note(number, message, ())
        del work.due_moves[number]

    def _hand_fault(self, number: int, znode: StoredReassignment) -> str:
        """The reason why a request for this move, which has not begun, would be refused."""
        assert self._plan.topic is not None
        if znode.original:
            return ""
        fault = config_fault(self._plan.topic.configs, len(znode.target))
        return "" if fault is None else f"{self._plan.name}-{number}: {fault}"

    def _note(self, number: int, fault: str, absent: tuple[int, ...]) -> None:
        """Remember a complaint."""
        work = self._work
        if fault:
            work.move_faults[number] = fault
        else:
            work.move_faults.pop(number, None)
        for broker_id in work.waits.pop(number, ()):
            del work.awaited[broker_id][number]
            if not work.awaited[broker_id]:
                del work.awaited[broker_id]
        if absent:
            work.waits[number] = absent
        for broker_id in absent:
            work.awaited.setdefault(broker_id, {})[number] = None

    # ---- the multi

    def _partition(self, number: int) -> Partition | None:
        if number >= self._count:
            # It is deleted in this multi, or does not exist.
            return None
        return self._state.partitions.get(TopicPartition(self._plan.name, number))

    def _is_free(self, number: int) -> bool:
        name = TopicPartition(self._plan.name, number)
        busy = name in self._state.storing or name in self._state.rereading
        return not busy and number not in self._plan.touched

    def _add(self, partition: Partition, step: MoveStep, target: tuple[int, ...]) -> bool:
        """Add a step to the multi; False if there is no room any more."""
        name = partition.name
        znode = self._work.moves.get(name.partition)
        writes: list[Write] = []
        if step.decided is not None:
            assert partition.leader_and_isr is not None
            writes.append(LeaderAndIsrWrite(name, partition.leader_and_isr.partition_epoch, step.decided))
        if step.original:
            version = None if znode is None else znode.version
            writes.append(ReassignmentWrite(name, target, step.original, version))
        elif znode is not None:
            writes.append(ReassignmentDone(name, znode.version))
        if step.decided is not None or step.replicas != partition.replicas:
            if not self._make_room(partition, step, writes):
                return False
            self._assignment[name.partition] = step.replicas
            # A partition without a leaderAndISR must not get one for its old replicas meanwhile.
            self._plan.held.add(name)
        elif not self._plan.has_room(*writes, extra_bytes=self._added_bytes):
            self._is_full = True
            return False
        self._plan.add(*writes)
        self._plan.touched.add(name.partition)
        return True

    def _make_room(self, partition: Partition, step: MoveStep, writes: list[Write]) -> bool:
        """Allow for the topic znode, whose size changes with AR; False if it would be too large."""
        topic, number = self._plan.topic, partition.name.partition
        assert topic is not None
        self._size_bytes = self._size_bytes or topic_bytes(topic)
        grown_bytes = partition_bytes(number, step.replicas) - partition_bytes(number, partition.replicas)
        added_bytes = self._added_bytes + grown_bytes
        if grown_bytes > 0 and self._size_bytes + grown_bytes > ASSIGNMENT_BYTES_MAX:
            self._is_wide = True
            return False
        if not self._assignment:
            self._plan.alter(topic)
            self._assignment = list(topic.assignment)
        if not self._plan.has_room(*writes, extra_bytes=added_bytes):
            self._is_full = True
            return False
        self._size_bytes += grown_bytes
        self._added_bytes = added_bytes
        return True


def _around(state: ClusterState, name: TopicPartition, around: MoveConditions) -> MoveConditions:
    """The surroundings for this partition: a broker that has lost its replica of it is not alive for it, and
    its topic's setting says which replicas stay eligible."""
    candidates = candidates_for(state, name, around.candidates)
    if candidates is around.candidates:
        return around
    return replace(around, candidates=candidates, eligible=around.eligible - candidates.failed)
