"""A follower that is to cut what it knows to be committed keeps it, unless an election was unclean."""

from __future__ import annotations

from hightide_broker.core.effects import (
    AskEpochEnd,
    ReportDivergence,
    StopFetching,
    TruncateAndStartAt,
    TruncateTo,
)
from hightide_broker.core.events import (
    BatchSpan,
    DirectoryFailed,
    FetchRefused,
    LeaderAndIsrDecided,
)
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Replica, ReplicaSettings, Role
from unit.broker_core.replica_pair import Batch, Node, ReplicaPair


def loss(pair: ReplicaPair) -> Node:
    """Two records are committed on 1 and 2; then 3 leads, which has neither, and no election was unclean."""
    pair.decide(1, 1, isr=(1, 2), to=(1, 2))
    pair[1].produces("a", "b")
    pair.catch_up(2)
    assert pair[2].state.high_watermark == 2
    pair.decide(3, 2, isr=(2, 3))
    return pair[2]


def test_a_follower_keeps_committed_records_that_its_leader_has_lost(pair: ReplicaPair) -> None:
    follower = loss(pair)
    assert follower.is_answered(-1, 0) == (StopFetching(), ReportDivergence(0))
    assert follower.state.role is Role.DIVERGED
    assert (follower.values, follower.state.high_watermark) == ("ab", 2)
    assert follower.state.fetch_offset is None, "its leader would let it into the ISR"


def test_what_is_not_committed_is_cut_as_ever_and_the_cut_stops_where_that_begins(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1, 2), to=(1, 2))
    pair[1].produces("a", "b")
    pair.catch_up(2)
    pair[1].produces("c")
    pair.fetch(2)
    assert (pair[2].values, pair[2].state.high_watermark) == ("abc", 2)
    pair.decide(3, 2, isr=(2, 3))
    assert pair[2].is_answered(1, 1) == (StopFetching(), ReportDivergence(1))
    assert pair[2].is_answered(1, 2) == (), "an echo"
    pair.decide(1, 3, isr=(1,), to=(2,))
    assert pair[2].is_answered(1, 2)[0] == TruncateTo(2)


def test_an_unclean_election_that_this_log_was_cut_for_before_explains_nothing(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1, 2), to=(1, 2), unclean_epoch=1)
    pair[1].produces("a")
    pair.catch_up(2)
    pair.decide(3, 2, isr=(2, 3), unclean_epoch=1)
    assert ReportDivergence(0) in pair[2].is_answered(-1, 0)


def test_one_that_came_later_does_though_another_clean_one_followed(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1, 2), to=(1, 2))
    pair[1].produces("a")
    pair.catch_up(2)
    pair.decide(3, 4, isr=(2, 3), unclean_epoch=2)
    assert pair[2].is_answered(-1, 0)[0] == TruncateTo(0, lost_committed=True)


def test_a_log_that_would_begin_anew_below_its_high_watermark_is_kept_too() -> None:
    opened = Replica.opened(
        ReplicaSettings(broker_id=2), log_end_offset=4, high_watermark=4, epochs=((3, 0),), is_new=False
    )
    node = Node(opened, [Batch(BatchSpan(0, 4, 3), "abcd")])
    node.happens(LeaderAndIsrDecided.dummy(leader=1, leader_epoch=5))
    assert node.is_answered(-1, 3) == (StopFetching(), ReportDivergence(3))
    assert node.values == "abcd"


def test_a_leader_that_ends_below_this_log_start_is_not_followed() -> None:
    opened = Replica.opened(
        ReplicaSettings(broker_id=2),
        log_start_offset=2,
        log_end_offset=4,
        high_watermark=2,
        epochs=((3, 0),),
        is_new=False,
    )
    node = Node(opened, [Batch(BatchSpan(2, 2, 3), "cd")])
    node.happens(LeaderAndIsrDecided.dummy(leader=1, leader_epoch=5))
    assert node.is_answered(3, 1) == (StopFetching(), ReportDivergence(1))
    node.happens(LeaderAndIsrDecided.dummy(leader=1, leader_epoch=6, unclean_epoch=6))
    assert node.is_answered(3, 1)[0] == TruncateAndStartAt(1, lost_committed=True)


def test_each_decision_lets_it_ask_again_so_that_whoever_is_new_hears_of_it(pair: ReplicaPair) -> None:
    follower = loss(pair)
    follower.is_answered(-1, 0)
    pair.decide(3, 2, isr=(2, 3), to=(2,))
    assert follower.asking == AskEpochEnd(3, 2, 1, 2)
    assert follower.is_answered(-1, 0) == (StopFetching(), ReportDivergence(0))


def test_it_may_be_offline_and_lead_and_fail(pair: ReplicaPair) -> None:
    follower = loss(pair)
    follower.is_answered(-1, 0)
    assert follower.happens(FetchRefused(3, 2, Refusal.OFFSET_OUT_OF_RANGE, 0)) == ()
    pair.decide(-1, 3, isr=(3,), to=(2,))
    assert follower.state.role is Role.OFFLINE
    pair.decide(2, 4, isr=(2,), to=(2,), unclean_epoch=4)
    assert (follower.state.is_leader, follower.values) == (True, "ab")
    pair.decide(3, 5, isr=(2, 3), to=(2,), unclean_epoch=4)
    follower.is_answered(-1, 0)
    follower.happens(DirectoryFailed())
    assert follower.state.decision.leader_epoch == 5
