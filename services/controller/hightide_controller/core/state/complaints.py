"""What an operator should look at, by subject: nonsense in ZooKeeper, and work that cannot go on.

A complaint is reported once, when it appears or changes; it stands in `state.complaints` until its cause is
gone, and describes of the cluster show it. It never changes what is in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hightide_controller.core.effects import Effect, Report
from hightide_controller.core.state.cluster_state import ClusterState

__all__ = ["COMPLAINTS_MAX", "complain", "complain_about_topic", "withdraw"]

COMPLAINTS_MAX: Final = 1_000
"""Kept at the same time; more are dropped unheard, since a thousand say enough."""


def complain(state: ClusterState, subject: str, message: str) -> list[Effect]:
    """Note a complaint; `subject` is the path of a znode, or says which partition or broker is meant."""
    if state.complaints.get(subject) == message:
        return []
    if subject not in state.complaints and len(state.complaints) >= COMPLAINTS_MAX:
        return []
    state.complaints[subject] = message
    return [Report(f"{subject}: {message}")]


def withdraw(state: ClusterState, subject: str) -> None:
    """What was complained about is gone."""
    state.complaints.pop(subject, None)


def complain_about_topic(state: ClusterState, topic_name: str, complaints: Mapping[str, str]) -> list[Effect]:
    """These are all complaints that there are about a topic's work; earlier ones are withdrawn."""
    work = state.work[topic_name]
    effects: list[Effect] = []
    for subject in work.complaints:
        if subject not in complaints:
            withdraw(state, subject)
    for subject, message in complaints.items():
        effects += complain(state, subject, message)
    work.complaints = dict(complaints)
    return effects
