"""Who leads: `decide`, as a table. Broker 9 is never alive."""

from __future__ import annotations

import pytest
from hightide_controller.core import partition_election
from hightide_controller.core.partition_election import Candidates, decide
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, Partition, PartitionState
from sim.known_wrong import CONTROLLER_RULES, without
from unit.controller.controller_world import FLIGHTS, led

LIVE = frozenset({1, 2, 3})
NOBODY: frozenset[int] = frozenset()


def partition(known: LeaderAndIsr | None, replicas: tuple[int, ...] = (1, 2, 3)) -> Partition:
    if known is None:
        return Partition(FLIGHTS, replicas, PartitionState.NEW, None)
    state = PartitionState.OFFLINE if known.leader == NO_LEADER else PartitionState.ONLINE
    return Partition(FLIGHTS, replicas, state, known)


# what is known, live, leaving, bounced -> leader, leader epoch, ISR; None: nothing to do
CASES = {
    "all is well": (led(1, 1, 2, 3), {1, 2, 3}, (), (), None),
    "a small ISR is the leader's business": (led(1, 1), {1, 2, 3}, (), (), None),
    "leader died": (led(1, 1, 2, 3), {2, 3}, (), (), (2, 1, (2, 3))),
    "assignment order, not ISR order": (led(1, 3, 1, 2), {2, 3}, (), (), (2, 1, (3, 2))),
    "follower died: same epoch": (led(1, 1, 2, 3), {1, 3}, (), (), (1, 0, (1, 3))),
    "only an ISR member leads": (led(1, 1, 3), {2, 3}, (), (), (3, 1, (3,))),
    "no ISR member alive: offline, ISR kept": (led(1, 1), {2, 3}, (), (), (NO_LEADER, 1, (1,))),
    "nobody alive: offline, whole ISR kept": (led(1, 1, 2), set(), (), (), (NO_LEADER, 1, (1, 2))),
    "still offline: nothing to write": (led(NO_LEADER, 1, epoch=4), {2, 3}, (), (), None),
    "an ISR member came back": (led(NO_LEADER, 1, epoch=4), {1, 2}, (), (), (1, 5, (1,))),
    "one of two came back": (led(NO_LEADER, 1, 2, epoch=4), {2, 3}, (), (), (2, 5, (2,))),
    "the leader leaves": (led(1, 1, 2, 3), {1, 2, 3}, (1,), (), (2, 1, (2, 3))),
    "a follower leaves": (led(1, 1, 2, 3), {1, 2, 3}, (2,), (), (1, 0, (1, 3))),
    "nobody else can lead: it stays": (led(1, 1), {1, 2, 3}, (1,), (), None),
    "both leave: the live one leads on": (led(1, 1, 2), {1, 2}, (1, 2), (), None),
    "the leader bounced": (led(1, 1, 2), {1, 2, 3}, (), (1,), (2, 1, (2,))),
    "the leader bounced alone: a new epoch": (led(1, 1), {1, 2, 3}, (), (1,), (1, 1, (1,))),
    "a follower bounced": (led(1, 1, 2), {1, 2, 3}, (), (2,), (1, 0, (1,))),
    "new": (None, {1, 2, 3}, (), (), (1, 0, (1, 2, 3))),
    "new, first replica dead": (None, {2, 3}, (), (), (2, 0, (2, 3))),
    "new, one leaves": (None, {1, 2, 3}, (1,), (), (2, 0, (2, 3))),
    "new, nobody alive: wait": (None, set(), (), (), None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_decision(name: str) -> None:
    known, live, leaving, bounced, expected = CASES[name]
    candidates = Candidates(frozenset(live), frozenset(leaving), frozenset(bounced))
    decided = decide(partition(known), candidates, controller_epoch=8, unclean=False)
    if expected is None:
        assert decided is None
        return
    assert decided is not None
    assert (decided.leader, decided.leader_epoch, decided.isr) == expected
    assert decided.controller_epoch == 8
    assert decided.partition_epoch == (0 if known is None else known.partition_epoch + 1)


def test_an_unclean_leader_is_elected_only_where_the_topic_asks_for_it() -> None:
    gone = partition(led(1, 1, 9))
    candidates = Candidates(frozenset({2, 3}))
    clean = decide(gone, candidates, 1, unclean=False)
    unclean = decide(gone, candidates, 1, unclean=True)
    assert clean is not None
    assert clean.leader == NO_LEADER
    assert unclean is not None
    assert (unclean.leader, unclean.isr) == (2, (2,))


def test_v3_to_the_letter_lets_any_live_replica_lead() -> None:
    with without(*CONTROLLER_RULES):
        decided = partition_election.decide(
            partition(led(1, 1)), Candidates(frozenset({3})), 1, unclean=False
        )
    assert decided is not None
    assert (decided.leader, decided.isr) == (3, (3,))


def test_v3_to_the_letter_starts_an_offline_partition_as_if_it_were_new() -> None:
    offline = partition(led(NO_LEADER, 1))
    with without(*CONTROLLER_RULES):
        decided = partition_election.decide(offline, Candidates(LIVE), 1, unclean=False)
    assert decided is not None
    assert decided.isr == (1, 2, 3)


def test_deciding_twice_changes_nothing_more() -> None:
    candidates = Candidates(frozenset({2, 3}))
    first = decide(partition(led(1, 1, 2, 3)), candidates, 1, unclean=False)
    assert first is not None
    assert decide(partition(first), candidates, 1, unclean=False) is None


def test_nobody_stays_in_the_isr_who_is_not_assigned_any_more() -> None:
    # An operator has written the topic znode (KAFKA-9672).
    moved = partition(led(3, 3, 1), replicas=(1, 2))
    decided = decide(moved, Candidates(LIVE), controller_epoch=8, unclean=False)
    assert decided is not None
    assert (decided.leader, decided.leader_epoch, decided.isr) == (1, 1, (1,))
