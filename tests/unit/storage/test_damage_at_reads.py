"""What a log gives of files that changed behind its back: what was written, or DamagedLog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hightide.batch.header import split
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.storage import DamagedLog, DirectorySettings, LogSettings
from hightide_broker.storage.inspection.inspection import InspectedDamage, inspect
from log_rig import LogRig, offsets
from stored_batches import TOPIC_ID, make_batch

RECORDS = 3
SIZE = len(make_batch(RECORDS))
END = 12 * RECORDS
BASE_OFFSET_BITS, LEADER_EPOCH_BITS = range(64), range(96, 128)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[LogRig]:
    """Twelve batches of three records, four to a segment, none in memory; epoch 2 from offset 15 on."""
    rig = LogRig(
        tmp_path,
        LogSettings(segment_bytes=4 * SIZE, index_interval_bytes=2 * SIZE),
        DirectorySettings(tail_bytes_max=0, tail_bytes_per_log_max=0, open_files_max=1),
    )
    for place in range(12):
        rig.append(RECORDS, epoch=1 + place // 5)
    yield rig
    rig.close(clean=False)


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def read_from_everywhere(rig: LogRig, written: dict[int, bytes]) -> list[DamagedLog]:
    """Read one batch, and many, from each offset on; the errors."""
    errors = []
    for max_bytes in (1, 3 * SIZE):
        for offset in range(END):
            try:
                found = rig.log.read(offset, max_bytes, END)
            except DamagedLog as error:
                errors.append(error)
                continue
            batches = split(b"".join(found))
            assert batches
            assert batches[0][0].base_offset <= offset < batches[0][0].next_offset
            for header, batch in batches:
                assert written[header.base_offset] == bytes(batch)
    return errors


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("bits", [BASE_OFFSET_BITS, LEADER_EPOCH_BITS], ids=["base offset", "leader epoch"])
def test_a_flipped_bit_of_what_the_leader_stamped_never_reaches_a_reader(
    rig: LogRig, bits: range, batch: int
) -> None:
    """It is outside of the CRC."""
    written = {
        header.base_offset: bytes(piece)
        for path in rig.segments()
        for header, piece in split(path.read_bytes())
    }
    for bit in bits:
        flip(rig.segments()[1], batch * SIZE * 8 + bit)
        errors = read_from_everywhere(rig, written)
        assert errors
        assert all(4 * RECORDS <= error.offset < 8 * RECORDS for error in errors)
        flip(rig.segments()[1], batch * SIZE * 8 + bit)
    assert read_from_everywhere(rig, written) == []


@pytest.mark.parametrize("bit", [0, 8 * 8 + 4, 16 * 8])
def test_what_stands_in_front_of_the_damage_is_given(rig: LogRig, bit: int) -> None:
    flip(rig.segments()[1], SIZE * 8 + bit)
    found = rig.log.read(4 * RECORDS, 1 << 20, END)
    assert [header.base_offset for header, _ in split(b"".join(found))] == [4 * RECORDS]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: flip(path, 8 * 8 + 4), id="a length"),
        pytest.param(lambda path: flip(path, 16 * 8), id="a magic"),
        pytest.param(lambda path: flip(path, 40 * 8), id="another partition"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[: SIZE // 2]), id="a cut"),
        pytest.param(lambda path: path.write_bytes(b""), id="nothing left"),
        pytest.param(lambda path: path.write_bytes(bytes(path.stat().st_size)), id="zeros"),
        pytest.param(lambda path: path.unlink(), id="the file gone"),
    ],
)
def test_damage_names_the_log_and_what_it_is_and_the_directory_goes_on(
    rig: LogRig, damage: Callable[[Path], None]
) -> None:
    damage(rig.segments()[1])
    with pytest.raises(DamagedLog, match="flights-3 is damaged at offset 12: ") as caught:
        rig.log.read(4 * RECORDS, 1 << 20, END)
    assert caught.value.code == ErrorCode.ERROR_CODE_STORAGE_FAILED
    assert (caught.value.topic_id, caught.value.partition, caught.value.segment) == (TOPIC_ID, 3, 12)
    assert not rig.directory.failed
    assert rig.log.read(0, 1, END)
    assert rig.append(epoch=3) == END + 3


def test_segments_that_were_swapped_are_found_out(rig: LogRig) -> None:
    one, other = rig.segments()[:2]
    contents = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(contents)
    for offset in (0, 12):
        with pytest.raises(DamagedLog):
            rig.log.read(offset, 1 << 20, END)


def test_a_cut_where_the_damage_begins_leaves_a_whole_log(rig: LogRig) -> None:
    flip(rig.segments()[1], SIZE * 8)
    assert rig.log.truncate_to(5 * RECORDS) == 5 * RECORDS
    assert len(rig.segments()) == 2
    assert offsets(rig.log) == [0, 3, 6, 9, 12]
    assert rig.log.truncate_to(3 * RECORDS) == 3 * RECORDS
    assert offsets(rig.log) == [0, 3, 6]


def test_looking_for_a_time_in_a_damaged_segment_says_so(rig: LogRig) -> None:
    flip(rig.segments()[0], 0)
    with pytest.raises(DamagedLog):
        rig.log.find_timestamp(0, END)


@pytest.mark.parametrize("bit", [*BASE_OFFSET_BITS, *LEADER_EPOCH_BITS])
def test_looking_into_a_log_tells_of_what_the_leader_stamped(rig: LogRig, bit: int) -> None:
    path = rig.segments()[1]
    flip(path, SIZE * 8 + bit)
    damages = [found for found in inspect(rig.log_directory) if isinstance(found, InspectedDamage)]
    assert [(found.path, found.position in (SIZE, 2 * SIZE)) for found in damages] == [(path, True)]


def test_it_tells_of_a_last_batch_whose_leader_epoch_is_above_that_of_the_next_segment(rig: LogRig) -> None:
    first, second = rig.segments()[:2]
    flip(first, (first.stat().st_size - SIZE) * 8 + LEADER_EPOCH_BITS[1])
    damages = [found for found in inspect(rig.log_directory) if isinstance(found, InspectedDamage)]
    assert [(found.path, found.position) for found in damages] == [(second, 0)]


def test_looking_into_a_log_tells_of_a_missing_segment(rig: LogRig) -> None:
    rig.segments()[1].unlink()
    (damage,) = [found for found in inspect(rig.log_directory) if isinstance(found, InspectedDamage)]
    assert damage.path == rig.segments()[1]
    assert damage.reason == "the segment in front of it ends at offset 12"
