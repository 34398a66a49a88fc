"""Who is in sync: joining at the right place, leaving on time, and writes whose outcome is late or
unknown."""

from __future__ import annotations

from hightide_broker.core.effects import (
    AbandonWaiters,
    AdvanceHighWatermark,
    AnswerProduces,
    AwaitFetch,
    ReadLeaderAndIsr,
    StoreIsr,
)
from hightide_broker.core.events import (
    FollowerFetched,
    FollowersGone,
    IsrStored,
    IsrStoreRefused,
    IsrStoreUnknown,
    LeaderAndIsrDecided,
    LeaderAndIsrRead,
    Ticked,
)
from hightide_broker.core.isr import next_deadline_ms
from hightide_broker.core.isr_state import CommittedIsr, PendingExpand
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Role
from unit.broker_core.replica_pair import ReplicaPair

LAG_MS = 10_000


def isr_of(pair: ReplicaPair, broker_id: int = 1) -> object:
    leading = pair[broker_id].state.leading
    assert leading is not None
    return leading.isr


def test_a_follower_joins_at_the_high_watermark(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair[1].produces("a", "b")
    assert pair[1].happens(FollowerFetched(2, 1, 1, 0)) == ()
    assert pair[1].happens(FollowerFetched(2, 1, 2, 0)) == (StoreIsr((1, 2), 1, 1, 1, ((2, 0),)),)


def test_kafka7128_a_follower_joins_not_before_the_start_of_the_leaders_epoch(pair: ReplicaPair) -> None:
    # The new leader's high watermark lags: what its predecessor committed may lie above it.
    pair.decide(1, 1)
    pair[1].produces("a", "b")
    pair.fetch(2)
    pair.decide(2, 2, isr=(1, 2), to=(2,))
    assert pair[2].state.leading is not None
    assert pair[2].state.leading.epoch_start_offset == 2
    assert pair[2].state.high_watermark == 0, "broker 1 has not fetched yet"
    assert pair[2].happens(FollowerFetched(3, 2, 1, 0)) == ()
    assert StoreIsr((1, 2, 3), 2, 2, 1, ((3, 0),)) in pair[2].happens(FollowerFetched(3, 2, 2, 0))


def test_a_silent_follower_leaves_after_its_time_and_the_rest_commits(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair.catch_up(2, 3)
    pair[1].produces("a", now_ms=100)
    pair.catch_up(2, now_ms=200)
    assert next_deadline_ms(pair[1].state) == 100 + LAG_MS + 1
    assert pair[1].happens(Ticked(100 + LAG_MS)) == ()
    assert pair[1].happens(Ticked(101 + LAG_MS)) == (StoreIsr((1, 2), 1, 1, 1),)
    assert next_deadline_ms(pair[1].state) is None, "an ISR write is under way"
    assert pair[1].happens(IsrStored(2)) == (AdvanceHighWatermark(1), AnswerProduces(1))


def test_a_follower_whose_broker_is_gone_leaves_at_once_though_it_has_everything(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2, 3)
    gone = pair[1].happens(FollowersGone(frozenset({3})))
    assert gone == (StoreIsr((1, 2), 1, 1, 1), AwaitFetch(3)), "its next fetch counts, if it lives"
    pair[1].happens(IsrStored(2))
    pair[1].produces("b")
    pair.catch_up(2)
    assert pair[1].state.high_watermark == 2, "nobody waits for 3"


def test_a_broker_that_was_taken_for_gone_joins_again_by_its_next_fetch(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].happens(FollowersGone(frozenset({3})))
    assert pair[1].happens(IsrStored(2)) == ()
    assert pair.fetch(3) == (StoreIsr((1, 2, 3), 2, 1, 1, ((3, 0),)),)


def test_a_leader_stays_in_its_isr_whoever_is_gone_and_writes_once_at_a_time(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    assert pair[1].happens(FollowersGone(frozenset({1}))) == ()
    gone = pair[1].happens(FollowersGone(frozenset({1, 2, 3})))
    assert gone == (StoreIsr((1,), 1, 1, 1), AwaitFetch(2), AwaitFetch(3))
    assert pair[1].happens(FollowersGone(frozenset({2}))) == (), "an ISR write is under way"


def test_who_follows_has_no_isr_to_take_the_gone_out_of(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    assert pair[2].happens(FollowersGone(frozenset({3}))) == ()


def test_a_follower_that_has_everything_is_in_sync_however_long_it_is_silent(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2, 3)
    assert next_deadline_ms(pair[1].state) is None
    assert pair[1].happens(Ticked(50 * LAG_MS)) == ()
    pair[1].produces("b", now_ms=50 * LAG_MS)
    assert next_deadline_ms(pair[1].state) == 51 * LAG_MS + 1, "its time begins with the append"


def test_a_follower_under_steady_load_is_in_sync_though_never_at_the_end(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a", "b", now_ms=0)
    for second in range(1, 30):
        # Each fetch reaches what was the end at the fetch before.
        pair[1].happens(FollowerFetched(2, 1, second, second * 1000))
        pair[1].happens(FollowerFetched(3, 1, second, second * 1000))
        pair[1].produces("x", now_ms=second * 1000)
        assert pair[1].happens(Ticked(second * 1000)) == ()


def test_a_new_leader_gives_each_member_its_time_to_fetch(pair: ReplicaPair) -> None:
    pair.decide(1, 1, now_ms=5_000)
    assert next_deadline_ms(pair[1].state) == 15_001
    assert pair[1].happens(Ticked(15_001)) == (StoreIsr((1,), 1, 1, 1),)


def test_one_isr_write_at_a_time_and_who_qualified_meanwhile_joins_after_it(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    assert pair.fetch(2) == (StoreIsr((1, 2), 1, 1, 1, ((2, 0),)),)
    assert pair.fetch(3) == ()
    assert pair[1].happens(IsrStored(2)) == (StoreIsr((1, 2, 3), 2, 1, 1, ((3, 0),)),)
    pair[1].happens(IsrStored(3))
    assert isr_of(pair) == CommittedIsr((1, 2, 3), 3)


def test_a_refused_write_is_looked_into(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair.fetch(2)
    assert pair[1].happens(IsrStoreRefused(1)) == (ReadLeaderAndIsr(),)
    effects = pair[1].happens(LeaderAndIsrRead(3, 2, (3,), 2, 0))
    assert effects == (AbandonWaiters(Refusal.NOT_LEADER),)
    assert pair[1].state.role is Role.SUPERSEDED


def test_a_superseded_leader_waits_for_the_decision(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair.fetch(2)
    pair[1].happens(IsrStoreRefused(1))
    pair[1].happens(LeaderAndIsrRead(3, 2, (3,), 2, 0))
    pair.decide(1, 1, isr=(1,), to=())
    pair.decide(3, 2, isr=(3,), to=(1,))
    assert pair[1].state.role in (Role.TRUNCATING, Role.FETCHING)


def test_a_write_of_unknown_outcome_counts_both_sets_until_the_znode_tells(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair.fetch(2)
    assert pair[1].happens(IsrStoreUnknown(1)) == (ReadLeaderAndIsr(),)
    assert isinstance(isr_of(pair), PendingExpand)
    # Not there (yet): the same write again, so that one of the two has happened for certain.
    assert pair[1].happens(LeaderAndIsrRead(1, 1, (1,), 1, 0)) == (StoreIsr((1, 2), 1, 1, 1, ((2, 0),)),)
    assert pair[1].happens(IsrStoreRefused(1)) == (ReadLeaderAndIsr(),)
    pair[1].happens(LeaderAndIsrRead(1, 1, (1, 2), 2, 0))
    assert isr_of(pair) == CommittedIsr((1, 2), 2)


def test_a_zookeeper_server_that_lags_is_asked_again(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair.fetch(2)
    pair[1].happens(IsrStored(2))
    pair.fetch(3)
    pair[1].happens(IsrStoreUnknown(2))
    assert pair[1].happens(LeaderAndIsrRead(1, 1, (1,), 1, 0)) == (ReadLeaderAndIsr(),)


def test_an_isr_that_the_controller_shrank_is_adopted_and_commits(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2)
    effects = pair[1].happens(LeaderAndIsrDecided.dummy(1, 1, (1, 2), partition_epoch=2))
    assert effects == (AwaitFetch(3), AdvanceHighWatermark(1), AnswerProduces(1))
    assert isr_of(pair) == CommittedIsr((1, 2), 2)


def test_an_answer_to_a_write_that_a_decision_overtook_is_dropped(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1, 2))
    pair.fetch(3)
    pair[1].happens(LeaderAndIsrDecided.dummy(1, 1, (1,), partition_epoch=2))
    assert pair[1].happens(IsrStored(2)) == ()
    assert pair[1].happens(IsrStoreRefused(1)) == ()


def test_an_answer_that_comes_after_a_decision_on_top_of_it_is_not_that_to_the_next_write(
    pair: ReplicaPair,
) -> None:
    pair.decide(1, 1, isr=(1,))
    pair.fetch(2)
    # The write was stored as version 2, then the controller decided; its word was quicker than the answer.
    effects = pair[1].happens(LeaderAndIsrDecided.dummy(1, 1, (1,), partition_epoch=3))
    assert effects == (StoreIsr((1, 2), 3, 1, 1, ((2, 0),)),)
    assert pair[1].happens(IsrStored(2)) == ()
    assert isinstance(isr_of(pair), PendingExpand)
    pair[1].happens(IsrStored(4))
    assert isr_of(pair) == CommittedIsr((1, 2), 4)


def test_a_follower_that_catches_up_while_it_is_being_taken_out_joins_again(pair: ReplicaPair) -> None:
    # It has everything then, so that it has no reason to fetch once more.
    pair.decide(1, 1)
    pair.catch_up(2, 3)
    pair[1].produces("a")
    pair.catch_up(2)
    assert pair[1].happens(Ticked(LAG_MS + 1)) == (StoreIsr((1, 2), 1, 1, 1),)
    pair.catch_up(3)
    assert StoreIsr((1, 2, 3), 2, 1, 1, ((3, 0),)) in pair[1].happens(IsrStored(2))


def test_a_follower_that_the_controller_took_out_must_fetch_anew(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair.catch_up(2, 3)
    pair[1].happens(LeaderAndIsrDecided.dummy(1, 1, (1, 2), partition_epoch=2))
    assert isr_of(pair) == CommittedIsr((1, 2), 2), "it may be dead, whatever it had"
    assert pair[1].happens(FollowerFetched(3, 1, 0, 0)) == (StoreIsr((1, 2, 3), 2, 1, 1, ((3, 0),)),)


def test_a_follower_joins_in_the_life_that_fetched(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    assert pair[1].happens(FollowerFetched(2, 1, 0, 0, 7)) == (StoreIsr((1, 2), 1, 1, 1, ((2, 7),)),)
    pair[1].happens(IsrStoreUnknown(1))
    pair[1].happens(FollowerFetched(2, 1, 0, 0, 8))
    assert pair[1].happens(LeaderAndIsrRead(1, 1, (1,), 1, 0)) == (StoreIsr((1, 2), 1, 1, 1, ((2, 7),)),), (
        "the same write again, whatever the follower has become meanwhile"
    )


def test_a_join_of_an_earlier_life_is_abandoned_once_the_znode_is_read(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair.fetch(2)
    pair[1].produces("a")
    assert pair[1].happens(IsrStoreRefused(1, for_good=True)) == (ReadLeaderAndIsr(),)
    assert pair[1].state.high_watermark == 0, "an earlier try of the write may have happened"
    effects = pair[1].happens(LeaderAndIsrRead(1, 1, (1,), 1, 0))
    assert effects == (AwaitFetch(2), AdvanceHighWatermark(1), AnswerProduces(1))
    assert isr_of(pair) == CommittedIsr((1,), 1)


def test_a_join_of_an_earlier_life_that_has_happened_before_is_adopted(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair.fetch(2)
    pair[1].happens(IsrStoreRefused(1, for_good=True))
    pair[1].happens(LeaderAndIsrRead(1, 1, (1, 2), 2, 0))
    assert isr_of(pair) == CommittedIsr((1, 2), 2)


def test_after_a_join_that_is_void_only_a_new_fetch_lets_the_follower_in(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair.fetch(2)
    pair[1].happens(IsrStoreRefused(1, for_good=True))
    assert pair[1].happens(LeaderAndIsrRead(1, 1, (1,), 2, 0)) == (AwaitFetch(2),)
    assert pair[1].happens(FollowerFetched(2, 1, 0, 0, 1)) == (StoreIsr((1, 2), 2, 1, 1, ((2, 1),)),)
