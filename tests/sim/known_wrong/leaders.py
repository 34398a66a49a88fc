"""What a broker does by the text of V2, which has no controller, one rule of Hightide's taken out at a
time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hightide_leaders.core import admin, elections, listening, moves, replicas
from hightide_leaders.core.effects import CloseReplica, Effects
from hightide_leaders.core.events import IsrAdopted
from hightide_leaders.core.state import LeadersState
from hightide_leaders.core.values import ChangeKind, Lives, PartitionNodes, StateChange
from hightide_leaders.core.writes import ANY_VERSION, Enqueue
from sim.known_wrong.replacing import Replacement, always

Sent = Sequence[Enqueue]


def _after_a_commit(event: IsrAdopted) -> bool:
    """The commit thread looks at reassignments and at the load balance; where nothing is committed, nobody
    does."""
    return event.committed


def _whatever_has_the_name(state: LeadersState, change: StateChange, nodes: PartitionNodes | None) -> Effects:
    """V2 stateChangeListener: a close-replica is obeyed, without a look at epochs."""
    hosted = state.hosted.pop(change.name, None)
    if change.kind is not ChangeKind.CLOSE_REPLICA or hosted is None:
        return ()
    return (CloseReplica(change.name, hosted.topic_id),)


def _all(sent: Sent, lives: Lives) -> Sent:
    """V2: wait until consumed by all replicas."""
    return sent


def _obeyed(obey: Callable[..., Effects]) -> Callable[..., Effects]:
    def obeyed(state: LeadersState, change: StateChange, nodes: PartitionNodes | None) -> Effects:
        is_close = change.kind is ChangeKind.CLOSE_REPLICA
        return _whatever_has_the_name(state, change, nodes) if is_close else obey(state, change, nodes)

    return obeyed


WITHOUT: Final[Mapping[str, tuple[Replacement, ...]]] = {
    "elections_fenced": (Replacement(elections, "fenced_by", always(ANY_VERSION)),),
    "isr_changes_fenced": (Replacement(elections, "fence_of_change", always(ANY_VERSION)),),
    "departures": (Replacement(elections, "departure", always(None)),),
    "void_leaders": (Replacement(elections, "is_void", always(False)),),
    "one_life_drains": (Replacement(listening, "of_this_life", always(())),),
    "quiet_partitions_looked_after": (Replacement(moves, "is_occasion", lambda _: _after_a_commit),),
    "closes_checked": (Replacement(replicas, "obey", _obeyed),),
    "deletion_awaits_the_living": (Replacement(admin, "awaited", lambda _: _all),),
}
"""Rule (docs/design/leaders.md, "What is mended") → the broker without it."""
