"""A leader that hears from a follower of a newer leaderAndISR commits nothing before it knows what is there.

With min.insync.replicas 2 a record is committed when two have it that may be elected. A follower that lost
its disk has taken itself out of the ISR, and those who elect know it by what it had then: with it a leader
that has not heard of that would commit what nobody but itself is trusted to have.
"""

from __future__ import annotations

import pytest
from hightide_broker.core.effects import (
    AdvanceHighWatermark,
    AnswerProduces,
    AwaitFetch,
    Effects,
    ReadLeaderAndIsr,
    StoreIsr,
)
from hightide_broker.core.events import (
    FollowerFetched,
    IsrStored,
    IsrStoreRefused,
    LeaderAndIsrDecided,
    LeaderAndIsrRead,
)
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import ReplicaSettings
from hightide_runtime.znodes.recovered_log import RecoveredLog
from unit.broker_core.replica_pair import ReplicaPair

TOO_FEW = AnswerProduces(1, Refusal.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
COMMITTED = (AdvanceHighWatermark(1), AnswerProduces(1))
LOST = (RecoveredLog(2, -1, 0),)


@pytest.fixture
def pair() -> ReplicaPair:
    return ReplicaPair(ReplicaSettings(0, min_insync_replicas=2))


def lead(pair: ReplicaPair, *isr: int) -> None:
    """Broker 1 leads, knows version 1 of leaderAndISR, and has appended one record."""
    pair[1].happens(LeaderAndIsrDecided.dummy(1, 1, isr))
    pair[1].produces("a")


def fetched(
    pair: ReplicaPair, follower: int, partition_epoch: int, offset: int = 1, incarnation: int = 0
) -> Effects:
    return pair[1].happens(FollowerFetched(follower, 1, offset, 0, incarnation, partition_epoch))


def read(
    pair: ReplicaPair, partition_epoch: int, *isr: int, recovered: tuple[RecoveredLog, ...] = ()
) -> Effects:
    return pair[1].happens(LeaderAndIsrRead(1, 1, isr, partition_epoch, 0, recovered=recovered))


def test_a_fetch_of_a_member_that_left_for_its_lost_disk_commits_nothing(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    assert fetched(pair, 2, 2) == (ReadLeaderAndIsr(),)
    assert read(pair, 2, 1, recovered=LOST) == (AwaitFetch(2), TOO_FEW)
    assert pair[1].state.high_watermark == 0
    assert fetched(pair, 2, 2) == (StoreIsr((1, 2), 2, 1, 1, ((2, 0),)),), "it has everything, and joins"
    assert pair[1].happens(IsrStored(3)) == COMMITTED


def test_where_the_isr_is_the_same_the_fetch_counts_once_that_is_read(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    assert fetched(pair, 2, 2) == (ReadLeaderAndIsr(),)
    assert read(pair, 2, 1, 2) == COMMITTED


def test_where_the_controller_tells_first_nothing_waits_for_the_read(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    fetched(pair, 2, 2)
    assert pair[1].happens(LeaderAndIsrDecided.dummy(1, 1, (1, 2), partition_epoch=2)) == COMMITTED
    assert read(pair, 2, 1, 2) == ()


def test_a_fetch_that_tells_of_what_the_leader_knows_counts_at_once(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    assert fetched(pair, 2, 1) == COMMITTED


def test_no_other_member_commits_anything_meanwhile(pair: ReplicaPair) -> None:
    lead(pair, 1, 2, 3)
    assert fetched(pair, 2, 2) == (ReadLeaderAndIsr(),)
    assert fetched(pair, 3, 1) == ()
    assert pair[1].state.high_watermark == 0
    assert read(pair, 2, 1, 3) == (AwaitFetch(2), *COMMITTED)


def test_the_znode_is_read_once_for_each_version_that_is_told_of(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    assert fetched(pair, 2, 2) == (ReadLeaderAndIsr(),)
    assert fetched(pair, 2, 2) == ()
    assert fetched(pair, 2, 3) == (ReadLeaderAndIsr(),)


def test_a_server_that_lags_behind_is_asked_again(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    fetched(pair, 2, 3)
    assert read(pair, 1, 1, 2) == (ReadLeaderAndIsr(),)
    assert read(pair, 2, 1, 2) == (ReadLeaderAndIsr(),)
    assert pair[1].state.high_watermark == 0
    assert read(pair, 3, 1, 2) == COMMITTED


def test_a_late_fetch_of_an_earlier_life_takes_back_nothing(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    fetched(pair, 2, 2, offset=0, incarnation=1)
    assert fetched(pair, 2, 1, incarnation=0) == ()
    assert pair[1].state.high_watermark == 0


def test_also_when_the_later_life_is_in_the_isr_again(pair: ReplicaPair) -> None:
    """A leader that was stopped reads what both lives sent, in any order."""
    lead(pair, 1, 2)
    fetched(pair, 2, 3, offset=0, incarnation=1)
    read(pair, 3, 1, 2)
    assert fetched(pair, 2, 0, offset=1, incarnation=0) == ()
    assert pair[1].state.high_watermark == 0


def test_who_is_in_no_isr_waits_to_join_until_the_newer_one_is_known(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    assert fetched(pair, 3, 2) == (ReadLeaderAndIsr(),)
    assert read(pair, 2, 1, 2) == (StoreIsr((1, 2, 3), 2, 1, 1, ((3, 0),)),)


def test_what_is_told_of_may_be_the_own_write_whose_outcome_is_not_known_yet(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    assert fetched(pair, 3, 1) == (StoreIsr((1, 2, 3), 1, 1, 1, ((3, 0),)),)
    assert fetched(pair, 2, 2) == (), "the answer to the write comes in any case"
    assert pair[1].state.high_watermark == 0
    assert pair[1].happens(IsrStored(2)) == COMMITTED


def test_what_was_written_behind_the_own_write_is_read(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    fetched(pair, 3, 1)
    assert fetched(pair, 2, 3) == ()
    assert pair[1].happens(IsrStored(2)) == (ReadLeaderAndIsr(),)
    assert pair[1].state.high_watermark == 0


def test_what_is_told_of_while_a_join_is_abandoned_is_read(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    fetched(pair, 3, 1)
    fetched(pair, 2, 2)
    assert pair[1].happens(IsrStoreRefused(1, for_good=True)) == (ReadLeaderAndIsr(),)
    assert read(pair, 1, 1, 2) == (ReadLeaderAndIsr(), AwaitFetch(3))
    assert read(pair, 2, 1, 2) == COMMITTED


def test_what_was_told_is_remembered_when_more_is_appended(pair: ReplicaPair) -> None:
    lead(pair, 1, 2)
    fetched(pair, 2, 2)
    pair[1].produces("b")
    assert fetched(pair, 2, 1, offset=2) == ()
    assert pair[1].state.high_watermark == 0
