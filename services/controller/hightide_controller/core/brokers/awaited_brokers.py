"""Partitions that cannot have a leader before a certain broker is back, because logs may have lost their
ends.

After a power loss each broker reports what it still has, and the one with the longest log leads. As long as a
broker that had everything has not reported, it may be that one (`partition_election.waited_for`). A list of
offline partitions does not show this, because all other brokers may be up. So the controller complains about
each broker that is waited for, until it is back or another one has been elected.
"""

from __future__ import annotations

from collections.abc import Iterable

from hightide_controller.core.effects import Effect
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.complaints import complain, withdraw
from hightide_controller.core.values.partition import TopicPartition

__all__ = ["complain_of_waits"]


def complain_of_waits(state: ClusterState) -> list[Effect]:
    """Update the complaints. Called at the end of each step; the cost grows with the number of complaints."""
    waits: dict[int, list[TopicPartition]] = {}
    for broker_ids, names in state.awaited.items():
        waiting = _waiting(state, broker_ids, names)
        for broker_id in broker_ids if waiting else ():
            waits.setdefault(broker_id, []).extend(waiting)
    for broker_id in state.awaited_complaints - waits.keys():
        withdraw(state, _subject(broker_id))
    state.awaited_complaints = set(waits)
    effects: list[Effect] = []
    for broker_id in sorted(waits):
        effects += complain(state, _subject(broker_id), _message(waits[broker_id]))
    return effects


def _waiting(
    state: ClusterState, broker_ids: tuple[int, ...], names: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Those that none of the brokers is there to lead: it is not alive, or cannot use its replica."""
    waiting = list(names)
    for broker_id in broker_ids:
        if state.is_live(broker_id):
            failed = state.failed_on.get(broker_id, ())
            waiting = [name for name in waiting if name in failed] if failed else []
    return waiting


def _message(names: list[TopicPartition]) -> str:
    example = f"{names[0].topic}-{names[0].partition}"
    who = f"{example} waits" if len(names) == 1 else f"{len(names)} partitions, {example} among them, wait"
    return (
        f"{who} for it, without a leader: the other replicas may have lost the ends of their logs in a "
        "power loss, and this broker may have more; start it. If the broker, or its disk, is gone for "
        'good, see docs/operating.md, "When partitions wait for a broker"'
    )


def _subject(broker_id: int) -> str:
    return f"broker {broker_id}, partitions that wait for it"
