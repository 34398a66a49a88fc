"""What lies beside the segments of a log can be looked into, also where it is damaged."""

from pathlib import Path

import pytest
from hightide.batch.checksum import crc32c
from hightide_broker.storage.index.offset_index import OffsetIndex
from hightide_broker.storage.index.time_index import TimeIndex
from hightide_broker.storage.inspection.index_inspection import inspect_indexes
from hightide_broker.storage.log.producer_states import ProducerStates

BASE = "00000000000000000100"
ENTRY = (3).to_bytes(4, "little") + (150).to_bytes(8, "little")
EPOCHS = b"HTLE\x01\x00\x00\x00" + ENTRY + crc32c(ENTRY).to_bytes(4, "little")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The directory of a log with a closed segment of 1,000 bytes."""
    offsets, times = OffsetIndex(), TimeIndex()
    offsets.append(0, 0)
    offsets.append(40, 700)
    times.note(5_000)
    times.append(700)
    (tmp_path / f"{BASE}.log").write_bytes(bytes(1_000))
    (tmp_path / f"{BASE}.index").write_bytes(offsets.encode())
    (tmp_path / f"{BASE}.timeindex").write_bytes(times.encode())
    (tmp_path / f"{BASE}.producers").write_bytes(ProducerStates().encode(3))
    (tmp_path / "leader_epochs").write_bytes(EPOCHS)
    return tmp_path


def test_all_files_beside_the_segments_are_told(log: Path) -> None:
    found = {each.kind: each for each in inspect_indexes(log)}
    assert {kind: each.damage for kind, each in found.items()} == dict.fromkeys(found, None)
    assert found["offset_index"].entries == ((100, 0), (140, 700)), "offsets are those of the log"
    assert found["time_index"].entries == ((5_000, 700),)
    assert found["leader_epochs"].entries == ((3, 150),)
    assert found["producers"].entries == ()
    assert found["producers"].columns[0] == "producer_id"


def test_damage_is_told_and_nothing_is_changed(log: Path) -> None:
    index, epochs = log / f"{BASE}.index", log / "leader_epochs"
    index.write_bytes(index.read_bytes()[:-1] + b"\xff")
    epochs.write_bytes(EPOCHS + b"\x01\x02")
    found = {each.kind: each for each in inspect_indexes(log)}
    assert "CRC" in (found["offset_index"].damage or "")
    assert found["offset_index"].entries == ()
    assert "torn" in (found["leader_epochs"].damage or "")
    assert found["leader_epochs"].entries == ((3, 150),)
    assert epochs.read_bytes() == EPOCHS + b"\x01\x02"


def test_one_file_is_looked_into_and_another_is_refused(log: Path) -> None:
    (only,) = inspect_indexes(log / f"{BASE}.timeindex")
    assert only.kind == "time_index"
    with pytest.raises(ValueError, match="none of the files beside a segment"):
        list(inspect_indexes(log / f"{BASE}.log"))
