"""The next step of a move, as a pure function: what may not happen even where the cache is behind."""

from __future__ import annotations

import pytest
from hightide_controller.core import events as ev
from hightide_controller.core.moves.move_steps import (
    MoveBlocked,
    MoveConditions,
    MoveStep,
    MoveWaits,
    step_back,
    step_forward,
    union,
)
from hightide_controller.core.partition_election import Candidates
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, Partition, PartitionState
from hightide_runtime.znodes.recovered_log import RecoveredLog
from msgspec.structs import replace
from unit.controller.controller_world import FLIGHTS, led

UNDER_WAY = ev.StoredReassignment((3, 4), (1, 2), 0)


def around(*live: int) -> MoveConditions:
    alive = frozenset(live)
    return MoveConditions(Candidates(alive), alive, frozenset({1, 2, 3, 4, 5}), 7)


def partition(*replicas: int, known: LeaderAndIsr | None) -> Partition:
    if known is None:
        state = PartitionState.NEW
    else:
        state = PartitionState.OFFLINE if known.leader == NO_LEADER else PartitionState.ONLINE
    return Partition(FLIGHTS, replicas, state, known)


def test_original_replicas_come_first_while_a_move_is_under_way() -> None:
    assert union((2, 1), (3, 1, 4)) == (2, 1, 3, 4)


def test_taking_back_never_costs_a_partition_its_leader() -> None:
    led_by_new = partition(1, 2, 3, 4, known=led(3, 3, 1))
    assert isinstance(step_back(led_by_new, UNDER_WAY, around(3, 4)), MoveBlocked)
    assert isinstance(step_back(led_by_new, UNDER_WAY, around(1, 3, 4)), MoveStep)


def test_an_end_never_costs_a_partition_its_leader() -> None:
    in_sync = partition(1, 2, 3, 4, known=led(1, 1, 3, 4))
    assert step_forward(in_sync, UNDER_WAY, (3, 4), around(1, 2)) == MoveWaits((3, 4))
    assert isinstance(step_forward(in_sync, UNDER_WAY, (3, 4), around(1, 4)), MoveStep)


def test_the_preferred_one_of_the_new_replicas_leads_where_it_may() -> None:
    in_sync = partition(1, 2, 3, 4, known=led(1, 1, 4, 3))
    step = step_forward(in_sync, UNDER_WAY, (3, 4), around(1, 2, 3, 4))
    assert isinstance(step, MoveStep)
    assert step.decided is not None
    assert step.decided.leader == 3


@pytest.mark.parametrize("isr", [(1,), (1, 2), (1, 2, 3), (1, 4)])
def test_a_move_waits_for_all_of_its_new_replicas(isr: tuple[int, ...]) -> None:
    behind = partition(1, 2, 3, 4, known=led(1, *isr))
    assert step_forward(behind, UNDER_WAY, (3, 4), around(1, 2, 3, 4)) == MoveWaits(())


@pytest.mark.parametrize("target", [(2, 3), (1, 4)])
def test_a_partition_shrinks_at_once_only_to_replicas_that_are_all_in_sync(target: tuple[int, ...]) -> None:
    behind = partition(1, 2, 3, known=led(1, 1, 2))
    step = step_forward(behind, None, target, around(1, 2, 3, 4))
    assert isinstance(step, MoveStep)
    assert step.replicas == union((1, 2, 3), target)
    assert step.original == (1, 2, 3)


def test_a_partition_that_loses_its_znode_on_the_way_is_not_moved_blindly() -> None:
    """It begins anew on all its replicas, the original ones first: only those are known to have records."""
    lost = partition(1, 2, 3, 4, known=None)
    assert step_forward(lost, UNDER_WAY, (3, 4), around(1, 2, 3, 4)) == MoveWaits(())


def test_a_step_is_the_same_however_often_it_is_asked_for() -> None:
    fresh = partition(1, 2, known=led(1, 1, 2))
    first = step_forward(fresh, None, (3, 4), around(1, 2, 3, 4))
    assert isinstance(first, MoveStep)
    assert step_forward(fresh, None, (3, 4), around(1, 2, 3, 4)) == first
    wide = partition(*first.replicas, known=first.decided)
    znode = ev.StoredReassignment((3, 4), first.original, 0)
    assert step_forward(wide, znode, (3, 4), around(1, 2, 3, 4)) == MoveWaits(())


def doubted(known: LeaderAndIsr, *ends: tuple[int, int, int]) -> LeaderAndIsr:
    return replace(known, recovered=tuple(RecoveredLog(*end) for end in ends))


@pytest.mark.parametrize("leader", [NO_LEADER, 1])
def test_a_move_does_not_end_among_replicas_that_may_have_lost_what_an_original_one_has(leader: int) -> None:
    """All lost power as the move was about to end, and the new replicas are back first. The end was an
    unclean election that nobody had allowed: the original ones, which have all records, were dropped."""
    known = doubted(led(leader, 1, 2, 3, 4), (3, 0, 5), (4, 0, 6))
    in_sync = partition(1, 2, 3, 4, known=known)
    assert step_forward(in_sync, UNDER_WAY, (3, 4), around(3, 4)) == MoveWaits(())
    whole = partition(1, 2, 3, 4, known=doubted(known, (3, 0, 5)))
    step = step_forward(whole, UNDER_WAY, (3, 4), around(3, 4))
    assert isinstance(step, MoveStep)
    assert step.decided is not None
    assert (step.decided.leader, step.decided.unclean_epoch) == (4, 0)


def test_if_all_may_have_lost_some_the_longest_log_is_not_dropped() -> None:
    known = doubted(led(NO_LEADER, 1, 2, 3, 4), (1, 0, 9), (2, 0, 7), (3, 0, 5), (4, 0, 6))
    assert step_forward(partition(1, 2, 3, 4, known=known), UNDER_WAY, (3, 4), around(3, 4)) == MoveWaits(())


def test_taking_back_does_not_drop_the_last_that_has_all_records() -> None:
    known = doubted(led(NO_LEADER, 1, 3), (1, 0, 5))
    znode = ev.StoredReassignment((3,), (1,), 0)
    assert isinstance(step_back(partition(1, 3, known=known), znode, around(1)), MoveBlocked)


@pytest.mark.parametrize("eligible", [(), (2,)])
def test_a_partition_is_not_shrunk_to_replicas_that_may_have_lost_what_the_others_have(
    eligible: tuple[int, ...],
) -> None:
    isr = (1,) if eligible else (1, 2)
    known = replace(doubted(led(NO_LEADER, *isr), (1, 0, 5)), eligible=eligible)
    step = step_forward(partition(1, 2, known=known), None, (1,), around(1))
    assert isinstance(step, MoveStep)
    assert step.replicas == (1, 2)
    assert step.decided is not None
    assert step.decided.leader == NO_LEADER
