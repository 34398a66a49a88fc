"""Where two logs part, found by epochs: the scenarios of KIP-101, KIP-279, KIP-320 and KAFKA-7415."""

from __future__ import annotations

from hightide_broker.core.effects import (
    AdvanceHighWatermark,
    AskEpochEnd,
    StartFetching,
    TruncateAndStartAt,
    TruncateTo,
)
from hightide_broker.core.events import (
    BatchesReceived,
    BatchSpan,
    EpochEndReceived,
    FetchRefused,
    FsyncDone,
    RecordsExpired,
)
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import ReplicaSettings, Role
from sim.known_wrong import without
from unit.broker_core.replica_pair import ReplicaPair


def test_kip101_a_follower_keeps_what_was_committed_though_its_high_watermark_lags(
    pair: ReplicaPair,
) -> None:
    # KIP-101, scenario 1: 2 has the committed record but not yet the high watermark, restarts, then must
    # lead.
    pair.decide(1, 1, isr=(1, 2), to=(1, 2))
    pair[1].produces("a")
    pair.fetch(2)
    pair.fetch(2)
    pair[1].produces("b")
    pair.fetch(2)
    pair.fetch(2)
    assert pair[1].state.high_watermark == 2
    pair[2].restarts()
    pair.decide(1, 1, isr=(1, 2), to=(2,))
    pair.settle_epochs(2)
    assert pair[2].values == "ab", "V3 would have cut it to the high watermark"
    pair.decide(2, 2, isr=(2,), to=(2,))
    assert pair[2].state.high_watermark == 2


def test_kip101_a_record_that_only_the_old_leader_has_is_cut(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2, 3)
    pair[1].produces("lost")
    pair.decide(2, 2, isr=(2, 3))
    pair[2].produces("b")
    assert pair.settle_epochs(1) == 1
    pair.catch_up(1, 3)
    assert pair[1].values == pair[2].values == pair[3].values == "ab"


def test_kip279_fast_leader_changes_do_not_diverge(pair: ReplicaPair) -> None:
    # 1 writes in epochs 1 and 4, 2 in 2 and 5; their logs share offsets and part at epoch 1.
    pair.decide(1, 1, isr=(1, 2), to=(1, 2))
    pair[1].produces("a")
    pair.fetch(2)
    pair.decide(2, 2, isr=(2,), to=(2,))
    pair[2].produces("b")
    pair.decide(1, 4, isr=(1,), to=(1,), unclean_epoch=4)
    pair[1].produces("c", "d")
    pair.decide(2, 5, isr=(2,), unclean_epoch=5)
    assert pair[1].asking == AskEpochEnd(2, 5, 4, 3)
    pair.ask(1)
    assert pair[1].values == "a"
    pair.catch_up(1)
    assert pair[1].values == pair[2].values == "ab"


def test_kip279_a_follower_asks_again_while_the_leader_does_not_know_its_epoch(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1, 2), to=(1, 2))
    pair[1].produces("a")
    pair.fetch(2)
    for epoch, value in ((2, "b"), (4, "c")):
        pair.decide(2, epoch, isr=(2,), to=(2,))
        pair[2].produces(value)
    pair.decide(1, 3, isr=(1,), to=(1,), unclean_epoch=3)
    pair[1].produces("x", "y", "z")
    pair.decide(1, 5, isr=(1,), unclean_epoch=5)
    assert pair.settle_epochs(2) == 2, "epoch 4 ended in 3, which 2 has not; epoch 2 ended in 1, which it has"
    pair.catch_up(2)
    assert pair[2].values == pair[1].values == "axyz"


def test_a_log_that_begins_with_the_partition_is_cut_to_nothing_where_it_shares_nothing(
    pair: ReplicaPair,
) -> None:
    pair.decide(1, 1, isr=(1, 2), to=(1,))
    pair[1].produces("a")
    pair.decide(2, 2, isr=(2,), to=(2,))
    pair[2].produces("b")
    pair.decide(1, 3, isr=(1,), unclean_epoch=3)
    assert pair[2].is_answered(1, 1) == (TruncateTo(0, True), StartFetching(1, 3, 0))


def test_kafka7415_an_epoch_without_records_is_known_too(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2, 3)
    pair.decide(2, 2)
    assert pair[2].epochs == {1: 0, 2: 1}
    pair.decide(3, 3)
    assert pair.settle_epochs(2) == 1
    assert pair[2].values == "a"


def test_kip320_a_leader_that_is_behind_does_not_answer_and_nothing_is_cut(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2, 3)
    pair.decide(2, 2, to=(3,))  # 2 itself has not heard of it.
    pair.ask(3)
    assert pair[3].state.role is Role.TRUNCATING
    assert pair[3].values == "a"


def test_an_answer_under_another_epoch_is_an_echo(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2, 3)
    pair.decide(3, 2, to=(2,))
    assert pair[2].happens(EpochEndReceived(AskEpochEnd(1, 1, 1, 1), 1, 0)) == ()
    assert pair[2].happens(EpochEndReceived(AskEpochEnd(3, 1, 1, 1), 1, 0)) == ()
    assert pair[2].happens(BatchesReceived(1, 1, (BatchSpan(1, 1, 1),), 5, 0)) == ()
    assert pair[2].happens(FetchRefused(1, 1, Refusal.OFFSET_OUT_OF_RANGE, 7)) == ()


def test_an_answer_to_an_earlier_question_cuts_nothing_of_what_was_fetched_since(pair: ReplicaPair) -> None:
    """That the leader knew nothing between two epochs when it was asked for one of these says nothing of a
    later one."""
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2, 3)
    pair.decide(2, 2, to=(2,))
    pair[2].produces("x")
    pair.decide(3, 3)
    earlier = pair[2].asking
    assert earlier == AskEpochEnd(3, 3, 2, 2)
    pair.settle_epochs(2)
    pair[3].produces("b")
    pair.fetch(2)
    assert pair[2].values == "ab"
    pair[2].happens(FetchRefused(3, 3, Refusal.OFFSET_OUT_OF_RANGE, 0))  # It came late, and once was so.
    assert pair[2].asking == AskEpochEnd(3, 3, 3, 2)
    assert pair[2].happens(EpochEndReceived(earlier, 1, 1)) == ()
    pair.settle_epochs(2)
    assert pair[2].values == "ab"


def test_nor_does_one_that_was_asked_for_when_the_log_was_shorter(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.fetch(2)
    pair[2].restarts()
    pair.decide(1, 1, to=(2,))
    earlier = pair[2].asking
    assert earlier == AskEpochEnd(1, 1, 1, 1)
    pair.settle_epochs(2)
    pair[1].produces("b")
    pair.fetch(2)
    pair[2].happens(FetchRefused(1, 1, Refusal.OFFSET_OUT_OF_RANGE, 0))
    assert pair[2].asking == AskEpochEnd(1, 1, 1, 2)
    assert pair[2].happens(EpochEndReceived(earlier, 1, 1)) == ()
    pair.settle_epochs(2)
    assert pair[2].values == "ab"


def test_batches_that_came_twice_are_skipped_and_a_gap_starts_the_fetch_anew(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a", "b")
    pair.fetch(2)
    assert pair[2].happens(BatchesReceived(1, 1, (BatchSpan(0, 1, 1), BatchSpan(1, 1, 1)), 0, 0)) == ()
    assert pair[2].happens(BatchesReceived(1, 1, (BatchSpan(3, 1, 1),), 0, 0)) == (StartFetching(1, 1, 2),)
    assert pair[2].happens(BatchesReceived(1, 1, (BatchSpan(2, 1, 0),), 0, 0)) == (StartFetching(1, 1, 2),)


@without("spent_epochs")
def test_a_follower_beyond_its_leaders_end_finds_where_they_part() -> None:
    # No leader leads on with a shorter log (spent epochs); a follower does not rely on it.
    pair = ReplicaPair(ReplicaSettings(broker_id=0))
    pair.decide(1, 1)
    pair[1].produces("a", "b")
    pair.fetch(2)
    pair[1].restarts(lost_records=1)
    pair.decide(1, 1, to=(1,))
    pair.fetch(2)
    assert pair[2].state.role is Role.TRUNCATING, "never fatal, never from zero (KAFKA-7414)"
    pair.settle_epochs(2)
    assert pair[2].values == "a"


def test_a_follower_below_its_leaders_log_start_begins_there(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair[1].produces("a", "b", "c")
    pair[1].happens(RecordsExpired(2))
    effects = pair[2].happens(FetchRefused(1, 1, Refusal.OFFSET_OUT_OF_RANGE, 2))
    assert effects == (TruncateAndStartAt(2), AdvanceHighWatermark(2), StartFetching(1, 1, 2))
    assert pair[2].state.log_start_offset == pair[2].state.high_watermark == 2


def test_an_unclean_election_lets_committed_records_be_cut_and_that_is_said_aloud(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1, 2), to=(1, 2))
    pair[1].produces("a", "b")
    pair.catch_up(2)
    pair.decide(3, 2, isr=(3,), unclean_epoch=2)  # 3 has nothing.
    effects = pair[2].is_answered(-1, 0)
    assert effects == (TruncateTo(0, lost_committed=True), StartFetching(3, 2, 0))


def test_what_is_cut_is_not_durable_any_more(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1, 2), to=(1, 2))
    pair[1].produces("a", "b")
    pair[1].happens(FsyncDone(2))
    pair.decide(2, 2, isr=(2,))
    pair.settle_epochs(1)
    assert pair[1].state.durable_end_offset == 0
