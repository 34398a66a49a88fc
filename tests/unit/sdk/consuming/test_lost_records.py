"""A consumer says in which epoch it read its last record, and goes back or says it when the leader lost it
(KIP-320)."""

from typing import Any

import pytest
from hightide.batch.header import stamp
from hightide.consuming.epochs_read import EPOCHS_MAX, EpochsRead
from hightide.consuming.fetch_call import FetchCall
from hightide.errors import DivergingLogError
from hightide.v1.broker_service_pb2 import FetchRequest
from hightide.v1.errors_pb2 import ErrorCode
from unit.sdk.consumer_bench import P0, P1, ConsumerBench, batch, offsets
from unit.sdk.producer_bench import metadata


def written_in(epoch: int, base_offset: int, count: int) -> bytes:
    made = bytearray(batch(base_offset, count))
    stamp(made, 0, base_offset, epoch)
    return bytes(made)


def part(
    bench: ConsumerBench, call: FetchCall, end_offset: int, epoch: int, log_start_offset: int = 0
) -> None:
    """The leader lacks the record before the offset that was asked for."""
    bench.answer(
        call, error_code=ErrorCode.ERROR_CODE_DIVERGING_LOG, diverging_end_offset=end_offset,
        diverging_epoch=epoch, log_start_offset=log_start_offset,
    )  # fmt: skip


def has_read(**settings: Any) -> ConsumerBench:
    """Offsets 0 to 9 in epoch 1, to 19 in epoch 3, to 29 in epoch 4, all handed out."""
    bench = ConsumerBench(**settings).started_at(0)
    bench.answer(bench.fetch(), written_in(1, 0, 10), written_in(3, 10, 10), written_in(4, 20, 10))
    assert offsets(bench.chunks()) == [(0, 10), (10, 20), (20, 30)]
    return bench


def asked(call: FetchCall) -> tuple[int, int | None]:
    """The offset and the last epoch as the broker reads them."""
    (partition,) = FetchRequest.FromString(call.encode()).partitions
    epoch = partition.last_fetched_epoch if partition.HasField("last_fetched_epoch") else None
    return partition.fetch_offset, epoch


def test_it_says_in_which_epoch_the_last_record_was_written() -> None:
    assert asked(has_read().fetch()) == (30, 4)


def test_it_says_nothing_where_it_has_read_nothing() -> None:
    bench = ConsumerBench().started_at(40)
    assert asked(bench.fetch()) == (40, None)
    bench = has_read()
    bench.core.seek(P0, 15)
    assert asked(bench.fetch()) == (15, None), "a seek goes where nobody has to have read"


def test_an_epoch_of_0_is_an_epoch() -> None:
    bench = ConsumerBench().started_at(0)
    bench.answer(bench.fetch(), written_in(0, 0, 5))
    assert asked(bench.fetch()) == (5, 0)
    assert bench.core.leader_epoch_before(P0, 5) == 0


@pytest.mark.parametrize(
    ("offset", "epoch", "said"),
    [(25, 7, (25, 7)), (25, -1, (25, None)), (25, None, (25, None)), (0, 7, (0, None))],
)
def test_a_start_may_come_with_the_epoch_that_was_committed(
    offset: int, epoch: int | None, said: tuple[int, int | None]
) -> None:
    bench = ConsumerBench().started_at(0)
    bench.core.seek(P0, offset, epoch)
    assert asked(bench.fetch()) == said


def test_what_is_committed_comes_with_the_epoch_of_the_record_below_it() -> None:
    bench = has_read()
    epochs = [bench.core.leader_epoch_before(P0, offset) for offset in (0, 1, 10, 11, 20, 21, 30)]
    assert epochs == [-1, 1, 1, 3, 3, 4, 4]


def test_it_goes_back_to_where_both_agree_and_says_so() -> None:
    bench = has_read(offset_reset="latest")
    part(bench, bench.fetch(), 14, 3)
    call = bench.fetch()
    assert asked(call) == (14, 3)
    bench.answer(call, written_in(5, 14, 6))
    assert "records from offset 14 to 29, which were read, are lost" in bench.warned()
    assert "going back to offset 14" in bench.warned()
    assert offsets(bench.chunks()) == [(14, 20)]
    assert asked(bench.fetch()) == (20, 5)


def test_with_offset_reset_error_it_is_raised_with_the_offset_to_go_on_at() -> None:
    bench = has_read(offset_reset="error")
    part(bench, bench.fetch(), 14, 3)
    bench.answer(bench.fetch(), written_in(5, 14, 6))
    assert bench.chunks() == []
    with pytest.raises(DivergingLogError, match="offset 14 to 29, which were read, are lost") as caught:
        bench.core.raise_errors(bench.now_ms)
    assert caught.value.diverging_end_offset == 14
    assert bench.calls() == [], "it waits for the user"
    bench.core.seek(P0, 14)
    bench.core.raise_errors(bench.now_ms)
    assert asked(bench.fetch()) == (14, None)


def test_it_asks_epoch_after_epoch_until_both_agree() -> None:
    """Neither 4 nor 3 is in the leader's log, which has a longer epoch 2 in their place."""
    bench = has_read(offset_reset="error")
    part(bench, bench.fetch(), 25, 2)
    call = bench.fetch()
    assert asked(call) == (10, 1), "it read nothing of epoch 2, so what it has in common is in epoch 1"
    part(bench, call, 7, 1)
    call = bench.fetch()
    assert asked(call) == (7, 1)
    bench.answer(call, written_in(2, 7, 18))
    with pytest.raises(DivergingLogError, match="offset 7 to 29") as caught:
        bench.core.raise_errors(bench.now_ms)
    assert caught.value.diverging_end_offset == 7


def test_a_leader_that_knows_more_than_a_new_consumer_is_believed() -> None:
    bench = ConsumerBench().started_at(0)
    bench.core.seek(P0, 30, 4)
    part(bench, bench.fetch(), 22, 3)
    call = bench.fetch()
    assert asked(call) == (22, 3)
    bench.answer(call, written_in(5, 22, 1))
    assert offsets(bench.chunks()) == [(22, 23)]


def test_what_was_fetched_and_seen_by_nobody_is_fetched_again_without_alarm() -> None:
    bench = ConsumerBench(offset_reset="error").started_at(0)
    bench.answer(bench.fetch(), written_in(1, 0, 10), written_in(3, 10, 10))
    first = bench.core.next_chunk()
    assert first is not None
    part(bench, bench.fetch(), 10, 1)
    call = bench.fetch()
    assert asked(call) == (10, 1)
    bench.answer(call, written_in(5, 10, 30))
    bench.core.handed_out(first, first.next_offset)
    assert offsets(bench.chunks()) == [(10, 40)], "and nothing of what is lost"
    bench.core.raise_errors(bench.now_ms)
    assert bench.core.buffered_bytes == 0


def test_the_rest_of_a_batch_that_was_put_back_has_been_seen_by_nobody() -> None:
    bench = ConsumerBench(offset_reset="error").started_at(0)
    bench.answer(bench.fetch(), written_in(1, 0, 10))
    chunk = bench.core.next_chunk()
    assert chunk is not None
    chunk.skip = 4
    bench.core.put_back(chunk)
    part(bench, bench.fetch(), 6, 1)
    call = bench.fetch()
    assert asked(call) == (4, 1)
    bench.answer(call, written_in(1, 0, 6), written_in(2, 6, 4))
    assert offsets(bench.chunks()) == [(4, 6), (6, 10)]
    bench.core.raise_errors(bench.now_ms)


def test_what_waits_of_other_partitions_stays() -> None:
    bench = ConsumerBench(leaders=(1, 2), assign=[P0, P1])
    for partition in (P0, P1):
        bench.core.seek(partition, 0)
    for call in bench.calls():
        assert isinstance(call, FetchCall)
        bench.answer(call, batch(0, 10, partition=call.entries[0].partition.partition))
    lost = next(call for call in bench.calls() if call.address == "b1:1")
    assert isinstance(lost, FetchCall)
    part(bench, lost, 3, 0)
    assert [(chunk.partition, chunk.next_offset) for chunk in bench.chunks()] == [(P1, 10)]


def test_a_leader_whose_first_record_is_newer_than_all_that_was_read() -> None:
    """Retention deleted the rest: what was read is lost, and there is nowhere further back to go."""
    bench = has_read()
    part(bench, bench.fetch(), 28, -1, log_start_offset=28)
    call = bench.fetch()
    assert asked(call) == (28, None)
    bench.answer(call, written_in(6, 28, 4))
    assert "going back to offset 28" in bench.warned()
    assert offsets(bench.chunks()) == [(28, 32)]


def test_it_never_goes_back_below_the_first_offset() -> None:
    bench = has_read()
    part(bench, bench.fetch(), 30, 3, log_start_offset=30)
    call = bench.fetch()
    assert asked(call)[0] == 30
    bench.answer(call, written_in(6, 30, 4))
    assert "are lost" in bench.warned(), "it has read what is lost, although it goes on where it was"


def test_a_change_of_leader_on_the_way_back_loses_nothing_of_it() -> None:
    bench = has_read(offset_reset="error")
    part(bench, bench.fetch(), 14, 3)
    bench.answer(
        bench.fetch(), error_code=ErrorCode.ERROR_CODE_NOT_LEADER, current_leader=3, current_leader_epoch=6
    )
    call = bench.fetch()
    assert (call.address, asked(call)) == ("b3:3", (14, 3))
    bench.answer(call)
    with pytest.raises(DivergingLogError, match="offset 14 to 29"):
        bench.core.raise_errors(bench.now_ms)


def test_a_leader_that_has_not_heard_of_the_epoch_is_asked_again() -> None:
    bench = has_read(offset_reset="error")
    bench.answer(bench.fetch(), error_code=ErrorCode.ERROR_CODE_UNKNOWN_LEADER_EPOCH)
    bench.core.raise_errors(bench.now_ms)
    assert bench.calls() == [], "it waits for news"
    bench.answer_metadata(metadata({0: (2, 9)}))
    assert asked(bench.fetch()) == (30, 4)


def test_an_answer_to_what_was_not_asked_is_an_error_and_no_reason_to_go_anywhere() -> None:
    bench = ConsumerBench().started_at(40)
    part(bench, bench.fetch(), 3, 0)
    with pytest.raises(DivergingLogError):
        bench.core.raise_errors(bench.now_ms)
    assert bench.core.positions[P0].fetch_offset == 40


def test_only_so_many_epochs_are_remembered() -> None:
    epochs = EpochsRead()
    for epoch in range(100):
        epochs.note(epoch, epoch * 10)
    assert epochs.before(1_000) == 99
    assert epochs.before((100 - EPOCHS_MAX) * 10) is None
    assert epochs.before((100 - EPOCHS_MAX) * 10 + 1) == 100 - EPOCHS_MAX


def test_an_epoch_that_does_not_rise_begins_another_history() -> None:
    epochs = EpochsRead()
    epochs.note(5, 0)
    epochs.note(3, 10)
    assert (epochs.before(10), epochs.before(11)) == (None, 3)
