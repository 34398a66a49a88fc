"""Topics that the controller may not act on yet, and names without a topic.

A topic znode that an operator wrote as V3 describes it has no id, and a topic from before markers has no
marker. Both are written before any broker learns of the topic, so that an id never changes.
"""

from __future__ import annotations

from hightide_runtime.znodes.paths import (
    delete_topic_path,
    partition_add_path,
    partition_remove_path,
    reassignment_path,
)
from msgspec.structs import replace

from hightide_controller.core.effects import Refusal
from hightide_controller.core.elections.waiting_requests import turn_away
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.topic_plan import TopicPlan
from hightide_controller.core.writes import DeletionDone, MarkerCreated, TopicWrite

__all__ = ["plan_absent", "plan_marker"]


def plan_absent(state: ClusterState, plan: TopicPlan) -> None:
    """Handle a name without an active topic: adopt a new topic, clean up after one that is gone, complain."""
    work = state.work[plan.name]
    if work.newcomer is not None:
        if work.newcomer.is_bare:
            plan.add(TopicWrite(replace(work.newcomer, is_bare=False), work.newcomer.version))
        if not work.newcomer.has_marker:
            plan.add(MarkerCreated(plan.name, work.newcomer.topic_id))
        assert plan.writes, f"{plan.name} needs no adoption"
        return
    message = f"topic {plan.name!r} does not exist"
    for requested in work.requested_changes:
        plan.effects += turn_away(state, requested, plan.name, Refusal.UNKNOWN_TOPIC, message)
    work.requested_changes.clear()
    work.deletion = None
    if work.intent is not None and work.intent.topic_id:
        # It was begun, so its topic is gone, unless there is a topic that cannot be decoded.
        if work.is_gone:
            plan.add(DeletionDone(plan.name, work.intent.version))
        elif work.read_cause is None:
            work.read_cause = plan.cause
    elif work.intent is not None:
        path = delete_topic_path(plan.name)
        plan.complaints[path] = (
            f"{message}, or cannot be acted on, so there is nothing to delete; delete this znode"
        )
    sentence = (
        f"{message}, or cannot be acted on; the request waits until it can be carried out: delete this "
        "znode if you do not want that"
    )
    for number in work.moves:
        plan.complaints[reassignment_path(plan.name, number)] = sentence
    for number in work.additions:
        plan.complaints[partition_add_path(plan.name, number)] = sentence
    for number in work.removals:
        plan.complaints[partition_remove_path(plan.name, number)] = sentence


def plan_marker(state: ClusterState, plan: TopicPlan) -> None:
    """Restore the marker of a topic that an operator deleted: without it, leaders cannot change their ISR."""
    assert plan.topic is not None
    if not plan.topic.has_marker:
        plan.add(MarkerCreated(plan.name, plan.topic.topic_id))
