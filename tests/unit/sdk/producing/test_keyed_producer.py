"""A producer with a key writes under sequences that are compare-and-set, and stops where they do not fit."""

from typing import Any

import pytest
from hightide import DeliveredPiece, ProducerKey
from hightide.errors import (
    DeliveryPendingError,
    DeliveryTimeoutError,
    FencedProducerEpochError,
    InvalidArgumentError,
    RequestTimeoutError,
    SequenceConflictError,
    TopicRecreatedError,
    UnknownProducerIdError,
)
from hightide.producing.delivery import BulkDelivery
from hightide.producing.producer_settings import ProducerSettings
from hightide.v1.errors_pb2 import ErrorCode
from hypothesis import given
from hypothesis import strategies as st
from unit.sdk.producer_bench import ProducerBench, headers_of, metadata

KEY = ProducerKey("spark/query", 3, 7)
CONFLICTS = [
    ErrorCode.ERROR_CODE_SEQUENCE_CONFLICT,
    ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE,
    ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE,
]


@given(st.text(min_size=1), st.integers(0, 1 << 40), st.integers(0, 1 << 70))
def test_a_key_is_always_the_same_identity_and_never_one_that_brokers_give(
    name: str, part: int, version: int
) -> None:
    key = ProducerKey(name, part, version)
    assert (key.producer_id, key.producer_epoch) == (
        ProducerKey(name, part, version).producer_id,
        version % 32768,
    )
    assert 1 << 62 <= key.producer_id < 1 << 63
    assert key.producer_id != ProducerKey(name, part + 1, version).producer_id
    assert key.producer_id != ProducerKey(name, part, version + 32768).producer_id
    assert key.producer_id == ProducerKey(name, part, version // 32768 * 32768).producer_id


@pytest.mark.parametrize(("name", "part", "version"), [("", 0, 0), ("n", -1, 0), ("n", 0, -1)])
def test_a_key_that_names_nobody_is_refused(name: str, part: int, version: int) -> None:
    with pytest.raises(InvalidArgumentError, match="producer key"):
        ProducerKey(name, part, version)


@pytest.mark.parametrize("settings", [{"acks": 1}, {"acks": 0}, {"idempotent": False}])
def test_a_key_is_for_writes_that_are_certain(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match="key"):
        ProducerSettings(key=KEY, **settings)  # type: ignore[arg-type]


def keyed(**settings: Any) -> ProducerBench:
    return ProducerBench(key=KEY, batch_bytes_max=8_192, **settings)


def test_it_asks_for_no_identity_and_begins_at_sequence_0() -> None:
    bench = keyed()
    bench.send(2)
    (header,) = headers_of(bench.call())
    assert (header.producer_id, header.producer_epoch) == (KEY.producer_id, KEY.producer_epoch)
    assert header.base_sequence == 0


def test_one_batch_is_in_flight_in_a_partition() -> None:
    bench = keyed()
    bench.send(21, size_bytes=1_000)
    bench.core.unfinished()
    sequences = []
    while bench.core.undelivered_count:
        call = bench.call()
        sequences.append(call.entries[0].batch.base_sequence)
        assert bench.calls() == []
        bench.ok(call)
    assert sequences == [0, 7, 14]


@pytest.mark.parametrize("code", CONFLICTS)
def test_what_meets_other_records_fails_with_all_behind_it_and_only_in_that_partition(
    code: ErrorCode.ValueType,
) -> None:
    bench = keyed(leaders=(1, 2))
    refused = bench.send(21, size_bytes=1_000)
    first = bench.call()
    bench.refuse(first, code)
    assert bench.calls() == []
    refused += bench.send(3)
    assert bench.calls() == []
    assert {type(delivery.exception()) for delivery in refused} == {SequenceConflictError}
    (elsewhere,) = bench.send(1, partition=1)
    bench.ok(bench.call())
    assert elsewhere.exception() is None
    assert bench.core.free_bytes == bench.core.settings.buffer_memory_bytes


def test_it_goes_on_where_it_is_told_under_the_same_identity() -> None:
    bench = keyed()
    bench.send(2)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_SEQUENCE_CONFLICT)
    bench.core.go_on_at(bench.home, 0, 40)
    for sequence in (40, 43):
        bench.send(3)
        call = bench.call()
        (header,) = headers_of(call)
        assert (header.base_sequence, header.producer_id) == (sequence, KEY.producer_id)
        bench.ok(call)


def test_it_is_told_where_to_go_on_only_when_nothing_is_unfinished() -> None:
    bench = keyed()
    bench.send(1)
    with pytest.raises(InvalidArgumentError, match=r"call flush\(\)"):
        bench.core.go_on_at(bench.home, 0, 0)
    call = bench.call()
    with pytest.raises(InvalidArgumentError, match=r"call flush\(\)"):
        bench.core.go_on_at(bench.home, 0, 0)
    bench.ok(call)
    with pytest.raises(InvalidArgumentError, match="no sequence"):
        bench.core.go_on_at(bench.home, 0, 1 << 31)
    with pytest.raises(InvalidArgumentError, match="with a key"):
        ProducerBench().core.go_on_at(bench.home, 0, 0)


def test_a_log_that_has_forgotten_the_writer_is_told_and_not_begun_anew() -> None:
    bench = keyed()
    sent = bench.send(2)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_UNKNOWN_PRODUCER_ID)
    assert {type(delivery.exception()) for delivery in sent} == {UnknownProducerIdError}
    (late,) = bench.send(1)
    assert bench.calls() == []
    assert isinstance(late.exception(), UnknownProducerIdError)


def test_a_newer_version_ends_it() -> None:
    bench = keyed()
    (sent,) = bench.send(1)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_FENCED_PRODUCER_EPOCH)
    assert isinstance(sent.exception(), FencedProducerEpochError)
    with pytest.raises(FencedProducerEpochError):
        bench.try_send()


def test_a_lost_answer_is_followed_by_the_very_same_batch() -> None:
    bench = keyed()
    (sent,) = bench.send(1)
    call = bench.call()
    before = headers_of(call)
    bench.fail(call, RequestTimeoutError("lost", address="b1:1"))
    bench.pass_ms(100)
    again = bench.call()
    assert headers_of(again) == before
    bench.ok(again, base_offset=5)
    assert sent.result().offset == 5


def test_what_may_have_been_appended_lets_nothing_behind_it_go() -> None:
    bench = keyed(delivery_timeout_ms=1_000)
    bench.send(1)
    bench.fail(bench.call(), RequestTimeoutError("lost", address="b1:1"))
    bench.pass_ms(500)
    behind = bench.send(1)
    bench.pass_ms(600)
    assert bench.calls() == []
    assert isinstance(behind[0].exception(), DeliveryTimeoutError)


def test_a_topic_that_is_made_again_under_it_is_another_one() -> None:
    bench = keyed()
    bench.send(1)
    bench.fail(bench.call(), RequestTimeoutError("lost", address="b1:1"))
    bench.calls()
    (behind,) = bench.send(1)
    bench.answer_metadata(metadata([1], topic_id=b"x" * 16))
    assert bench.calls() == []
    assert isinstance(behind.exception(), TopicRecreatedError)


def test_pieces_tell_of_each_row_what_became_of_it() -> None:
    bench = keyed()
    bench.send(21, size_bytes=1_000)
    batches = tuple(bench.core.unfinished())
    bulk = BulkDelivery(batches)
    with pytest.raises(DeliveryPendingError):
        bulk.pieces()
    bench.ok(bench.call(), base_offset=100)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_BATCH_TOO_LARGE)
    bench.ok(bench.call(), base_offset=200)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_SEQUENCE_CONFLICT)
    assert bench.calls() == []
    *told, conflict, behind = bulk.pieces()
    assert told == [DeliveredPiece(7, 100), DeliveredPiece(3, 200)]
    assert (conflict.record_count, behind.record_count, conflict.base_offset) == (4, 7, -1)
    assert isinstance(conflict.error, SequenceConflictError)
    assert conflict.error == behind.error
