"""The comparison of replicas finds a single different byte, also among those that the leader stamps."""

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from hightide.batch.body import SCHEMA, encode
from hightide.batch.header import stamp
from hightide_local.histories.replica_logs import differences

TOPIC_ID = bytes(range(16))


def batch(base_offset: int, records: int = 3, leader_epoch: int = 0, text: bytes = b"v") -> bytes:
    columns = pa.RecordBatch.from_arrays(
        [
            pa.array([b"k"] * records),
            pa.array([text] * records),
            pa.array([7] * records, SCHEMA.field(2).type),
        ],
        schema=SCHEMA,
    )
    content = bytearray(encode(columns, topic_id=TOPIC_ID, partition=0).to_bytes())
    stamp(content, 0, base_offset, leader_epoch)
    return bytes(content)


class Replicas:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.directories: dict[int, Path] = {}

    def write(self, broker_id: int, *segments: list[bytes]) -> None:
        directory = self.root / str(broker_id) / f"{TOPIC_ID.hex()}-0"
        directory.mkdir(parents=True)
        for segment in segments:
            (base,) = struct.unpack_from("<q", segment[0])
            (directory / f"{base:020d}.log").write_bytes(b"".join(segment))
        self.directories[broker_id] = directory

    def differences(self, high_watermark: int) -> list[str]:
        return differences(self.directories, high_watermark)


@pytest.fixture
def replicas(tmp_path: Path) -> Replicas:
    return Replicas(tmp_path)


def test_equal_logs_do_not_differ(replicas: Replicas) -> None:
    for broker_id in (1, 2, 3):
        replicas.write(broker_id, [batch(0), batch(3)])
    assert replicas.differences(6) == []


def test_segments_may_be_cut_at_other_places(replicas: Replicas) -> None:
    replicas.write(1, [batch(0), batch(3)], [batch(6)])
    replicas.write(2, [batch(0)], [batch(3), batch(6)])
    assert replicas.differences(9) == []


def test_what_is_above_the_high_watermark_may_differ(replicas: Replicas) -> None:
    replicas.write(1, [batch(0), batch(3, text=b"a")])
    replicas.write(2, [batch(0), batch(3, text=b"b")])
    replicas.write(3, [batch(0)])
    assert replicas.differences(3) == []


def test_a_torn_batch_above_the_high_watermark_is_nobodys_loss(replicas: Replicas) -> None:
    replicas.write(1, [batch(0), batch(3)[:50]])
    replicas.write(2, [batch(0)])
    assert replicas.differences(3) == []


def test_what_retention_deleted_on_one_is_not_compared(replicas: Replicas) -> None:
    replicas.write(1, [batch(0)], [batch(3)])
    replicas.write(2, [batch(3)])
    assert replicas.differences(6) == []


def test_another_value_is_found(replicas: Replicas) -> None:
    replicas.write(1, [batch(0), batch(3, text=b"a")])
    replicas.write(2, [batch(0), batch(3, text=b"b")])
    assert "brokers 1 and 2 differ" in replicas.differences(6)[0]


def test_another_leader_epoch_is_found(replicas: Replicas) -> None:
    replicas.write(1, [batch(0), batch(3, leader_epoch=1)])
    replicas.write(2, [batch(0), batch(3, leader_epoch=2)])
    assert "brokers 1 and 2 differ" in replicas.differences(6)[0]


def test_other_batches_with_the_same_records_are_found(replicas: Replicas) -> None:
    replicas.write(1, [batch(0, 2), batch(2, 2)])
    replicas.write(2, [batch(0, 4)])
    assert "brokers 1 and 2 differ" in replicas.differences(4)[0]


def test_a_replica_that_ends_below_the_high_watermark_is_found(replicas: Replicas) -> None:
    replicas.write(1, [batch(0), batch(3)])
    replicas.write(2, [batch(0)])
    assert any("ends at 3, below the high watermark 6" in text for text in replicas.differences(6))


def test_a_replica_without_a_log_is_found(replicas: Replicas) -> None:
    replicas.write(1, [batch(0)])
    replicas.directories[2] = replicas.root / "2" / "nothing"
    assert any("ends at 0, below the high watermark 3" in text for text in replicas.differences(3))


def test_a_gap_is_found_even_where_all_have_it(replicas: Replicas) -> None:
    for broker_id in (1, 2):
        replicas.write(broker_id, [batch(0), batch(4)])
    assert any("is followed by" in text for text in replicas.differences(7))


def test_a_leader_epoch_that_falls_is_found_even_where_all_have_it(replicas: Replicas) -> None:
    for broker_id in (1, 2):
        replicas.write(broker_id, [batch(0, leader_epoch=5), batch(3, leader_epoch=4)])
    assert any("the leader epoch falls" in text for text in replicas.differences(6))


def test_a_flipped_bit_is_found_even_where_all_have_it(replicas: Replicas) -> None:
    damaged = bytearray(batch(3))
    damaged[-1] ^= 1
    for broker_id in (1, 2):
        replicas.write(broker_id, [batch(0), bytes(damaged)])
    assert any("CRC" in text for text in replicas.differences(6))


def test_a_high_watermark_inside_of_a_batch_is_found(replicas: Replicas) -> None:
    replicas.write(1, [batch(0, 4)])
    assert any("is inside of" in text for text in replicas.differences(3))
