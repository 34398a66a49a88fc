"""What stands below /admin in ZooKeeper: taken over as it is, and acted on when its topic is decided about.

What can be read but makes no sense (a partition that is not there, brokers that nobody knows) is found out
there too, each time anew, so that it begins to hold when it begins to make sense.
"""

from __future__ import annotations

from typing import TypeVar

from hightide_controller.core.effects import Effect
from hightide_controller.core.events import Admin, AdminChanged
from hightide_controller.core.moves.throttle import take_throttle
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.complaints import complain, withdraw
from hightide_controller.core.topics.deletion import heed_intent

__all__ = ["clear_admin", "on_admin_changed", "take_admin"]

Znode = TypeVar("Znode")


def on_admin_changed(state: ClusterState, event: AdminChanged) -> list[Effect]:
    """An operator, or this controller, wrote below /admin."""
    return take_admin(state, event.admin, event.cause)


def take_admin(state: ClusterState, admin: Admin, cause: str) -> list[Effect]:
    """Remember what is given; the topics that it is about are due."""
    effects: list[Effect] = []
    for subject, message in admin.complaints.items():
        of_topic = _complaints_of_topic(state, subject)
        if message is not None:
            of_topic.pop(subject, None)
            effects += complain(state, subject, message)
        elif subject not in of_topic:
            # That it can be read again does not mean that it makes sense, which its topic's work tells.
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
    """Forget what is known to stand about a topic: all of it has been read again."""
    work = state.work_of(topic_name)
    work.due_moves.update(dict.fromkeys(work.moves))
    work.moves.clear()
    work.additions.clear()
    work.removals.clear()
    work.intent = None


def _complaints_of_topic(state: ClusterState, subject: str) -> dict[str, str]:
    """What the work of the topic complains of that a path like /admin/partitions_add/[topic]/5 names."""
    names = subject.split("/")
    work = state.work.get(names[3]) if len(names) > 3 else None
    return {} if work is None else work.complaints


def _put(znodes: dict[int, Znode], number: int, znode: Znode | None) -> None:
    if znode is None:
        znodes.pop(number, None)
    else:
        znodes[number] = znode
