"""Appending, reading, finding and cutting off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide.batch.errors import CorruptBatch, InvalidBatch
from hightide.batch.header import iterate
from hightide_broker.storage import (
    AppendOutOfOrder,
    DirectorySettings,
    LogClosed,
    LogSettings,
    OffsetOutOfRange,
    TimestampFound,
)
from log_rig import LogRig, offsets, read_all
from stored_batches import as_sent_by_leader, headers_of, make_batch

SIZE = len(make_batch(1))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[LogRig]:
    """A log with room for four batches of one record a segment."""
    rig = LogRig(tmp_path, LogSettings(segment_bytes=4 * SIZE, index_interval_bytes=SIZE))
    yield rig
    rig.close()


def test_a_new_log_is_empty_and_has_nothing_on_disk(rig: LogRig) -> None:
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.log.size_bytes) == (0, 0, 0)
    assert rig.log.read(0, 1000, 0) == []
    rig.log.assign_epoch(1, 0)
    assert not rig.log_directory.exists()


def test_the_leader_stamps_offsets_and_epoch_and_leaves_the_rest(rig: LogRig) -> None:
    first, second = make_batch(3), make_batch(2)
    info = rig.log.append_as_leader(first + second, headers_of(first + second), 7)
    assert (info.base_offset, info.end_offset, info.size_bytes) == (0, 5, len(first + second))
    stored = b"".join(rig.log.read(0, 1 << 20, 5))
    assert stored == as_sent_by_leader(first, 0, 7) + as_sent_by_leader(second, 3, 7)
    assert [header for _, header in iterate(stored)] == list(info.headers)


def test_what_was_received_is_not_changed_by_an_append(rig: LogRig) -> None:
    batch = make_batch(3)
    received = bytearray(batch)
    rig.log.append_as_leader(received, headers_of(batch), 1)
    assert received == batch


def test_an_append_of_a_mebibyte_is_one_write_and_one_of_its_mark(rig: LogRig) -> None:
    rig.append()
    before = rig.files.changes
    rig.log.update_settings(LogSettings())
    rig.append(1, b"x" * (1 << 20))
    assert rig.files.changes - before == 2


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_read_starts_with_the_batch_that_holds_the_offset(tmp_path: Path, in_memory: bool) -> None:
    shared = (
        DirectorySettings() if in_memory else DirectorySettings(tail_bytes_max=0, tail_bytes_per_log_max=0)
    )
    rig = LogRig(tmp_path, shared=shared)
    for _ in range(4):
        rig.append(3)
    batches = b"".join(rig.log.read(4, 1 << 20, 12))
    assert [header.base_offset for _, header in iterate(batches)] == [3, 6, 9]
    rig.close()


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_read_keeps_to_the_limits_but_gives_one_batch(tmp_path: Path, in_memory: bool) -> None:
    shared = (
        DirectorySettings() if in_memory else DirectorySettings(tail_bytes_max=0, tail_bytes_per_log_max=0)
    )
    rig = LogRig(tmp_path, shared=shared)
    for _ in range(4):
        rig.append(1, b"x" * 10_000)
    size = len(make_batch(1, b"x" * 10_000))

    def read(max_bytes: int, end_offset: int = 4) -> int:
        return len(b"".join(rig.log.read(0, max_bytes, end_offset)))

    assert read(0) == read(1) == read(2 * size - 1) == size
    assert read(2 * size) == 2 * size
    assert read(1 << 20, end_offset=3) == 3 * size
    assert rig.log.read(0, 1 << 20, 0) == rig.log.read(4, 1 << 20, 4) == []
    rig.close()


def test_a_first_batch_over_the_room_for_it_is_not_read_beyond_its_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = LogRig(tmp_path)
    for _ in range(2):
        rig.append(1, b"x" * 100_000)
    size = len(make_batch(1, b"x" * 100_000))
    read_at, sizes = rig.files.read_at, []

    def counted(fd: int, size: int, position: int) -> bytes:
        sizes.append(size)
        return read_at(fd, size, position)

    monkeypatch.setattr(rig.files, "read_at", counted)
    assert rig.log.read_file(0, 100, 2, size - 1) == []
    assert sum(sizes) < size // 2
    assert len(b"".join(rig.log.read_file(0, 100, 2, size))) == size
    assert len(b"".join(rig.log.read_file(0, size, 2, 1))) == size, "it is within max_bytes"
    rig.close()


def test_the_tail_in_memory_and_the_file_give_the_same_bytes(rig: LogRig) -> None:
    rig.fill(11)
    for offset in range(11):
        in_memory = b"".join(rig.log.read(offset, 3 * SIZE, 11))
        rig.log._tail.clear()
        from_file = b"".join(rig.log.read(offset, 3 * SIZE, 11))
        # A read from a file ends with its segment.
        assert in_memory in (from_file, b"") or in_memory.startswith(from_file)
        assert from_file


def test_batches_are_read_over_segments_and_by_all_sizes(rig: LogRig) -> None:
    rig.fill(10)
    assert len(rig.segments()) == 3
    rig.log._tail.clear()
    for max_bytes in (0, SIZE, 2 * SIZE + 1, 1 << 20):
        assert offsets(rig.log) == list(range(10)), max_bytes


def test_reading_out_of_range_says_what_the_range_is(rig: LogRig) -> None:
    rig.fill(2)
    for offset in (-1, 3):
        with pytest.raises(OffsetOutOfRange) as caught:
            rig.log.read(offset, 100, 2)
        assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, 2)


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(rig: LogRig) -> None:
    rig.append(1)
    rig.append(1, b"x" * 10 * SIZE)
    rig.append(1)
    assert rig.names(".log") == ["0", "1", "2"]
    assert offsets(rig.log) == [0, 1, 2]


def test_a_follower_takes_what_the_leader_has_as_it_is(rig: LogRig) -> None:
    batches = as_sent_by_leader(make_batch(3), 0, 2) + as_sent_by_leader(make_batch(2), 3, 5)
    info = rig.log.append_as_follower(batches)
    assert (info.base_offset, info.end_offset) == (0, 5)
    assert b"".join(rig.log.read(0, 1 << 20, 5)) == batches
    assert rig.log.epochs.entries == ((2, 0), (5, 3))


def test_a_follower_refuses_what_does_not_follow_and_stays_as_it_was(rig: LogRig) -> None:
    rig.log.append_as_follower(as_sent_by_leader(make_batch(3), 0, 4))
    damaged = bytearray(as_sent_by_leader(make_batch(3), 3, 4))
    damaged[100] ^= 1
    whole = as_sent_by_leader(make_batch(3), 3, 4)
    for batches, error in [
        (as_sent_by_leader(make_batch(3), 4, 4), AppendOutOfOrder),
        (as_sent_by_leader(make_batch(3), 0, 4), AppendOutOfOrder),
        (as_sent_by_leader(make_batch(3), 3, 3), AppendOutOfOrder),
        (whole + as_sent_by_leader(make_batch(1), 7, 4), AppendOutOfOrder),
        (bytes(damaged), CorruptBatch),
        (whole + whole[:-1], CorruptBatch),
        (b"", InvalidBatch),
        (as_sent_by_leader(make_batch(3, partition=9), 3, 4), InvalidBatch),
    ]:
        with pytest.raises(error):
            rig.log.append_as_follower(batches)
        assert rig.log.log_end_offset == 3
    rig.log.append_as_follower(whole)
    assert offsets(rig.log) == [0, 3]


def test_truncation_cuts_at_a_batch_and_appends_go_on_there(rig: LogRig) -> None:
    for _ in range(5):
        rig.append(3)
    assert rig.log.truncate_to(9) == 9
    assert offsets(rig.log) == [0, 3, 6]
    rig.append(2, epoch=2)
    assert offsets(rig.log) == [0, 3, 6, 9]
    assert rig.crash().log_end_offset == 11
    assert offsets(rig.log) == [0, 3, 6, 9]


def test_truncation_inside_a_batch_takes_all_of_it(rig: LogRig) -> None:
    rig.append(3)
    rig.append(3)
    assert rig.log.truncate_to(5) == 3


@pytest.mark.parametrize("offset", range(11))
def test_truncation_to_any_offset_leaves_what_is_below(rig: LogRig, offset: int) -> None:
    rig.fill(10)
    rig.log.flush()
    assert rig.log.truncate_to(offset) == min(offset, 10)
    assert offsets(rig.log) == list(range(min(offset, 10)))
    assert rig.log.durable_end_offset == min(offset, 10)
    assert rig.log.size_bytes == sum(path.stat().st_size for path in rig.segments())
    rig.append(1, epoch=2)
    assert offsets(rig.restart()) == list(range(min(offset, 10) + 1))


def test_what_was_cut_off_is_not_read_from_memory(rig: LogRig) -> None:
    rig.fill(6)
    rig.log.truncate_to(3)
    assert rig.log.read(3, 1 << 20, 6) == []
    with pytest.raises(OffsetOutOfRange):
        rig.log.read(4, 1 << 20, 6)


def test_a_reader_that_stopped_halfway_finds_what_replaced_a_cut_tail(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, shared=DirectorySettings(tail_bytes_max=0, tail_bytes_per_log_max=0))
    rig.fill(6)
    rig.log.read(0, 3 * SIZE, 6)
    rig.log.truncate_to(1)
    rig.append(2, b"longer than before", epoch=2)
    rig.append(1, epoch=2)
    rig.append(1, epoch=2)
    stored = b"".join(rig.log.read(3, 0, 5))
    assert [header.base_offset for _, header in iterate(stored)] == [3]
    rig.close()


def test_truncation_below_the_start_leaves_an_empty_log_at_the_start(rig: LogRig) -> None:
    rig.log.truncate_and_start_at(100)
    rig.fill(2)
    assert rig.log.truncate_to(50) == 100
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (100, 100)
    assert rig.crash().log_end_offset == 100


def test_starting_again_further_on_drops_everything(rig: LogRig) -> None:
    rig.fill(9)
    rig.log.truncate_and_start_at(1000)
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.log.size_bytes) == (1000, 1000, 0)
    assert rig.log.epochs.latest == -1
    assert rig.names(".log") == ["1000"]
    with pytest.raises(OffsetOutOfRange):
        rig.log.read(5, 100, 1000)
    rig.append(1)
    assert offsets(rig.crash()) == [1000]


def test_the_first_record_at_or_after_a_timestamp_is_found_to_the_record(rig: LogRig) -> None:
    for start in (100, 300, 200, 400):
        batch = make_batch(3, timestamps_us=(start, start + 20, start + 10))
        rig.log.append_as_leader(batch, headers_of(batch), 1)

    def find(timestamp_us: int, end_offset: int = 12) -> TimestampFound | None:
        return rig.log.find_timestamp(timestamp_us, end_offset)

    for _ in range(2):
        assert find(0) == find(100) == TimestampFound(0, 100)
        assert find(115) == TimestampFound(1, 120)
        assert find(121) == TimestampFound(3, 300)
        assert find(321) == TimestampFound(9, 400)
        assert find(421) is None
        assert find(321, end_offset=9) is None
        rig.log.roll()
        rig.restart()


def test_a_closed_log_says_so(rig: LogRig) -> None:
    rig.fill(1)
    rig.log.close()
    rig.log.close()
    with pytest.raises(LogClosed):
        rig.append()
    with pytest.raises(LogClosed):
        rig.log.read(0, 1, 1)


def test_many_small_batches_in_one_append_are_as_good_as_one(rig: LogRig) -> None:
    rig.log.update_settings(LogSettings())
    batches = make_batch(1) * 2_000
    assert rig.log.append_as_leader(batches, headers_of(batches), 1).end_offset == 2_000
    assert [header.base_offset for header in read_all(rig.log)] == list(range(2_000))
    assert len(read_all(rig.crash())) == 2_000
