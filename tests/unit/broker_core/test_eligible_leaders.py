"""An ISR below min.insync.replicas commits nothing, and who left it may be elected (KIP-966)."""

from __future__ import annotations

import pytest
from hightide_broker.core.effects import (
    AdvanceHighWatermark,
    AnswerProduces,
    ReadLeaderAndIsr,
    Refuse,
    StoreIsr,
)
from hightide_broker.core.events import (
    FollowerFetched,
    IsrStored,
    IsrStoreUnknown,
    LeaderAndIsrDecided,
    LeaderAndIsrRead,
    SettingsChanged,
    Ticked,
)
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import ReplicaSettings
from hightide_runtime.znodes.recovered_log import RecoveredLog
from unit.broker_core.replica_pair import ReplicaPair

LAG_MS = 10_000
TOO_FEW = Refusal.NOT_ENOUGH_REPLICAS_AFTER_APPEND
EXPAND = StoreIsr((1, 2), 1, 1, 1, ((2, 0),))
"""Into an ISR of two, with nobody eligible beside it."""


@pytest.fixture
def pair() -> ReplicaPair:
    return ReplicaPair(ReplicaSettings(0, min_insync_replicas=2))


def led_alone(
    pair: ReplicaPair, eligible: tuple[int, ...] = (2, 3), recovered: tuple[RecoveredLog, ...] = ()
) -> None:
    """Broker 1 leads; the others have left the ISR."""
    pair[1].happens(LeaderAndIsrDecided.dummy(1, 1, (1,), eligible=eligible, recovered=recovered))


def test_an_isr_below_the_minimum_commits_nothing(pair: ReplicaPair) -> None:
    led_alone(pair, eligible=())
    pair[1].produces("a", acks_all=False)
    assert pair[1].state.high_watermark == 0
    assert pair[1].produces("b") == (Refuse(Refusal.NOT_ENOUGH_REPLICAS),)


def test_it_commits_when_the_isr_that_is_large_enough_is_stored_for_certain(pair: ReplicaPair) -> None:
    led_alone(pair)
    pair[1].produces("a", acks_all=False)
    assert pair[1].happens(FollowerFetched(2, 1, 1, 0)) == (EXPAND,), "perhaps it will be one of two"
    assert pair[1].happens(IsrStored(2)) == (AdvanceHighWatermark(1), AnswerProduces(1))


def test_a_leader_whose_isr_shrinks_below_the_minimum_writes_who_left(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    assert pair[1].happens(Ticked(LAG_MS + 1)) == (StoreIsr((1,), 1, 1, 1, eligible=(2, 3)),)


def test_who_waits_for_an_isr_that_has_become_too_small_is_told_so_at_once(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair[1].happens(Ticked(LAG_MS + 1))
    assert pair[1].happens(IsrStored(2)) == (AnswerProduces(1, TOO_FEW),)
    assert pair[1].state.high_watermark == 0


def test_while_a_shrink_is_under_way_those_that_leave_still_let_it_commit(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1, 2))
    pair[1].produces("a")
    pair[1].happens(Ticked(LAG_MS + 1))
    effects = pair[1].happens(FollowerFetched(2, 1, 1, LAG_MS + 1))
    assert AdvanceHighWatermark(1) in effects


def test_whoever_wrote_it_a_leader_does_not_commit_past_who_is_eligible(pair: ReplicaPair) -> None:
    """The controller may take the topic for one that needs two copies, while the leader needs one."""
    pair = ReplicaPair()
    pair[1].happens(LeaderAndIsrDecided.dummy(1, 1, (1,), eligible=(2,)))
    pair[1].produces("a")
    assert pair[1].state.high_watermark == 0
    assert pair[1].happens(IsrStored(2)) == (AdvanceHighWatermark(1), AnswerProduces(1))


def test_a_leader_that_may_commit_first_has_the_eligible_forgotten(pair: ReplicaPair) -> None:
    pair = ReplicaPair()
    effects = pair[1].happens(LeaderAndIsrDecided.dummy(1, 1, (1,), eligible=(2,)))
    assert StoreIsr((1,), 1, 1, 1) in effects
    assert pair[1].happens(IsrStoreUnknown(1)) == (ReadLeaderAndIsr(),)
    assert pair[1].happens(LeaderAndIsrRead(1, 1, (1,), 1, 0, (2,))) == (StoreIsr((1,), 1, 1, 1),)


def test_so_does_one_whose_topic_comes_to_need_fewer_copies(pair: ReplicaPair) -> None:
    led_alone(pair)
    pair[1].produces("a", acks_all=False)
    assert pair[1].happens(SettingsChanged(1, False)) == (StoreIsr((1,), 1, 1, 1),)
    assert AdvanceHighWatermark(1) in pair[1].happens(IsrStored(2))


def test_a_join_that_leaves_the_isr_too_small_keeps_the_others_eligible() -> None:
    pair = ReplicaPair(ReplicaSettings(0, min_insync_replicas=3))
    led_alone(pair)
    effects = pair[1].happens(FollowerFetched(2, 1, 0, 0))
    assert effects == (StoreIsr((1, 2), 1, 1, 1, ((2, 0),), (3,)),)


def test_more_copies_than_there_are_replicas_means_all_of_them() -> None:
    pair = ReplicaPair(ReplicaSettings(0, min_insync_replicas=5))
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2, 3)
    assert pair[1].state.high_watermark == 1


def test_what_is_remembered_of_lost_ends_stays_until_the_isr_is_large_enough(pair: ReplicaPair) -> None:
    two, three = RecoveredLog(2, 0, 5), RecoveredLog(3, -1, 0)
    pair = ReplicaPair(ReplicaSettings(0, min_insync_replicas=3))
    led_alone(pair, (), (two, three))
    effects = pair[1].happens(FollowerFetched(2, 1, 0, 0))
    assert effects == (StoreIsr((1, 2), 1, 1, 1, ((2, 0),), (), (three,)),), "2 has caught up"
    pair[1].happens(FollowerFetched(3, 1, 0, 0))
    assert StoreIsr((1, 2, 3), 2, 1, 1, ((3, 0),)) in pair[1].happens(IsrStored(2))


def test_a_write_names_the_last_unclean_epoch_as_the_decision_did(pair: ReplicaPair) -> None:
    pair[1].happens(LeaderAndIsrDecided.dummy(1, 1, (1,), unclean_epoch=1))
    (store,) = pair[1].happens(FollowerFetched(2, 1, 0, 0))
    assert isinstance(store, StoreIsr)
    assert store.unclean_epoch == 1
