"""Handling what is below /admin in ZooKeeper: it is taken over as it is, and acted on when its topic is
decided.

A request may be readable and still be invalid: its partition does not exist, or its brokers are unknown. That
is found out when the topic is decided, each time anew, so that the request takes effect once it becomes
valid.
"""

from __future__ import annotations

from typing import TypeVar

from hightide_controller.core.effects import Effect
from hightide_controller.core.events import AdminChanged, AdminZnodes
from hightide_controller.core.moves.throttle import take_throttle
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.complaints import complain, withdraw
from hightide_controller.core.topics.deletion import heed_intent

__all__ = ["clear_admin", "on_admin_changed", "take_admin"]

Znode = TypeVar("Znode")


def on_admin_changed(state: ClusterState, event: AdminChanged) -> list[Effect]:
    """Handle a change below /admin by an operator, or by this controller."""
    return take_admin(state, event.admin, event.cause)


def take_admin(state: ClusterState, admin: AdminZnodes, cause: str) -> list[Effect]:
    """Remember what is given, and mark its topics as due."""
    effects: list[Effect] = []
    for subject, message in admin.complaints.items():
        of_topic = _complaints_of_topic(state, subject)
        if message is not None:
            of_topic.pop(subject, None)
            effects += complain(state, subject, message)
        elif subject not in of_topic:
            # It can be read again. Whether it is valid is decided in the work of its topic.
            withdraw(state, subject)
    effects += take_throttle(state, admin.throttle, cause)
    topic_names: dict[str, None] = {}
    for name, move in admin.reassignments.items():
        topic_names[name.topic] = None
        work = state.work_of(name.topic)
        work.due_moves[name.partition] = None
        if move is None:
            work.moves.pop(name.partition, None)
        else:
            work.moves[name.partition] = move
    for name, addition in admin.additions.items():
        topic_names[name.topic] = None
        _put(state.work_of(name.topic).additions, name.partition, addition)
    for name, removal in admin.removals.items():
        topic_names[name.topic] = None
        _put(state.work_of(name.topic).removals, name.partition, removal)
    for topic_name, intent in admin.deletions.items():
        topic_names[topic_name] = None
        state.work_of(topic_name).intent = intent
        heed_intent(state, topic_name)
    for topic_name in topic_names:
        state.mark_due(topic_name, cause)
    return effects


def clear_admin(state: ClusterState, topic_name: str) -> None:
    """Forget what is known below /admin about a topic: all of it has been read again."""
    work = state.work_of(topic_name)
    work.due_moves.update(dict.fromkeys(work.moves))
    work.moves.clear()
    work.additions.clear()
    work.removals.clear()
    work.intent = None


def _complaints_of_topic(state: ClusterState, subject: str) -> dict[str, str]:
    """The complaints of a topic's work about a path such as /admin/partitions_add/[topic]/5."""
    names = subject.split("/")
    work = state.work.get(names[3]) if len(names) > 3 else None
    return {} if work is None else work.complaints


def _put(znodes: dict[int, Znode], number: int, znode: Znode | None) -> None:
    if znode is None:
        znodes.pop(number, None)
    else:
        znodes[number] = znode
