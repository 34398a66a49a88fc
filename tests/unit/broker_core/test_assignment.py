"""A new assignment (AR) in the same leader epoch: who may fetch from then on, and who is in sync (V3 F)."""

from __future__ import annotations

from hightide_broker.core.effects import (
    AbandonWaiters,
    AdvanceHighWatermark,
    AnswerProduces,
    Refuse,
    StoreIsr,
)
from hightide_broker.core.events import (
    FollowerFetched,
    IsrStored,
    IsrStoreRefused,
    LeaderAndIsrDecided,
    LeaderAndIsrRead,
)
from hightide_broker.core.isr_state import CommittedIsr
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Leading, Role
from unit.broker_core.replica_pair import ReplicaPair


def assigned(
    *replicas: int, isr: tuple[int, ...], partition_epoch: int, now_ms: int = 0
) -> LeaderAndIsrDecided:
    return LeaderAndIsrDecided.dummy(
        1, 1, isr, replicas=replicas, partition_epoch=partition_epoch, now_ms=now_ms
    )


def leading_of(pair: ReplicaPair) -> Leading:
    leading = pair[1].state.leading
    assert leading is not None
    return leading


def test_a_replica_that_a_move_adds_may_fetch_and_join_without_a_new_leader_epoch(pair: ReplicaPair) -> None:
    pair[1].happens(assigned(1, 2, isr=(1, 2), partition_epoch=1))
    pair[1].produces("a")
    assert pair[1].happens(FollowerFetched(3, 1, 0, 0)) == (Refuse(Refusal.NOT_ASSIGNED),)
    assert pair[1].happens(assigned(1, 2, 3, isr=(1, 2), partition_epoch=2)) == ()
    assert pair[1].happens(FollowerFetched(2, 1, 1, 0)) == (AdvanceHighWatermark(1), AnswerProduces(1))
    assert pair[1].happens(FollowerFetched(3, 1, 0, 0)) == ()
    assert StoreIsr((1, 2, 3), 2, 1, 1, ((3, 0),)) in pair[1].happens(FollowerFetched(3, 1, 1, 0))


def test_what_is_known_of_the_others_stays_known(pair: ReplicaPair) -> None:
    pair[1].happens(assigned(1, 2, isr=(1, 2), partition_epoch=1))
    pair[1].produces("a")
    pair[1].happens(FollowerFetched(2, 1, 1, 5))
    before = leading_of(pair).progress_of(2)
    pair[1].happens(assigned(1, 2, 3, isr=(1, 2), partition_epoch=2, now_ms=9))
    assert leading_of(pair).progress_of(2) == before


def test_a_replica_that_a_move_takes_away_is_refused_and_waited_for_no_more(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair[1].happens(FollowerFetched(3, 1, 1, 0))
    effects = pair[1].happens(assigned(1, 3, isr=(1, 3), partition_epoch=2))
    assert effects[-2:] == (AdvanceHighWatermark(1), AnswerProduces(1))
    assert pair[1].happens(FollowerFetched(2, 1, 1, 0)) == (Refuse(Refusal.NOT_ASSIGNED),)


def test_one_that_waits_to_join_and_is_taken_away_does_not_join(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair[1].happens(FollowerFetched(2, 1, 0, 0))
    pair[1].happens(FollowerFetched(3, 1, 0, 0))
    assert leading_of(pair).waiting == (3,), "a write about 2 is under way"
    assert pair[1].happens(assigned(1, 2, isr=(1,), partition_epoch=2)) == (
        StoreIsr((1, 2), 2, 1, 1, ((2, 0),)),
    )
    assert pair[1].happens(IsrStored(3)) == ()
    assert leading_of(pair).isr == CommittedIsr((1, 2), 3)


def test_a_leader_that_finds_a_newer_epoch_lets_nobody_in_who_may_not_be_assigned_any_more(
    pair: ReplicaPair,
) -> None:
    # When a replica leaves AR, a new leader epoch begins, though the leader stays.
    pair.decide(1, 1, isr=(1, 2))
    pair[1].happens(FollowerFetched(3, 1, 0, 0))
    pair[1].happens(IsrStoreRefused(1))
    assert pair[1].happens(LeaderAndIsrRead(1, 2, (1, 2), 2, 0)) == (AbandonWaiters(Refusal.NOT_LEADER),)
    assert pair[1].state.role is Role.SUPERSEDED


def test_a_follower_takes_a_new_assignment_without_beginning_anew(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    before = pair[2].state
    assert pair[2].happens(assigned(1, 2, isr=(1, 2), partition_epoch=2)) == ()
    assert pair[2].state.role is before.role is Role.FETCHING
    assert pair[2].state.decision.replicas == (1, 2)
