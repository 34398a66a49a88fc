"""The work about topics, one multi at a time for each: requests below /admin, and requests of clients.

`decide_due` compares what ZooKeeper holds about a topic with what it should hold, and returns the next multi,
or nothing if all is as it should be. It is called after every event about the topic. So continuing after a
crash, a refused write or an unknown outcome is the same code as continuing after a success:

    event → TopicWork or ClusterState changed, topic due → decide_due → StoreWrites
    StoreCommitted → topic_news.py takes it over and sends it to brokers, due again
    StoreRefused, StoreUnknown → ReadTopics → TopicsRead → topic_news.py likewise, due again

A partition that stores.py writes or reads (`state.storing`, `state.rereading`) is left out until it is free,
and the other way round. Changes that come while a multi is under way go with the next one.
"""

from __future__ import annotations

from typing import Final

from hightide_controller.core.effects import Effect, ReadTopics, StoreWrites
from hightide_controller.core.moves.reassignment import heed_moves, plan_moves
from hightide_controller.core.state.cluster_state import ClusterState, TopicStoreInFlight
from hightide_controller.core.state.complaints import complain, complain_about_topic
from hightide_controller.core.state.topic_plan import TopicPlan
from hightide_controller.core.state.topic_work import TopicWork
from hightide_controller.core.topics.adoption import plan_absent, plan_marker
from hightide_controller.core.topics.deletion import heed_intent, intent_complaint, plan_deletion
from hightide_controller.core.topics.partition_changes import plan_additions, plan_removals
from hightide_controller.core.topics.topic_settings import plan_settings
from hightide_controller.core.writes import (
    LeaderAndIsrWrite,
    MarkerCreated,
    MarkerRemoved,
    PartitionRemoved,
    TopicWrite,
    Write,
)

__all__ = ["decide_due", "on_topic_failed", "wake_resting"]

_REFUSALS_MAX: Final = 5
"""Refusals in a row. Then the topic rests until the next tick, so that a write that can never succeed does
not keep the controller busy."""


def decide_due(state: ClusterState) -> list[Effect]:
    """The next step of the work of every topic that is due. Called at the end of each step."""
    due, state.due_topics = state.due_topics, {}
    effects: list[Effect] = []
    for topic_name, cause in due.items():
        work = state.work.get(topic_name)
        # The work that keeps it busy makes it due again when it ends.
        if work is not None and not work.is_busy and not work.is_resting:
            if work.read_cause is None:
                effects += _decide(state, work, topic_name, cause)
            if work.read_cause is not None and not work.is_busy:
                effects.append(_read(work, topic_name))
            if work.is_idle:
                del state.work[topic_name]
    return effects


def _decide(state: ClusterState, work: TopicWork, topic_name: str, cause: str) -> list[Effect]:
    topic = state.topics.get(topic_name)
    plan = TopicPlan(topic_name, cause, topic, -1 if topic is None else topic.version)
    heed_intent(state, topic_name)
    heed_moves(state, topic_name)
    if work.orphan_markers:
        # Alone in its multi, so that a refusal means that it is gone.
        plan.add(MarkerRemoved(next(iter(work.orphan_markers))))
        return [_store(state, work, plan, plan.all_writes())]
    if topic is None:
        plan_absent(state, plan)
    elif work.deletion is not None:
        plan_deletion(state, plan)
    else:
        plan.complaints.update(intent_complaint(work, topic))
        for contribute in (plan_marker, plan_removals, plan_additions, plan_settings, plan_moves):
            contribute(state, plan)
        if work.doubtful_version == topic.version:
            # A multi with an unknown outcome can still happen. Only another version of the znode makes it
            # void.
            assert plan.topic is not None
            plan.alter(plan.topic)
    # In any other case, this write comes before it, or its topic is another one by now.
    work.doubtful_version = None
    effects = [*plan.effects, *complain_about_topic(state, topic_name, plan.complaints)]
    writes = plan.all_writes()
    if writes:
        effects.append(_store(state, work, plan, writes))
    return effects


def _store(state: ClusterState, work: TopicWork, plan: TopicPlan, writes: tuple[Write, ...]) -> StoreWrites:
    store_id = state.next_store_id
    state.next_store_id += 1
    partitions = tuple(
        write.name
        for write in writes
        if isinstance(write, LeaderAndIsrWrite | PartitionRemoved) and write.name in state.partitions
    )
    partitions = tuple(dict.fromkeys((*partitions, *plan.held)))
    for name in partitions:
        assert name not in state.storing
        assert name not in state.rereading
        state.storing.add(name)
    cause = plan.cause or next(
        (state.waiters[request_id].cause for request_id in plan.request_ids if request_id in state.waiters),
        "",
    )
    state.stores[store_id] = TopicStoreInFlight(plan.name, writes, partitions, cause, tuple(plan.request_ids))
    work.store_id = store_id
    work.doubtful_version = None
    return StoreWrites(store_id, state.controller_epoch_version, writes, cause)


def _read(work: TopicWork, topic_name: str) -> ReadTopics:
    assert work.read_cause is not None
    cause, work.read_cause = work.read_cause, None
    work.is_reading = True
    return ReadTopics((topic_name,), cause)


def on_topic_failed(state: ClusterState, store: TopicStoreInFlight, *, is_unknown: bool) -> list[Effect]:
    """Handle a multi that failed or has an unknown outcome: everything about the topic is read before the
    next decision."""
    work = state.work[store.topic_name]
    work.store_id = None
    for name in store.partitions:
        state.storing.discard(name)
        if name in state.partitions:
            state.rereading.add(name)
            work.unsure.add(name)
            state.again.setdefault(name, frozenset())
    subject = f"topic {store.topic_name}"
    if is_unknown:
        versions = [write.expected_version for write in store.writes if isinstance(write, TopicWrite)]
        work.doubtful_version = versions[0] if versions else None
        # If the topic turns out to be another one, or none, what was created for it must be deleted.
        created = [write.topic_id for write in store.writes if isinstance(write, MarkerCreated)]
        work.orphan_markers.update(dict.fromkeys(created))
    else:
        gone = [write.topic_id for write in store.writes if isinstance(write, MarkerRemoved)]
        for topic_id in gone:
            work.orphan_markers.pop(topic_id, None)
        if len(gone) < len(store.writes):
            # A marker alone is refused if it is gone, or never existed. That is no failure.
            work.refusals += 1
    effects: list[Effect] = []
    if work.refusals >= _REFUSALS_MAX:
        message = (
            f"ZooKeeper refused the controller's writes about it {_REFUSALS_MAX} times in a row; the "
            "controller keeps trying: check the znodes below it"
        )
        effects += complain(state, subject, message)
        work.is_resting = True
    work.read_cause = store.cause
    return [*effects, _read(work, store.topic_name)]


def wake_resting(state: ClusterState) -> None:
    """Handle a tick: topics whose writes were refused too often are tried again."""
    for topic_name, work in state.work.items():
        if work.is_resting:
            work.is_resting = False
            state.mark_due(topic_name, "")
