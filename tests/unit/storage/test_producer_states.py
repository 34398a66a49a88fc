"""Idempotent producers: what is fresh, what is repeated, what comes too early."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide.batch.header import BatchHeader
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.storage import DuplicateOf, Fresh, LogSettings, ProducerStates, Rejected, Verdict
from log_rig import LogRig
from stored_batches import headers_of, make_batch

OUT_OF_ORDER = ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE
LAST_SEQUENCE = 2**31 - 1


def batch(
    sequence: int, count: int = 10, producer_id: int = 5, epoch: int = 0, offset: int = 0
) -> BatchHeader:
    (header,) = headers_of(make_batch(count, b"", producer=(producer_id, epoch, sequence)))
    return header.stamped(offset, 1)


def code_of(verdict: Verdict) -> int:
    assert isinstance(verdict, Rejected)
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
    assert states.check(header) == Fresh()


def test_the_next_sequence_is_fresh(states: ProducerStates) -> None:
    assert states.check(batch(30)) == Fresh()


def test_a_repeated_batch_is_a_duplicate_of_where_it_is(states: ProducerStates) -> None:
    assert states.check(batch(20)) == DuplicateOf(120, 130)
    assert states.check(batch(0)) == DuplicateOf(100, 110)


def test_a_gap_is_out_of_order(states: ProducerStates) -> None:
    assert code_of(states.check(batch(31))) == OUT_OF_ORDER
    assert code_of(states.check(batch(1_000_000))) == OUT_OF_ORDER


def test_a_batch_that_repeats_part_of_another_is_refused(states: ProducerStates) -> None:
    assert code_of(states.check(batch(25))) == ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE


def test_a_duplicate_longer_ago_than_is_remembered_is_refused(states: ProducerStates) -> None:
    for at in range(3, 9):
        states.update(batch(10 * at, offset=100 + 10 * at))
    assert states.check(batch(40)) == DuplicateOf(140, 150)
    assert code_of(states.check(batch(30))) == ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE


def test_an_unknown_producer_must_start_at_zero(states: ProducerStates) -> None:
    assert states.check(batch(0, producer_id=6)) == Fresh()
    assert code_of(states.check(batch(1, producer_id=6))) == ErrorCode.ERROR_CODE_UNKNOWN_PRODUCER_ID


def test_an_older_epoch_is_fenced_and_a_newer_starts_at_zero(states: ProducerStates) -> None:
    assert code_of(states.check(batch(30, epoch=1))) == OUT_OF_ORDER
    assert states.check(batch(0, epoch=1)) == Fresh()
    states.update(batch(0, epoch=1, offset=130))
    assert code_of(states.check(batch(30, epoch=0))) == ErrorCode.ERROR_CODE_FENCED_PRODUCER_EPOCH
    assert states.check(batch(10, epoch=1)) == Fresh()


def test_sequences_wrap(states: ProducerStates) -> None:
    states.update(batch(LAST_SEQUENCE - 4, offset=500))
    assert states.check(batch(5)) == Fresh()
    assert code_of(states.check(batch(6))) == OUT_OF_ORDER
    assert states.check(batch(LAST_SEQUENCE - 4)) == DuplicateOf(500, 510)
    assert code_of(states.check(batch(LAST_SEQUENCE))) == ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE


def test_the_batches_of_one_request_follow_on_each_other(states: ProducerStates) -> None:
    assert states.check_all([batch(30), batch(40), batch(0, producer_id=6)]) == Fresh()
    assert code_of(states.check_all([batch(30), batch(50)])) == OUT_OF_ORDER
    assert states.check_all([batch(10), batch(20)]) == DuplicateOf(110, 130)


def test_a_request_that_is_half_repeated_is_refused(states: ProducerStates) -> None:
    assert code_of(states.check_all([batch(20), batch(30)])) == ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE


def test_the_producer_heard_of_longest_ago_makes_place() -> None:
    states = ProducerStates(producers_max=2)
    for producer_id in (1, 2, 1, 3):
        states.update(batch(0, producer_id=producer_id))
    assert len(states) == 2
    assert code_of(states.check(batch(10, producer_id=2))) == ErrorCode.ERROR_CODE_UNKNOWN_PRODUCER_ID
    assert states.check(batch(10, producer_id=1)) == Fresh()


def test_producers_not_heard_of_are_forgotten(states: ProducerStates) -> None:
    states.expire(now_us=1_000, expiry_us=100)
    states.update(batch(0, producer_id=6))
    states.expire(now_us=1_100, expiry_us=100)
    assert len(states) == 2
    states.expire(now_us=1_101, expiry_us=100)
    assert len(states) == 1
    assert states.check(batch(10, producer_id=6)) == Fresh()


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
@pytest.mark.parametrize("snapshots", ["kept", "missing", "damaged"])
def test_producers_outlive_a_restart(rig: LogRig, clean: bool, snapshots: str) -> None:
    rig.close(clean)
    paths = list(rig.log_directory.glob("*.producers"))
    assert paths
    for path in paths:
        if snapshots == "missing":
            path.unlink()
        elif snapshots == "damaged":
            path.write_bytes(path.read_bytes()[:-1])
    rig.open()
    assert rig.log.producers.check(batch(40)) == DuplicateOf(40, 50)
    assert rig.log.producers.check(batch(0)) == DuplicateOf(0, 10)
    assert rig.log.producers.check(batch(50)) == Fresh()


@pytest.mark.parametrize("offset", [10, 20, 30, 40])
def test_producers_are_as_of_the_cut_after_a_truncation(rig: LogRig, offset: int) -> None:
    rig.log.truncate_to(offset)
    assert rig.log.producers.check(batch(offset)) == Fresh()
    assert rig.log.producers.check(batch(offset - 10)) == DuplicateOf(offset - 10, offset)
    rig.crash()
    assert rig.log.producers.check(batch(offset)) == Fresh()


def test_only_snapshots_that_can_be_needed_are_kept(rig: LogRig) -> None:
    for _ in range(3):
        rig.restart()
        rig.append(1, b"")
    rig.restart()
    assert set(rig.names(".producers")) == {*rig.names(".log"), "53"} - {"0"}


def test_a_follower_knows_the_producers_before_it_leads(rig: LogRig, tmp_path: Path) -> None:
    follower = LogRig(tmp_path / "follower")
    follower.log.append_as_follower(b"".join(rig.log.read(0, 1 << 20, 50)))
    assert follower.log.producers.check(batch(40)) == DuplicateOf(40, 50)
    follower.close()
