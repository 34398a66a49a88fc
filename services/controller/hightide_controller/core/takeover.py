"""Becoming the active controller, and ceasing to be it (V3 D, with epochs)."""

from __future__ import annotations

from typing import Final

from hightide_controller.core.admin import take_admin
from hightide_controller.core.brokers.membership import tell_everything
from hightide_controller.core.effects import (
    AnswerResigned,
    Campaign,
    Effect,
    LogWarning,
    Refusal,
    RefuseRequest,
    Resign,
    StepDown,
)
from hightide_controller.core.elections.stores import reconsider, send_decisions
from hightide_controller.core.events import (
    ClusterSnapshot,
    ControllerSeen,
    Elected,
    ResignationRequested,
    SteppedDown,
)
from hightide_controller.core.state.cluster_state import ClusterState, Role
from hightide_controller.core.topics.topics import add_topics
from hightide_controller.core.values.partition import TopicPartition

__all__ = [
    "on_campaign_lost",
    "on_controller_seen",
    "on_elected",
    "on_resignation_requested",
    "on_rested",
    "on_stepped_down",
    "resign",
]


def on_controller_seen(state: ClusterState, event: ControllerSeen) -> list[Effect]:
    """Campaign if no controller is active, resign if another one is."""
    mine = event.controller_id == state.controller_id and event.controller_epoch == state.controller_epoch
    effects: list[Effect] = []
    if state.role is Role.ACTIVE and not mine:
        gone = event.controller_id is None
        reason = "its znode is gone" if gone else f"controller {event.controller_id} is active now"
        effects += resign(state, reason)
    if state.role is not Role.STANDBY:
        return effects
    if state.is_resting:
        state.vacancy = event if event.controller_id is None or event.process_died else None
        return effects
    if event.controller_id is None:
        state.become(Role.CAMPAIGNING)
        effects.append(Campaign(None, event.cause))
    elif event.process_died:
        state.become(Role.CAMPAIGNING)
        effects.append(Campaign(event.controller_epoch, event.cause))
    return effects


def on_campaign_lost(state: ClusterState) -> list[Effect]:
    """Another controller was faster."""
    if state.role is Role.CAMPAIGNING:
        state.become(Role.STANDBY)
    return []


def on_elected(state: ClusterState, event: Elected) -> list[Effect]:
    """V3 D.3 to D.6: take over the snapshot, send every broker the current state, then act on what is not
    well.

    If a decision about a partition is being written, brokers get it when it is stored, and nothing before: a
    LeaderAndISR that names a dead leader is of no use. A partition is initialised only if it has no znode.
    One whose leader is merely gone is offline and keeps its ISR (docs/protocol.md, "Only an ISR member
    leads").
    """
    if state.role is not Role.CAMPAIGNING:
        return []
    state.become(Role.ACTIVE)
    assert event.controller_epoch > state.controller_epoch, "a controller epoch never comes twice"
    state.controller_epoch = event.controller_epoch
    state.controller_epoch_version = event.controller_epoch_version
    effects = _take_in(state, event.snapshot, event.cause)
    effects += tell_everything(state, list(state.live_brokers()), event.cause)
    acts = reconsider(state, state.partitions.keys(), event.cause)
    steady = [
        name
        for name, partition in state.partitions.items()
        if partition.leader_and_isr is not None
        and name not in state.storing
        and not state.is_being_deleted(name.topic)
    ]
    effects += send_decisions(state, steady, event.cause)
    return effects + acts


def _take_in(state: ClusterState, snapshot: ClusterSnapshot, cause: str) -> list[Effect]:
    assert not state.topics
    assert not state.brokers
    state.brokers = {broker.broker_id: broker for broker in snapshot.brokers}
    _, effects = add_topics(state, snapshot.topics)
    for name, leader_and_isr in snapshot.states.items():
        if TopicPartition(*name) in state.partitions:
            state.record(name, leader_and_isr)
    for topic_id, topic_name in snapshot.orphan_markers.items():
        state.work_of(topic_name).orphan_markers[topic_id] = None
        state.mark_due(topic_name, cause)
    return effects + take_admin(state, snapshot.admin, cause)


def on_resignation_requested(state: ClusterState, event: ResignationRequested) -> list[Effect]:
    """Stop acting at once, give up /controller, and let others be elected first. Unfinished work is in
    ZooKeeper, or has not begun. The next controller finishes it, as after any other failover."""
    epoch = state.controller_epoch
    if state.role is not Role.ACTIVE:
        message = "this controller is not the active one"
        return [RefuseRequest(event.request_id, Refusal.NOT_CONTROLLER, message)]
    if event.controller_epoch not in (0, epoch):
        message = (
            f"controller {state.controller_id} is active in controller epoch {epoch}, "
            f"not {event.controller_epoch}"
        )
        return [RefuseRequest(event.request_id, Refusal.STALE_CONTROLLER_EPOCH, message)]
    effects = resign(state, "an operator asked for it")
    state.is_resting, state.vacancy = True, None
    return [*effects, StepDown(event.request_id, epoch)]


def on_stepped_down(state: ClusterState, event: SteppedDown) -> list[Effect]:
    """The znode is free."""
    return [AnswerResigned(event.request_id, state.controller_id, event.controller_epoch)]


def on_rested(state: ClusterState) -> list[Effect]:
    """Campaign again, if no other controller was elected meanwhile."""
    vacancy, state.vacancy, state.is_resting = state.vacancy, None, False
    return [] if vacancy is None else on_controller_seen(state, vacancy)


def resign(state: ClusterState, reason: str) -> list[Effect]:
    """Forget everything. Writes under the old epoch are refused, so there is nothing to save."""
    was_active = state.role is Role.ACTIVE
    effects: list[Effect] = []
    if was_active:
        effects += [LogWarning(f"resigning as controller: {reason}"), Resign(reason)]
    effects += [
        RefuseRequest(
            request_id,
            Refusal.NOT_CONTROLLER,
            f"this controller has just resigned: {reason}; the request may have begun: describe the "
            "cluster to see",
            may_have_begun=True,
        )
        for request_id in state.waiters
    ]
    # Store ids and sequences go on, so that late answers to the old ones are recognised.
    fresh = ClusterState(state.controller_id)
    for field_name in _FORGOTTEN:
        setattr(state, field_name, getattr(fresh, field_name))
    state.become(Role.STANDBY)
    return effects


_FORGOTTEN: Final = (
    "controller_epoch_version",
    "brokers",
    "dead",
    "silent",
    "shutting_down",
    "topics",
    "partitions",
    "replicas_on",
    "led_by",
    "in_sync_on",
    "unled",
    "under_replicated",
    "work",
    "due_topics",
    "throttle",
    "throttle_work",
    "moving",
    "failed_replicas",
    "failed_on",
    "damaged_replicas",
    "awaited",
    "awaited_complaints",
    "elections",
    "complaints",
    "stores",
    "storing",
    "rereading",
    "doubtful",
    "last_epochs",
    "again",
    "waiters",
)
