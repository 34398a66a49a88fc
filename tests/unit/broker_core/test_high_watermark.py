"""What commits a record: the high watermark, acks=all, min.insync.replicas, flush=fsync, and what readers
see."""

from __future__ import annotations

import pytest
from hightide_broker.core.effects import AdvanceHighWatermark, AnswerProduces, Append, Refuse, StoreIsr
from hightide_broker.core.events import (
    DirectoryFailed,
    FollowerFetched,
    FsyncDone,
    IsrStored,
    ProduceArrived,
    SettingsChanged,
)
from hightide_broker.core.reads import (
    NothingCommittedYet,
    ReadUpTo,
    consumer_fetch,
    earliest_offset,
    latest_offset,
    replica_read,
)
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import ReplicaSettings
from msgspec.structs import replace
from unit.broker_core.replica_pair import ReplicaPair


def test_a_record_is_committed_when_every_in_sync_replica_has_it(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    assert pair[1].produces("a") == (Append(0, 1, 1),)
    assert pair.fetch(2) == ()
    assert pair.fetch(3) == ()  # These fetches carried the record; the next ones acknowledge it.
    assert pair.fetch(2) == ()
    assert pair.fetch(3) == (AdvanceHighWatermark(1), AnswerProduces(1))


def test_a_follower_takes_the_smaller_of_its_leaders_high_watermark_and_its_own_end(
    pair: ReplicaPair,
) -> None:
    pair.decide(1, 1, isr=(1,))
    pair[1].produces("a", "b", "c")
    pair.fetch(2, max_batches=2)
    assert pair[1].state.high_watermark == 3
    assert pair[2].state.high_watermark == 2


def test_the_high_watermark_never_falls(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a", "b")
    pair.catch_up(2, 3)
    pair[1].happens(FollowerFetched(3, 1, 0, 0))  # Came back with less.
    assert pair[1].state.high_watermark == 2


def test_a_follower_counts_for_min_insync_replicas_when_its_joining_is_stored(pair: ReplicaPair) -> None:
    pair = ReplicaPair(ReplicaSettings(0, min_insync_replicas=2))
    pair.decide(1, 1, isr=(1,))
    assert StoreIsr((1, 2), 1, 1, 1, ((2, 0),)) in pair.fetch(2)
    assert pair[1].produces("a") == (Refuse(Refusal.NOT_ENOUGH_REPLICAS),)
    pair[1].happens(IsrStored(2))
    assert pair[1].produces("a") == (Append(0, 1, 1),)


def test_nothing_is_committed_with_a_follower_whose_joining_is_not_stored(pair: ReplicaPair) -> None:
    # The write may never happen: then the ISR was too small all the time, and nobody else may be elected.
    pair = ReplicaPair(ReplicaSettings(0, min_insync_replicas=2))
    pair.decide(1, 1, isr=(1,))
    assert StoreIsr((1, 2), 1, 1, 1, ((2, 0),)) in pair.fetch(2)
    pair[1].produces("a", acks_all=False)
    pair.catch_up(2)
    assert pair[1].state.high_watermark == 0
    pair[1].happens(IsrStored(2))
    assert pair[1].state.high_watermark == 1


def test_acks_all_is_refused_before_the_append_when_too_few_are_in_sync(pair: ReplicaPair) -> None:
    pair = ReplicaPair(ReplicaSettings(0, min_insync_replicas=2))
    pair.decide(1, 1, isr=(1,))
    assert pair[1].produces("a") == (Refuse(Refusal.NOT_ENOUGH_REPLICAS),)
    assert pair[1].values == ""
    assert Append(0, 1, 1) in pair[1].produces("a", acks_all=False)


def test_acks_all_is_refused_after_the_append_when_the_isr_shrank_meanwhile() -> None:
    pair = ReplicaPair(ReplicaSettings(0, min_insync_replicas=2))
    pair.decide(1, 1, isr=(1, 2))
    pair[1].produces("a")
    pair.decide(1, 1, isr=(1, 2))
    effects = pair[1].happens(SettingsChanged(3, False))
    assert effects == (AnswerProduces(1, Refusal.NOT_ENOUGH_REPLICAS_AFTER_APPEND),)
    assert (*pair.fetch(2), *pair.fetch(2)) == (), "nothing is committed by an ISR that is too small"


def test_with_fsync_the_leaders_own_word_counts_only_for_what_it_has_on_disk() -> None:
    pair = ReplicaPair(ReplicaSettings(0, flush_on_disk=True))
    pair.decide(1, 1, isr=(1, 2), to=(1, 2))
    pair[1].produces("a", "b")
    pair.fetch(2)
    pair[2].happens(FsyncDone(2))
    assert pair.fetch(2) == ()
    assert pair[1].happens(FsyncDone(1)) == (AdvanceHighWatermark(1), AnswerProduces(1))
    assert pair[1].happens(FsyncDone(2)) == (AdvanceHighWatermark(2), AnswerProduces(2))


def test_with_fsync_a_follower_names_its_position_only_when_it_is_on_disk() -> None:
    pair = ReplicaPair(ReplicaSettings(0, flush_on_disk=True))
    pair.decide(1, 1, to=(1, 2))
    pair[1].produces("a")
    pair.fetch(2)
    assert pair[2].state.fetch_offset is None
    pair[2].happens(FsyncDone(1))
    assert pair[2].state.fetch_offset == 1


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (-1, Refusal.OFFSET_OUT_OF_RANGE),
        (0, ReadUpTo(1)),
        (1, NothingCommittedYet(1)),
        (2, NothingCommittedYet(1)),
        (3, NothingCommittedYet(1)),
        (4, Refusal.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_consumer_reads_below_the_high_watermark_only(
    pair: ReplicaPair, offset: int, expected: object
) -> None:
    pair.decide(1, 1, isr=(1, 2))
    pair[1].produces("a")
    pair.catch_up(2)
    pair[1].produces("b", "c")
    assert consumer_fetch(pair[1].state, offset) == expected


def test_a_replica_is_read_as_far_as_it_knows_to_be_committed(pair: ReplicaPair) -> None:
    assert replica_read(pair[2].state, 0) is Refusal.NOT_ASSIGNED
    pair.decide(1, 1, isr=(1, 2))
    pair[1].produces("a", "b")
    pair.catch_up(2)
    leader, follower = pair[1].state, pair[2].state
    known = follower.high_watermark
    for offset in range(3):
        assert replica_read(leader, offset) == consumer_fetch(leader, offset)
        expected = ReadUpTo(known) if offset < known else NothingCommittedYet(known)
        assert replica_read(follower, offset) == expected
    assert replica_read(follower, -1) is Refusal.OFFSET_OUT_OF_RANGE
    assert replica_read(follower, 3) is Refusal.OFFSET_OUT_OF_RANGE
    pair[2].happens(DirectoryFailed())
    assert replica_read(pair[2].state, 0) is Refusal.STORAGE_FAILED


def test_readers_are_fenced_like_everyone_else(pair: ReplicaPair) -> None:
    pair.decide(1, 2)
    for read in (latest_offset, earliest_offset):
        assert read(pair[1].state, 1) is Refusal.FENCED_LEADER_EPOCH
        assert read(pair[1].state, 3) is Refusal.UNKNOWN_LEADER_EPOCH
        assert read(pair[2].state) is Refusal.NOT_LEADER
    assert consumer_fetch(pair[2].state, 0) is Refusal.NOT_LEADER


def test_kip207_the_latest_offset_is_not_available_until_the_high_watermark_reaches_the_epoch(
    pair: ReplicaPair,
) -> None:
    # The old leader had shown 2; the new one has heard of 1 only.
    pair.decide(1, 1)
    pair[1].produces("a", "b")
    pair.fetch(2)
    pair.fetch(3)
    pair.decide(2, 2, isr=(2, 3), to=(2, 3))
    assert latest_offset(pair[2].state) is Refusal.OFFSET_NOT_AVAILABLE
    pair.catch_up(3)
    assert latest_offset(pair[2].state) == 2


def test_while_an_isr_write_is_under_way_both_sets_count(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1, 2))
    effects = pair.fetch(3)
    assert effects == (StoreIsr((1, 2, 3), 1, 1, 1, ((3, 0),)),)
    pair[1].produces("a")
    pair.catch_up(2)
    assert pair[1].state.high_watermark == 0, "3 may be in the stored ISR already"
    pair.catch_up(3)
    assert pair[1].state.high_watermark == 1
    assert pair[1].happens(IsrStored(2)) == ()


def test_an_error_of_the_log_means_that_the_step_has_not_happened(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    before = pair[1].state
    snapshot = replace(before)
    pair[1].produces("a")
    assert before == snapshot, "a step leaves the state that it began with as it was"
    pair[1].state, pair[1].log = before, []
    assert ProduceArrived.dummy().record_count == 1
    assert pair[1].produces("b")[0] == Append(0, 1, 1)
