"""Idempotent producers: what is fresh, what is repeated, what comes too early."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide.batch.header import BatchHeader
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.storage import (
    CorruptFile,
    DuplicateBatch,
    LogSettings,
    NewBatch,
    ProducerState,
    ProducerStates,
    RejectedBatch,
    Verdict,
)
from hightide_broker.storage.files.sealed_file import seal
from hightide_broker.storage.settings import RETRY_MS
from log_rig import LogRig, apply_retention
from stored_batches import headers_of, make_batch

CONFLICT = ErrorCode.ERROR_CODE_SEQUENCE_CONFLICT
DUPLICATE = ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE
OUT_OF_ORDER = ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE
LAST_SEQUENCE = 2**31 - 1


def batch(
    sequence: int,
    count: int = 10,
    producer_id: int = 5,
    epoch: int = 0,
    offset: int = 0,
    value: bytes = b"",
) -> BatchHeader:
    (header,) = headers_of(make_batch(count, value, producer=(producer_id, epoch, sequence)))
    return header.stamped(offset, 1)


def code_of(verdict: Verdict) -> int:
    assert isinstance(verdict, RejectedBatch)
    assert verdict.message
    return verdict.code


@pytest.fixture
def states() -> ProducerStates:
    """Producer 5 has appended sequences 0 to 29, at offsets 100 to 129."""
    states = ProducerStates()
    for at in range(3):
        states.update(batch(10 * at, offset=100 + 10 * at))
    return states


def test_batches_without_a_producer_are_always_fresh(states: ProducerStates) -> None:
    (header,) = headers_of(make_batch(1))
    assert states.check(header) == NewBatch()


def test_the_next_sequence_is_fresh(states: ProducerStates) -> None:
    assert states.check(batch(30)) == NewBatch()


def test_a_repeated_batch_is_a_duplicate_of_where_it_is(states: ProducerStates) -> None:
    assert states.check(batch(20)) == DuplicateBatch(120, 130)
    assert states.check(batch(0)) == DuplicateBatch(100, 110)


def test_a_gap_is_out_of_order(states: ProducerStates) -> None:
    assert code_of(states.check(batch(31))) == OUT_OF_ORDER
    assert code_of(states.check(batch(1_000_000))) == OUT_OF_ORDER


@pytest.mark.parametrize(
    "other",
    [batch(20, value=b"other"), batch(25), batch(20, count=9), batch(20, count=11), batch(0, count=30)],
)
def test_other_records_under_remembered_sequences_are_a_conflict(
    states: ProducerStates, other: BatchHeader
) -> None:
    assert code_of(states.check(other)) == CONFLICT


def test_a_duplicate_longer_ago_than_is_remembered_is_refused(states: ProducerStates) -> None:
    for at in range(3, 9):
        states.update(batch(10 * at, offset=100 + 10 * at))
    assert states.check(batch(40)) == DuplicateBatch(140, 150)
    assert code_of(states.check(batch(30))) == DUPLICATE
    assert code_of(states.check(batch(30, count=11))) == CONFLICT
    assert code_of(states.check_all([batch(20), batch(30)])) == DUPLICATE
    assert code_of(states.check_all([batch(30), batch(40)])) == DUPLICATE
    assert code_of(states.check_all([batch(30), batch(90)])) == CONFLICT


def test_an_unknown_producer_must_start_at_zero(states: ProducerStates) -> None:
    assert states.check(batch(0, producer_id=6)) == NewBatch()
    assert code_of(states.check(batch(1, producer_id=6))) == ErrorCode.ERROR_CODE_UNKNOWN_PRODUCER_ID


def test_an_older_epoch_is_fenced_and_a_newer_starts_at_zero(states: ProducerStates) -> None:
    assert code_of(states.check(batch(30, epoch=1))) == OUT_OF_ORDER
    assert code_of(states.check(batch(LAST_SEQUENCE, epoch=1))) == OUT_OF_ORDER
    assert states.check_all([batch(30), batch(0, epoch=1), batch(10, epoch=1)]) == NewBatch()
    fenced = states.check_all([batch(0, epoch=1), batch(30)])
    assert code_of(fenced) == ErrorCode.ERROR_CODE_FENCED_PRODUCER_EPOCH
    assert states.check(batch(0, epoch=1)) == NewBatch()
    states.update(batch(0, epoch=1, offset=130))
    assert code_of(states.check(batch(30, epoch=0))) == ErrorCode.ERROR_CODE_FENCED_PRODUCER_EPOCH
    assert states.check(batch(10, epoch=1)) == NewBatch()


def test_sequences_wrap(states: ProducerStates) -> None:
    states.update(batch(LAST_SEQUENCE - 4, offset=500))
    assert states.check(batch(5)) == NewBatch()
    assert code_of(states.check(batch(6))) == OUT_OF_ORDER
    assert states.check(batch(LAST_SEQUENCE - 4)) == DuplicateBatch(500, 510)
    assert code_of(states.check(batch(LAST_SEQUENCE))) == CONFLICT


def test_the_batches_of_one_request_follow_on_each_other(states: ProducerStates) -> None:
    assert states.check_all([batch(30), batch(40), batch(0, producer_id=6)]) == NewBatch()
    assert code_of(states.check_all([batch(30), batch(50)])) == OUT_OF_ORDER
    assert code_of(states.check_all([batch(30), batch(30)])) == CONFLICT
    assert states.check_all([batch(10), batch(20)]) == DuplicateBatch(110, 130)


@pytest.mark.parametrize(
    "request_",
    [
        [batch(20), batch(30)],
        [batch(30), batch(20)],
        [batch(20), headers_of(make_batch(1))[0]],
        [batch(20), batch(10)],
        [batch(0), batch(20)],
    ],
)
def test_a_request_that_is_not_repeated_as_it_was_is_a_conflict(
    states: ProducerStates, request_: list[BatchHeader]
) -> None:
    assert code_of(states.check_all(request_)) == CONFLICT


def test_the_epoch_of_a_producer_is_described_from_its_first_record_on(states: ProducerStates) -> None:
    assert states.describe(()) == [ProducerState(5, 0, 0, 100, 30, 130)]
    for at in range(3, 9):
        states.update(batch(10 * at, offset=100 + 10 * at))
    assert states.describe([5, 5, 7]) == [ProducerState(5, 0, 0, 100, 90, 190)]
    states.update(batch(0, epoch=2, offset=300))
    states.update(batch(0, producer_id=4, offset=310))
    assert states.describe([]) == [ProducerState(4, 0, 0, 310, 10, 320), ProducerState(5, 2, 0, 300, 10, 310)]


def test_a_producer_that_the_leader_had_forgotten_begins_anew(states: ProducerStates) -> None:
    states.update(batch(0, offset=200, value=b"other"))
    assert states.describe(()) == [ProducerState(5, 0, 0, 200, 10, 210)]
    assert states.check(batch(10)) == NewBatch()
    assert code_of(states.check(batch(20))) == OUT_OF_ORDER


def full_of(producers: int) -> ProducerStates:
    """A log that remembers as many as it may; each wrote at the time of its number."""
    states = ProducerStates(producers_max=producers)
    for producer_id in range(producers):
        states.update(batch(0, producer_id=producer_id))
        states.expire(now_ms=producer_id, expiry_ms=2 * RETRY_MS)
    return states


def test_no_number_of_other_producers_makes_a_repeated_append_a_fresh_one() -> None:
    states = ProducerStates()
    states.update(batch(0, offset=100))
    for other in range(10, 6_010):
        assert states.check(batch(0, producer_id=other)) == NewBatch()
        states.update(batch(0, producer_id=other))
    assert states.check(batch(0)) == DuplicateBatch(100, 110)


def test_a_new_producer_is_refused_before_one_is_forgotten_that_may_try_again() -> None:
    states = full_of(10)
    states.expire(now_ms=RETRY_MS - 1, expiry_ms=2 * RETRY_MS)
    refused = states.check(batch(0, producer_id=77))
    assert code_of(refused) == ErrorCode.ERROR_CODE_TOO_MANY_PRODUCERS
    assert isinstance(refused, RejectedBatch)
    assert "producer 77 is new here" in refused.message
    assert "10 producers, of 10 at most" in refused.message
    assert "try again" in refused.message
    assert all(isinstance(states.check(batch(0, producer_id=each)), DuplicateBatch) for each in range(10))
    assert states.check(batch(10, producer_id=0)) == NewBatch()


def test_who_has_been_silent_for_longer_than_anybody_tries_again_makes_place() -> None:
    states = full_of(10)
    states.expire(now_ms=RETRY_MS + 1, expiry_ms=2 * RETRY_MS)
    assert states.check_all([batch(0, producer_id=each) for each in (77, 78)]) == NewBatch()
    three = states.check_all([batch(0, producer_id=each) for each in (77, 78, 79)])
    assert code_of(three) == ErrorCode.ERROR_CODE_TOO_MANY_PRODUCERS
    beside_one_that_leaves = states.check_all([batch(10, producer_id=0), batch(0, producer_id=77)])
    assert beside_one_that_leaves == NewBatch()
    states.update(batch(0, producer_id=77))
    states.update(batch(0, producer_id=78))
    assert code_of(states.check(batch(0, producer_id=79))) == ErrorCode.ERROR_CODE_TOO_MANY_PRODUCERS
    assert [each.producer_id for each in states.describe(())] == [*range(2, 10), 77, 78]


def test_a_log_that_was_just_opened_forgets_nobody_for_number() -> None:
    states = full_of(10)
    opened = ProducerStates(producers_max=10)
    opened.restore(states.encode(0))
    assert opened.describe(()) == states.describe(())
    opened.expire(now_ms=10 * RETRY_MS, expiry_ms=2 * RETRY_MS)
    assert code_of(opened.check(batch(0, producer_id=77))) == ErrorCode.ERROR_CODE_TOO_MANY_PRODUCERS


def test_followers_and_recovery_forget_whom_the_leader_forgot() -> None:
    leader, follower = full_of(10), full_of(10)
    leader.expire(now_ms=2 * RETRY_MS, expiry_ms=4 * RETRY_MS)
    for new in (77, 3, 78):
        assert leader.check(batch(0, producer_id=new)) != DuplicateBatch(0, 0)
        for states in (leader, follower):
            states.update(batch(0, producer_id=new))
    assert follower.describe(()) == leader.describe(())
    assert len(follower) == 10


@pytest.mark.parametrize("count", [0, 6, -1])
def test_a_snapshot_with_another_number_of_batches_is_damaged(count: int) -> None:
    states = ProducerStates()
    contents = struct.pack("<qiiqi", 5, 0, 1, 20, count) + 6 * struct.pack("<iiqI", 0, 1, 20, 7)
    with pytest.raises(CorruptFile):
        states.restore(seal(b"HTPS", 2, contents))
    assert len(states) == 0


def test_producers_not_heard_of_are_forgotten(states: ProducerStates) -> None:
    states.expire(now_ms=1_000, expiry_ms=100)
    states.update(batch(0, producer_id=6))
    states.expire(now_ms=1_100, expiry_ms=100)
    assert len(states) == 2
    states.expire(now_ms=1_101, expiry_ms=100)
    assert len(states) == 1
    assert states.check(batch(10, producer_id=6)) == NewBatch()


# --- in a log ----------------------------------------------------------------------------------------------


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[LogRig]:
    """A log in which producer 5 appended five batches of ten records, two to a segment."""
    size = len(make_batch(10, b"", producer=(5, 0, 0)))
    rig = LogRig(tmp_path, LogSettings(segment_bytes=2 * size))
    for at in range(5):
        rig.append(10, b"", producer=(5, 0, 10 * at))
    yield rig
    rig.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "snapshots", ["kept", "missing", "damaged", "of the first version", "of the second version"]
)
def test_producers_outlive_a_restart(rig: LogRig, clean: bool, snapshots: str) -> None:
    rig.close(clean)
    paths = list(rig.log_directory.glob("*.producers"))
    assert paths
    for path in paths:
        if snapshots == "missing":
            path.unlink()
        elif snapshots == "damaged":
            path.write_bytes(path.read_bytes()[:-1])
        elif snapshots == "of the first version":
            path.write_bytes(seal(b"HTPS", 1, struct.pack("<qiiiiq", 5, 0, 1, 20, 10, 20)))
        elif snapshots == "of the second version":
            path.write_bytes(seal(b"HTPS", 2, struct.pack("<qiiqiiiqI", 5, 0, 0, 0, 1, 20, 10, 20, 1)))
    rig.open()
    assert rig.log.describe_producers(()) == [ProducerState(5, 0, 0, 0, 50, 50)]
    assert rig.log.producers.check(batch(40)) == DuplicateBatch(40, 50)
    assert rig.log.producers.check(batch(0)) == DuplicateBatch(0, 10)
    assert rig.log.producers.check(batch(50)) == NewBatch()


@pytest.mark.parametrize("offset", [10, 20, 30, 40])
def test_producers_are_as_of_the_cut_after_a_truncation(rig: LogRig, offset: int) -> None:
    rig.log.truncate_to(offset)
    assert rig.log.producers.check(batch(offset)) == NewBatch()
    assert rig.log.producers.check(batch(offset - 10)) == DuplicateBatch(offset - 10, offset)
    assert rig.log.describe_producers([5]) == [ProducerState(5, 0, 0, 0, offset, offset)]
    rig.crash()
    assert rig.log.producers.check(batch(offset)) == NewBatch()


def test_a_snapshot_of_what_was_cut_off_is_not_believed(rig: LogRig) -> None:
    rig.log.roll()
    (newest,) = rig.log_directory.glob("*50.producers")
    of_the_end = newest.read_bytes()
    rig.log.truncate_to(30)
    rig.close(clean=False)
    # A power cut brings back a file whose removal was not synced.
    newest.write_bytes(of_the_end)
    rig.open()
    assert isinstance(rig.log.producers.check(batch(40)), RejectedBatch)
    assert rig.log.producers.check(batch(30)) == NewBatch()


@pytest.mark.parametrize("went_by", ["a truncation", "damage"])
def test_a_snapshot_of_other_records_at_the_offsets_of_these_is_not_believed(
    rig: LogRig, went_by: str
) -> None:
    """It is of a clean stop. What ended there was never committed, and others wrote there since."""
    rig.close()
    (newest,) = rig.log_directory.glob("*50.producers")
    of_the_end = newest.read_bytes()
    if went_by == "damage":
        rig.segments()[-1].write_bytes(b"")
    rig.open()
    rig.log.truncate_to(40)
    rig.append(10, b"", epoch=2, producer=(6, 0, 0))
    rig.append(10, b"", epoch=2, producer=(6, 0, 10))
    rig.close(clean=False)
    # A power cut brings back a file whose removal was not synced.
    newest.write_bytes(of_the_end)
    rig.open()
    assert rig.log.producers.check(batch(40)) == NewBatch()
    assert rig.log.describe_producers(()) == [
        ProducerState(5, 0, 0, 0, 40, 40),
        ProducerState(6, 0, 0, 40, 20, 60),
    ]


def test_producers_in_front_of_the_log_are_remembered_where_another_epoch_begins_the_log(
    rig: LogRig,
) -> None:
    rig.log.roll()
    rig.append(10, b"", epoch=2, producer=(6, 0, 0))
    rig.log.update_settings(LogSettings(retention_bytes=0))
    assert apply_retention(rig.log, 0, 60) == 50
    rig.crash()
    assert rig.log.describe_producers(()) == [
        ProducerState(5, 0, 0, 0, 50, 50),
        ProducerState(6, 0, 0, 50, 10, 60),
    ]


def test_the_first_record_is_remembered_after_retention_deleted_it(rig: LogRig) -> None:
    rig.log.update_settings(LogSettings(retention_bytes=0))
    assert apply_retention(rig.log, 0, 50) == 40
    remembered = [ProducerState(5, 0, 0, 0, 50, 50)]
    assert rig.log.describe_producers(()) == remembered
    rig.restart()
    assert rig.log.describe_producers(()) == remembered
    rig.close()
    for path in rig.log_directory.glob("*.producers"):
        path.unlink()
    rig.open()
    assert rig.log.describe_producers(()) == [ProducerState(5, 0, 40, 40, 50, 50)]


def test_a_log_that_starts_anew_knows_nobody(rig: LogRig) -> None:
    rig.log.truncate_and_start_at(70)
    assert rig.log.describe_producers(()) == []


def test_a_log_forgets_producers_after_a_day_of_silence(rig: LogRig) -> None:
    day_ms = 24 * 60 * 60 * 1000
    rig.log.expire_producers(5)
    rig.log.expire_producers(5 + day_ms)
    assert rig.log.describe_producers([5]) != []
    rig.log.expire_producers(6 + day_ms)
    assert rig.log.describe_producers([5]) == []


def test_only_snapshots_that_can_be_needed_are_kept(rig: LogRig) -> None:
    for _ in range(3):
        rig.restart()
        rig.append(1, b"")
    rig.restart()
    assert set(rig.names(".producers")) == {*rig.names(".log"), "53"} - {"0"}


def test_a_follower_knows_the_producers_before_it_leads(rig: LogRig, tmp_path: Path) -> None:
    follower = LogRig(tmp_path / "follower")
    follower.log.append_as_follower(b"".join(rig.log.read(0, 1 << 20, 50)))
    assert follower.log.producers.check(batch(40)) == DuplicateBatch(40, 50)
    assert follower.log.describe_producers(()) == rig.log.describe_producers(())
    follower.close()
