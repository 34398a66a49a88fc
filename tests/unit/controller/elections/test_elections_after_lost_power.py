"""Who leads where the ISR fell below min.insync.replicas, and where logs may have lost their ends:
`decide`."""

from __future__ import annotations

import pytest
from hightide_controller.core.partition_election import Candidates, decide
from hightide_controller.core.values.partition import (
    NO_LEADER,
    LeaderAndIsr,
    Partition,
    PartitionState,
)
from hightide_runtime.znodes.recovered_log import RecoveredLog
from msgspec.structs import replace
from unit.controller.controller_world import FLIGHTS, led


def decided(
    known: LeaderAndIsr,
    *live: int,
    minimum: int = 2,
    unclean: bool = False,
    failed: frozenset[int] = frozenset(),
    replicas: tuple[int, ...] = (1, 2, 3),
) -> LeaderAndIsr | None:
    state = PartitionState.OFFLINE if known.leader == NO_LEADER else PartitionState.ONLINE
    partition = Partition(FLIGHTS, replicas, state, known)
    candidates = Candidates(frozenset(live), failed=failed, min_insync_replicas=minimum)
    return decide(partition, candidates, 8, unclean)


def lost(known: LeaderAndIsr, *ends: tuple[int, int, int]) -> LeaderAndIsr:
    return replace(known, recovered=tuple(RecoveredLog(*end) for end in ends))


def test_who_leaves_an_isr_that_falls_below_the_minimum_stays_eligible() -> None:
    found = decided(led(1, 1, 2, 3), 1)
    assert found is not None
    assert (found.leader, found.isr, found.eligible) == (1, (1,), (2, 3))


def test_nobody_is_eligible_beside_an_isr_that_is_large_enough() -> None:
    found = decided(replace(led(1, 1, 2, 3), eligible=()), 1, 2)
    assert found is not None
    assert (found.isr, found.eligible) == ((1, 2), ())
    found = decided(led(1, 1, 2, 3), 1, minimum=1)
    assert found is not None
    assert found.eligible == ()


def test_two_replicas_that_are_asked_for_three_copies_count_as_all_that_there_are() -> None:
    found = decided(led(1, 1, 2), 1, minimum=3, replicas=(1, 2))
    assert found is not None
    assert found.eligible == (2,)


def test_who_cannot_use_its_replica_any_more_is_not_eligible() -> None:
    found = decided(led(1, 1, 2, 3), 1, failed=frozenset({2}))
    assert found is not None
    assert found.eligible == (3,)
    found = decided(replace(led(1, 1), eligible=(2, 3)), 1, 3, failed=frozenset({2}))
    assert found is not None
    assert (found.leader_epoch, found.eligible) == (0, (3,))


def test_an_eligible_replica_leads_where_nobody_of_the_isr_is_alive() -> None:
    found = decided(replace(led(1, 1), eligible=(2, 3)), 2, 3)
    assert found is not None
    assert (found.leader, found.leader_epoch, found.isr, found.eligible) == (2, 1, (2,), (1, 3))
    assert found.unclean_epoch == 0, "it has all that is committed"


def test_an_eligible_replica_that_is_not_alive_is_waited_for() -> None:
    found = decided(replace(led(1, 1), eligible=(2,)), 3)
    assert found is not None
    assert (found.leader, found.isr, found.eligible) == (NO_LEADER, (1,), (2,))
    assert decided(found, 3) is None


def test_a_member_that_lost_its_power_is_in_the_isr_in_name_only() -> None:
    """The record is on three disks, and the one that was left in the ISR loses it."""
    offline = replace(led(NO_LEADER, 1, epoch=4), eligible=(2, 3))
    found = decided(lost(offline, (1, -1, 0)), 1)
    assert found is None, "2 and 3 have all records"
    found = decided(lost(offline, (1, -1, 0)), 1, 3)
    assert found is not None
    assert (found.leader, found.isr, found.eligible) == (3, (3,), (2,))
    assert found.recovered == (RecoveredLog(1, -1, 0),), "it is all that is left if 2 and 3 lose theirs too"


def test_where_all_may_have_lost_their_ends_the_one_that_has_most_leads() -> None:
    offline = led(NO_LEADER, 3, epoch=4)
    assert decided(lost(offline, (1, 0, 5), (2, 0, 9)), 1, 2) is None, "3 has not told what it has"
    for best, ends in {
        2: ((1, 0, 5), (2, 0, 9), (3, -1, 0)),
        1: ((1, 3, 5), (2, 0, 9), (3, 2, 7)),
        3: ((1, 3, 5), (2, 0, 9), (3, 3, 6)),
    }.items():
        found = decided(lost(offline, *ends), 1, 2, 3)
        assert found is not None
        assert (found.leader, found.isr, found.leader_epoch, found.unclean_epoch) == (best, (best,), 5, 5)


def test_the_one_that_has_most_is_waited_for_unless_the_topic_prefers_an_unclean_election() -> None:
    offline = lost(led(NO_LEADER, 3, epoch=4), (1, 0, 5), (2, 0, 9), (3, 0, 7))
    assert decided(offline, 1, 3) is None
    found = decided(offline, 1, 3, unclean=True)
    assert found is not None
    assert (found.leader, found.unclean_epoch) == (3, 5), "of those that live it has most"


def test_a_single_replica_comes_back_by_itself_after_a_loss_of_power() -> None:
    found = decided(lost(led(NO_LEADER, 1, epoch=4), (1, 4, 9)), 1, replicas=(1,))
    assert found is not None
    assert (found.leader, found.leader_epoch, found.unclean_epoch, found.recovered) == (1, 5, 5, ())


def test_the_last_unclean_epoch_is_remembered_by_later_decisions() -> None:
    known = replace(led(1, 1, 2, epoch=6), unclean_epoch=4)
    found = decided(known, 2)
    assert found is not None
    assert (found.leader, found.leader_epoch, found.unclean_epoch) == (2, 7, 4)
    assert not found.is_unclean


@pytest.mark.parametrize("minimum", [1, 2])
def test_logs_that_lost_their_ends_are_forgotten_beside_an_isr_that_is_large_enough(minimum: int) -> None:
    known = lost(led(2, 2, 3, epoch=1), (1, 0, 5))
    found = decided(known, 3, minimum=minimum)
    assert found is not None
    assert found.recovered == (() if minimum == 1 else (RecoveredLog(1, 0, 5),))
