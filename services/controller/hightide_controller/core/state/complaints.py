"""Complaints for operators, by subject: invalid content in ZooKeeper, and work that cannot continue.

A complaint is reported once, when it appears or changes. It stays in `state.complaints` until its cause is
gone, and descriptions of the cluster show it. It never changes what is in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hightide_controller.core.effects import Effect, LogWarning
from hightide_controller.core.state.cluster_state import ClusterState

__all__ = ["COMPLAINTS_MAX", "complain", "complain_about_topic", "withdraw"]

COMPLAINTS_MAX: Final = 1_000
"""Complaints at the same time. More are dropped silently, because a thousand are enough."""


def complain(state: ClusterState, subject: str, message: str) -> list[Effect]:
    """Add a complaint; `subject` is the path of a znode, or names a partition or broker."""
    if state.complaints.get(subject) == message:
        return []
    if subject not in state.complaints and len(state.complaints) >= COMPLAINTS_MAX:
        return []
    state.complaints[subject] = message
    return [LogWarning(f"{subject}: {message}")]


def withdraw(state: ClusterState, subject: str) -> None:
    """Withdraw a complaint whose cause is gone."""
    state.complaints.pop(subject, None)


def complain_about_topic(state: ClusterState, topic_name: str, complaints: Mapping[str, str]) -> list[Effect]:
    """Replace all complaints about a topic's work by these."""
    work = state.work[topic_name]
    effects: list[Effect] = []
    for subject in work.complaints:
        if subject not in complaints:
            withdraw(state, subject)
    for subject, message in complaints.items():
        effects += complain(state, subject, message)
    work.complaints = dict(complaints)
    return effects
