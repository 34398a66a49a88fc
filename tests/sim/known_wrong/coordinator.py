"""What a coordinator does by the text of the consumer coordinator, one of C1 to C7 taken out at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hightide_coordinator.core import invariants
from hightide_coordinator.core.commits import commit_fences, positions, store_building
from hightide_coordinator.core.events import FetchersStarted, FetchersStopped
from hightide_coordinator.core.membership import answers, arrivals, orders
from hightide_coordinator.core.placement import subscriptions
from hightide_coordinator.core.placement.placement import place, set_owner
from hightide_coordinator.core.state import group_changes
from hightide_coordinator.core.state.group import Group, GroupState, StoreInFlight
from hightide_coordinator.core.state.member import Member
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.registration import StoredOffset
from msgspec.structs import replace
from sim.groups import consumer, zookeeper
from sim.known_wrong.replacing import Replacement, always

Changing = Callable[..., None]


def _any_answer_counts(on_answered: Changing) -> Changing:
    """C1: an answer clears whatever order is open, also a late one that answers an attempt of before."""

    def answered(
        state: ShardState, group: Group, member: Member, event: FetchersStopped | FetchersStarted
    ) -> None:
        order = member.order
        on_answered(state, group, member, event if order is None else replace(event, sequence=order.sequence))

    return answered


def _has_an_order(state: ShardState, member: Member, event: FetchersStopped) -> bool:
    return member.order is not None


def _start_before_stored(state: ShardState, group: Group, store: StoreInFlight) -> None:
    """C4: §9 step 4.4 before 4.6."""
    group.gives_not_before_ms = state.now_ms + state.limits.join_window_ms
    for name, owner in store.owners.items():
        if owner is None:
            place(group, name)
            continue
        group.store = None
        set_owner(group, name, owner)
        group.offsets.setdefault(name, StoredOffset(0, -1, state.topics[name.topic].topic_id))
        place(group, name)
        group.store = store


def _only_if_the_bit_is_not_set(note_change: Changing) -> Changing:
    """C6: a change during a rebalance is not followed by another one."""

    def noted(state: ShardState, group: Group, *given: Any, **named: Any) -> None:
        if group.state is GroupState.REBALANCING:
            state.look_at(group)
        else:
            note_change(state, group, *given, **named)

    return noted


def _at_once(note_change: Changing) -> Changing:
    """C7: changes are not gathered."""

    def noted(state: ShardState, *given: Any, **named: Any) -> None:
        limits, state.limits = state.limits, replace(state.limits, join_window_ms=0)
        note_change(state, *given, **named)
        state.limits = limits

    return noted


def _everyone_stops(compute_target: Callable[..., Any]) -> Callable[..., Any]:
    """C7: each change stops everyone."""

    def computed(state: ShardState, group: Group) -> Any:
        target = compute_target(state, group)
        group.renewed.update(name for name in group.readers if name in target)
        return target

    return computed


WITHOUT: Final[Mapping[str, tuple[Replacement, ...]]] = {
    "answers_matched": (
        Replacement(orders, "on_answered", _any_answer_counts),
        Replacement(answers, "_is_open", lambda _: _has_an_order),
    ),
    "commits_fenced": (
        Replacement(commit_fences, "_stranger_refusal", always(None)),
        Replacement(commit_fences, "_back_refusal", always(None)),
    ),
    "positions_fenced": (
        Replacement(positions, "_is_believed", always(True)),
        Replacement(invariants, "_check_forward", always(None)),
    ),
    "owners_before_start": (Replacement(store_building, "_place_given", lambda _: _start_before_stored),),
    "epochs_fenced": (
        Replacement(arrivals, "_newer_coordinator", always(None)),
        Replacement(zookeeper, "is_current", always(True)),
        Replacement(consumer, "is_deposed", always(False)),
    ),
    "changes_rerun": (
        Replacement(group_changes, "note_change", _only_if_the_bit_is_not_set),
        Replacement(invariants, "_check_going_on", always(None)),
    ),
    "only_moved_stop": (
        Replacement(group_changes, "note_change", _at_once),
        Replacement(subscriptions, "compute_target", _everyone_stops),
    ),
}
"""Mend of the coordinator's text → the coordinator without it. C5 is the stores' and the consumers' too: they
write for whoever asks, and obey any epoch."""
