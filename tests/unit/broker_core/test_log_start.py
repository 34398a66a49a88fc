"""Where a log begins: records are deleted by a leader, and followers hear of it (KIP-107)."""

from __future__ import annotations

import pytest
from hightide_broker.core.effects import (
    AdvanceHighWatermark,
    AppendFetched,
    AskEpochEnd,
    MoveLogStart,
    PersistEpoch,
    Refuse,
    ReportDivergence,
    StartFetching,
    StopFetching,
    TruncateAndStartAt,
)
from hightide_broker.core.events import (
    BatchesReceived,
    BatchSpan,
    DeleteRecordsArrived,
    FetchRefused,
    LeaderAndIsrDecided,
    ProduceArrived,
    RecordsExpired,
)
from hightide_broker.core.fetch_session import FollowerPosition, LeaderSession
from hightide_broker.core.lineage import NO_EPOCH
from hightide_broker.core.log_start import log_start_after
from hightide_broker.core.reads import consumer_fetch, earliest_offset
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Replica, ReplicaSettings, Role
from unit.broker_core.replica_pair import Batch, Node, ReplicaPair


def committed(pair: ReplicaPair, values: str = "abcd") -> Node:
    """1 leads, and all have these."""
    pair.decide(1, 1)
    pair[1].produces(*values)
    pair.catch_up(2, 3)
    assert pair[1].state.high_watermark == len(values)
    return pair[1]


def test_the_log_begins_at_the_offset_and_consumers_below_are_out_of_range(pair: ReplicaPair) -> None:
    leader = committed(pair)
    assert leader.happens(DeleteRecordsArrived(3)) == (MoveLogStart(3),)
    assert earliest_offset(leader.state) == 3
    assert consumer_fetch(leader.state, 2) is Refusal.OFFSET_OUT_OF_RANGE
    assert leader.state.epochs.entries[0].start_offset == 3


def test_minus_one_is_all_that_is_committed_and_nothing_above_is_deleted(pair: ReplicaPair) -> None:
    leader = committed(pair)
    leader.produces("e")
    assert leader.happens(DeleteRecordsArrived(5)) == (Refuse(Refusal.OFFSET_OUT_OF_RANGE),)
    assert leader.happens(DeleteRecordsArrived(-1)) == (MoveLogStart(4),)
    assert leader.state.log_end_offset == 5


def test_retention_begins_a_log_where_it_may_and_never_beyond_what_is_committed(pair: ReplicaPair) -> None:
    leader = committed(pair)
    leader.produces("e")
    assert leader.happens(RecordsExpired(5)) == ()
    assert leader.state.log_start_offset == 0
    assert leader.happens(RecordsExpired(4)) == ()
    assert (leader.state.log_start_offset, leader.state.epochs.entries[0].start_offset) == (4, 4)
    leader.happens(RecordsExpired(2))
    assert leader.state.log_start_offset == 4


def test_to_ask_again_changes_nothing(pair: ReplicaPair) -> None:
    leader = committed(pair)
    leader.happens(DeleteRecordsArrived(3))
    for before in (0, 2, 3):
        assert leader.happens(DeleteRecordsArrived(before)) == ()
        assert log_start_after(leader.state, before) == 3


def test_only_the_leader_deletes(pair: ReplicaPair) -> None:
    committed(pair)
    assert pair[2].happens(DeleteRecordsArrived(1)) == (Refuse(Refusal.NOT_LEADER),)
    pair.decide(-1, 2, isr=(1,))
    assert pair[1].happens(DeleteRecordsArrived(1)) == (Refuse(Refusal.PARTITION_OFFLINE),)


def test_a_new_leader_that_does_not_know_its_high_watermark_asks_for_patience(pair: ReplicaPair) -> None:
    committed(pair)
    pair[1].produces("e")
    pair.fetch(2)
    pair.fetch(3)
    pair.decide(2, 2, isr=(2, 3))
    leader = pair[2]
    assert (leader.state.high_watermark, leader.state.log_end_offset) == (4, 5)
    for before in (5, -1):
        assert leader.happens(DeleteRecordsArrived(before)) == (Refuse(Refusal.OFFSET_NOT_AVAILABLE),)
    assert leader.happens(DeleteRecordsArrived(4)) == (MoveLogStart(4),)


def test_followers_hear_of_it_with_what_they_fetch(pair: ReplicaPair) -> None:
    leader = committed(pair)
    leader.happens(DeleteRecordsArrived(3))
    pair.fetch(2)
    assert pair[2].state.log_start_offset == 3
    pair.decide(2, 2, isr=(2, 3), to=(2, 3))
    assert earliest_offset(pair[2].state) == 3


def test_a_follower_deletes_nothing_above_its_own_high_watermark(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces(*"abcd")
    pair.fetch(2)
    follower = pair[2]
    assert follower.state.high_watermark == 0
    effects = follower.happens(BatchesReceived(1, 1, (), 2, 3))
    assert effects == (MoveLogStart(2), AdvanceHighWatermark(2))
    assert follower.state.log_start_offset == 2


def test_a_start_does_not_fall_because_a_new_leader_has_not_heard_of_it(pair: ReplicaPair) -> None:
    leader = committed(pair)
    leader.happens(DeleteRecordsArrived(3))
    pair.fetch(2)
    pair.decide(3, 2, isr=(2, 3), to=(2, 3))
    pair.catch_up(2)
    assert (pair[3].state.log_start_offset, pair[2].state.log_start_offset) == (0, 3)


def test_a_follower_is_told_though_nothing_else_has_moved() -> None:
    session: LeaderSession[str] = LeaderSession(1, 2, 7)
    session.receive([("p", FollowerPosition(1, 10))], ())

    def news(log_start_offset: int) -> bool:
        session.touch("p")
        answer = session.examine(
            "p", leader_epoch=1, log_end_offset=10, high_watermark=10, log_start_offset=log_start_offset
        )
        if answer is not None:
            session.told(answer, 10, log_start_offset)
        return answer is not None

    assert [news(0), news(0), news(4), news(4)] == [True, False, True, False]


# -- batches that hold the start -----------------------------------------------------------------------------


@pytest.fixture
def follower() -> Node:
    """An empty replica that follows 1, whose log begins at 103, inside a batch from 100 to 110."""
    node = Node(Replica.opened(ReplicaSettings(broker_id=2)))
    node.happens(LeaderAndIsrDecided.dummy(leader=1, leader_epoch=5))
    node.happens(FetchRefused(1, 5, Refusal.OFFSET_OUT_OF_RANGE, 103))
    assert (node.state.log_start_offset, node.state.fetch_offset) == (103, 103)
    return node


def received(*spans: BatchSpan, high_watermark: int = 110, log_start_offset: int = 103) -> BatchesReceived:
    return BatchesReceived(1, 5, spans, high_watermark, log_start_offset)


def test_a_follower_takes_the_batch_that_holds_the_start_as_a_whole(follower: Node) -> None:
    span = BatchSpan(100, 10, 4)
    assert follower.happens(received(span), (Batch(span, "x"),)) == (
        TruncateAndStartAt(100),
        PersistEpoch(4, 100),
        AppendFetched(100, 110),
        MoveLogStart(103),
        AdvanceHighWatermark(110),
    )
    state = follower.state
    assert (state.log_start_offset, state.log_end_offset, state.high_watermark) == (103, 110, 110)
    assert state.epochs.entries[0].start_offset <= 103
    assert state.fetch_offset == 110


def test_its_start_and_high_watermark_stay_though_the_leader_knows_less(follower: Node) -> None:
    span = BatchSpan(100, 10, 4)
    follower.happens(received(span, high_watermark=101, log_start_offset=0), (Batch(span, "x"),))
    assert (follower.state.log_start_offset, follower.state.high_watermark) == (103, 103)


def test_what_does_not_hold_together_is_fetched_again(follower: Node) -> None:
    spans = (BatchSpan(100, 10, 4), BatchSpan(111, 1, 4))
    assert follower.happens(received(*spans)) == (StartFetching(1, 5, 103),)
    assert follower.state.log_end_offset == 103


def test_a_leader_that_is_empty_inside_a_batch_goes_on_there() -> None:
    """Its power went, and all that was left was below the start."""
    node = Node(Replica.opened(ReplicaSettings(broker_id=1), log_start_offset=103, log_end_offset=103))
    node.happens(LeaderAndIsrDecided.dummy(leader=1, leader_epoch=5, isr=(1,)))
    effects = node.happens(ProduceArrived.dummy(), (Batch(BatchSpan(-1, 1, -1), "x"),))
    assert node.state.log_end_offset == 104
    assert effects


def test_a_log_that_shares_no_epoch_with_the_leaders_begins_anew_where_that_does() -> None:
    """What it holds below may be other records than those that were committed and deleted. Kept, they would
    be shown to consumers by the next leader."""
    node = Node(
        Replica.opened(
            ReplicaSettings(broker_id=2), log_end_offset=4, high_watermark=2, epochs=((3, 0),), is_new=False
        ),
        [Batch(BatchSpan(0, 2, 3), "ab"), Batch(BatchSpan(2, 2, 3), "xx")],
    )
    node.happens(LeaderAndIsrDecided.dummy(leader=1, leader_epoch=5))
    effects = node.is_answered(-1, 3)
    assert effects == (TruncateAndStartAt(3), AdvanceHighWatermark(3), StartFetching(1, 5, 3))
    assert (node.state.log_start_offset, node.state.high_watermark) == (3, 3)


def test_where_an_unclean_election_lets_it_take_committed_records_it_says_so() -> None:
    node = Node(
        Replica.opened(
            ReplicaSettings(broker_id=2), log_end_offset=4, high_watermark=4, epochs=((3, 0),), is_new=False
        ),
        [Batch(BatchSpan(0, 4, 3), "abcd")],
    )
    node.happens(LeaderAndIsrDecided.dummy(leader=1, leader_epoch=5, unclean_epoch=4))
    effects = node.is_answered(-1, 3)
    assert effects[0] == TruncateAndStartAt(3, lost_committed=True)


def all_let_go_of(unclean_epoch: int, log_end_offset: int = 3) -> Node:
    """A log of epoch 1 that begins at 3. Its segment begins at 0, and so does the epoch. 1 was asked."""
    opened = Replica.opened(
        ReplicaSettings(broker_id=2),
        log_start_offset=3,
        log_end_offset=log_end_offset,
        high_watermark=3,
        epochs=((1, 0),),
        is_new=False,
    )
    node = Node(opened, [Batch(BatchSpan(3, log_end_offset - 3, 1), "x")] if log_end_offset > 3 else [])
    node.happens(LeaderAndIsrDecided.dummy(leader=1, leader_epoch=5, unclean_epoch=unclean_epoch))
    assert node.asking == AskEpochEnd(1, 5, 1, log_end_offset)
    return node


@pytest.mark.parametrize("log_end_offset", [3, 5])
def test_what_was_let_go_of_is_the_leaders_too_where_no_election_was_unclean(log_end_offset: int) -> None:
    node = all_let_go_of(0, log_end_offset)
    effects = node.is_answered(0, 4)
    assert effects == (TruncateAndStartAt(3), AdvanceHighWatermark(3), StartFetching(1, 5, 3))
    assert node.state.epochs.entries == (), "else it would ask for ever"


@pytest.mark.parametrize("end_offset", [2, 3, 4])
def test_after_an_unclean_election_a_log_of_other_epochs_begins_where_the_leaders_does(
    end_offset: int,
) -> None:
    """The leader may have other records than were deleted here. Who lacks them is not to lead."""
    node = all_let_go_of(3)
    effects = node.is_answered(0, end_offset)
    began = TruncateAndStartAt(0, lost_committed=True)
    assert effects == (began, AdvanceHighWatermark(0), StartFetching(1, 5, 0))
    effects = node.happens(FetchRefused(1, 5, Refusal.OFFSET_OUT_OF_RANGE, 1))
    assert effects == (TruncateAndStartAt(1), AdvanceHighWatermark(1), StartFetching(1, 5, 1))


def elected_unclean(
    leader: int = 1, leader_epoch: int = 5, isr: tuple[int, ...] = (1,), eligible: tuple[int, ...] = ()
) -> LeaderAndIsrDecided:
    """A decision after an unclean election in epoch 5."""
    return LeaderAndIsrDecided.dummy(
        leader=leader, leader_epoch=leader_epoch, isr=isr, eligible=eligible, unclean_epoch=5
    )


def without_epochs(decided: LeaderAndIsrDecided) -> Node:
    """A log that is empty from 3 on, and knows no epoch of what was there."""
    settings = ReplicaSettings(broker_id=2)
    node = Node(Replica.opened(settings, log_start_offset=3, log_end_offset=3, is_new=False))
    node.happens(decided)
    return node


def test_an_empty_log_asks_an_unclean_leader_where_its_log_begins_and_takes_all_of_it() -> None:
    node = without_epochs(elected_unclean())
    assert node.asking == AskEpochEnd(1, 5, NO_EPOCH, 3)
    effects = node.is_answered(NO_EPOCH, 1)
    assert effects == (TruncateAndStartAt(1, lost_committed=True), StartFetching(1, 5, 1))


def test_it_begins_where_it_did_if_the_leaders_log_begins_no_earlier() -> None:
    for start in (3, 4):
        assert without_epochs(elected_unclean()).is_answered(NO_EPOCH, start) == (StartFetching(1, 5, 3),)


def test_what_was_not_answered_is_asked_again_of_the_next_leader() -> None:
    """The first one never led: it had lost its log since it was chosen."""
    node = without_epochs(elected_unclean())
    node.happens(elected_unclean(leader=3, leader_epoch=6, isr=(3,)))
    assert node.asking == AskEpochEnd(3, 6, NO_EPOCH, 3)


def test_who_has_followed_since_or_is_counted_on_is_not_of_another_past() -> None:
    node = without_epochs(elected_unclean())
    node.is_answered(NO_EPOCH, 3)
    node.happens(elected_unclean(leader=3, leader_epoch=6, isr=(3,)))
    assert node.fetching == StartFetching(3, 6, 3)
    assert without_epochs(elected_unclean(isr=(1, 2))).fetching == StartFetching(1, 5, 3)
    assert without_epochs(elected_unclean(eligible=(2,))).fetching == StartFetching(1, 5, 3)


def test_a_leader_that_wrote_others_in_place_of_what_was_let_go_of_is_not_followed() -> None:
    """It was committed, and no unclean election tells why the leader lacked it."""
    node = all_let_go_of(0)
    assert node.is_answered(0, 2) == (StopFetching(), ReportDivergence(2))
    assert (node.state.role, node.state.log_start_offset) == (Role.DIVERGED, 3)
