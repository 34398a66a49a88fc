"""Becoming the active coordinator of the shard, and ceasing to be it (§5, §10; C5)."""

from __future__ import annotations

from hightide_coordinator.core.commits.stored_groups import valid_offsets, valid_owners
from hightide_coordinator.core.effects import LogSentence, Resign
from hightide_coordinator.core.events import CoordinatorSeen, Deposed, Elected
from hightide_coordinator.core.membership.departures import add_member
from hightide_coordinator.core.placement.placement import place, set_owner, start_reading
from hightide_coordinator.core.placement.subscriptions import target_of_owners
from hightide_coordinator.core.placement.unreadable_topics import withhold
from hightide_coordinator.core.state.group import Group, GroupState
from hightide_coordinator.core.state.member import Member, identity_of
from hightide_coordinator.core.state.shard_state import NEVER_RETURNED_MS, Role, ShardState
from hightide_coordinator.core.values.member_id import age_of
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason
from hightide_coordinator.core.values.registration import PartitionOwner, Registration, StoredGroup

__all__ = ["on_coordinator_seen", "on_deposed", "on_elected", "resign"]

SESSION_TIMEOUT_DEFAULT_MS = Registration(group="").session_timeout_ms
"""The session timeout of a group whose znode has none, because an operator wrote it."""


def on_elected(state: ShardState, event: Elected) -> None:
    """§5 coordinatorStartup with everything that ZooKeeper holds; then wait for the members in it (§10)."""
    if state.role is Role.ACTIVE:
        resign(state, "it was elected again")
    _forget(state)
    state.role = Role.ACTIVE
    state.active_elsewhere = None
    state.coordinator_epoch = event.coordinator_epoch
    state.topics = dict(event.topics)
    state.brokers = event.brokers
    for name, stored in event.groups.items():
        _load(state, name, stored)
    waiting = sum(1 for group in state.groups.values() if group.state is GroupState.RECOVERING)
    state.do(
        LogSentence(
            f"active in coordinator epoch {event.coordinator_epoch}: {len(state.groups)} groups, of which "
            f"{waiting} wait for {state.member_count} members"
        )
    )


def _load(state: ShardState, name: str, stored: StoredGroup) -> None:
    offsets, void_offsets = valid_offsets(state, stored)
    owners, void_owners = valid_owners(state, stored)
    group = Group(name, generation=stored.generation, offsets=offsets, is_stored=True)
    group.note_reason(RebalanceReason.TAKEOVER, "this coordinator took over")
    group.voided = dict.fromkeys((*void_offsets, *void_owners))
    group.generation += bool(group.voided)
    state.groups[name] = group
    for key, owner in owners.items():
        set_owner(group, key, owner)
        state.concern(group, key.topic)
    for key in offsets:
        state.concern(group, key.topic)
    withhold(state, group, stored.withheld)
    timeout_ms = stored.session_timeout_ms or SESSION_TIMEOUT_DEFAULT_MS
    timeout_ms = max(timeout_ms, state.limits.session_timeout_min_ms)
    timeout_ms = min(timeout_ms, state.limits.session_timeout_max_ms)
    for owner in _latest_owners(group):
        _expect(state, group, owner, timeout_ms)
    group.target = target_of_owners(group)
    for key in group.owners:
        place(group, key)
    if group.members:
        group.state = GroupState.RECOVERING
    state.look_at(group)


def _latest_owners(group: Group) -> list[PartitionOwner]:
    """One owner for each consumer. If two members have one identity, a store was interrupted while one
    replaced the other; the one of the later generation is alive."""
    latest: dict[str, PartitionOwner] = {}
    for owner in group.owners.values():
        identity = identity_of(owner.consumer_id, owner.instance_id)
        known = latest.get(identity)
        if known is None or known.generation < owner.generation:
            latest[identity] = owner
    by_consumer = {owner.consumer_id: owner for owner in latest.values()}
    by_member = {owner.member_id: owner for owner in by_consumer.values()}
    return list(by_member.values())


def _expect(state: ShardState, group: Group, owner: PartitionOwner, timeout_ms: int) -> None:
    """Wait for an owner: it has its session timeout to report."""
    member = Member(
        group=group.name,
        member_id=owner.member_id,
        consumer_id=owner.consumer_id,
        instance_id=owner.instance_id,
        session_timeout_ms=timeout_ms,
        registration=None,
        heard_ms=state.now_ms,
        away_until_ms=state.now_ms + timeout_ms,
        age=age_of(owner.member_id),
    )
    add_member(state, group, member)
    group.missing[member.member_id] = member
    for key in group.owned[member.member_id]:
        start_reading(group, key, member)
    state.wheel.arm(member, member.away_until_ms)


def on_coordinator_seen(state: ShardState, event: CoordinatorSeen) -> None:
    """Set the coordinator that refusals name."""
    state.active_elsewhere = event.coordinator


def on_deposed(state: ShardState, event: Deposed) -> None:
    """§10 handleNewSession: another coordinator was elected, or this one's session is over."""
    resign(state, "it is not the active coordinator any more")


def resign(state: ShardState, why: str) -> None:
    """Forget everything; writes that are still on their way to ZooKeeper are fenced there (C5)."""
    if state.role is Role.ACTIVE:
        state.do(LogSentence(f"resigned from coordinator epoch {state.coordinator_epoch}: {why}"))
        state.do(Resign())
    _forget(state)


def _forget(state: ShardState) -> None:
    state.role = Role.STANDBY
    state.topics = {}
    state.brokers = ()
    state.groups = {}
    state.returned_ms = NEVER_RETURNED_MS
    state.connections = {}
    state.member_count = 0
    state.concerned = {}
    state.withheld = {}
    state.patterns = {}
    state.watch_changes = set()
    state.wheel.clear()
    state.due_groups = {}
    state.stores = {}
    state.look_ups = {}
    state.waiting_bytes = 0
    state.resets = {}
    state.checks = {}
    state.leaps = {}
    state.pings = {}
    state.dead = {}
