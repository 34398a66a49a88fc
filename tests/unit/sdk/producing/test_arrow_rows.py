"""Whole tables are shared out like single records are, and nothing is lost on the way."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hightide import Producer
from hightide.cluster.metadata import Leader
from hightide.errors import InvalidArgumentError, RecordTooLargeError, UndeliveredError
from hightide.producing.arrow_rows import by_partition, cut, rows_of
from hightide.producing.partitioner import partition_for_key
from hypothesis import given
from hypothesis import strategies as st
from unit.sdk.producer_bench import TOPIC, ProducerBench, metadata

KEYS = st.lists(st.one_of(st.none(), st.binary(max_size=3)), max_size=60)


def table(keys: list[bytes | None]) -> Any:
    values = [b"%d" % at for at in range(len(keys))]
    return rows_of(pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}), 5)


@given(KEYS, st.integers(1, 9))
def test_each_row_goes_where_its_key_says_and_keeps_its_order(keys: list[bytes | None], count: int) -> None:
    seen: dict[int | None, list[tuple[bytes | None, bytes]]] = {}
    for partition, rows in by_partition(table(keys), count, lambda key: partition_for_key(key, count)):
        assert partition not in seen
        seen[partition] = list(zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True))
    expected: dict[int | None, list[tuple[bytes | None, bytes]]] = {}
    for at, key in enumerate(keys):
        partition = None if key is None else partition_for_key(key, count)
        expected.setdefault(partition, []).append((key, b"%d" % at))
    assert {each: rows for each, rows in seen.items() if rows} == expected


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=80))
def test_cutting_loses_nothing_and_keeps_to_the_limit(sizes: list[int]) -> None:
    rows = rows_of(pa.table({"value": pa.array([b"x" * size for size in sizes], pa.binary())}), 5)
    found: list[int] = []
    for part, size_bytes in cut(rows, 8_192):
        assert size_bytes <= 8_192 or part.num_rows == 1
        assert part.num_rows > 0
        found += [len(value) for value in part.column(1).to_pylist()]
    assert found == sizes


def test_strings_are_taken_as_their_utf8_and_times_in_any_unit() -> None:
    when = datetime(2013, 1, 1, tzinfo=UTC)
    rows = rows_of(
        pa.table({"value": ["ä"], "key": ["k"], "timestamp": pa.array([when], pa.timestamp("s", "UTC"))}), 5
    )
    assert rows.to_pylist() == [{"key": b"k", "value": "ä".encode(), "timestamp": when}]


def test_a_missing_time_is_now() -> None:
    rows = rows_of(pa.table({"value": [b"v"]}), 1_000_005)
    assert rows.column(2)[0].value == 1_000_005


@pytest.mark.parametrize(
    ("columns", "wrong"),
    [
        ({"key": [b"k"]}, "value must be there"),
        ({"value": [b"v"], "colour": [1]}, "colour"),
        ({"value": [b"v"], "timestamp": pa.array([None], pa.timestamp("us", "UTC"))}, "nulls"),
        ({"value": [b"v"], "timestamp": pa.array([-1])}, "before 1970"),
        ({"value": [1.5]}, "cannot be used"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is(columns: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidArgumentError, match=wrong):
        rows_of(pa.table(columns), 5)


def test_only_arrow_is_taken() -> None:
    with pytest.raises(InvalidArgumentError, match="not list"):
        rows_of([1], 5)


def test_a_table_a_little_over_a_batch_is_cut_into_equal_parts_not_into_a_batch_and_a_rest() -> None:
    rows = rows_of(pa.table({"value": pa.array([b"v" * 100] * 10_000, pa.binary())}), now_us=1)
    parts = [part.num_rows for part, _ in cut(rows, 1 << 20)]
    assert parts == [5_000, 5_000]


def test_the_partition_of_rows_without_a_key_is_chosen_with_the_lock_that_every_send_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it, two threads took the same partition, or one without a leader that the other was passing."""
    producer = Producer("127.0.0.1:1", linger_ms=60_000)
    cluster = producer._core.cluster
    cluster.update(metadata([1, 1]))
    leader_of, held = cluster.leader_of, []

    def watched(topic: str, partition: int) -> Leader | None:
        held.append(producer._lock.locked())
        return leader_of(topic, partition)

    monkeypatch.setattr(cluster, "leader_of", watched)
    producer.send_arrow(TOPIC, pa.table({"value": [b"v"]}))
    assert held
    assert all(held)
    with pytest.raises(UndeliveredError):
        producer.close(0)


def parts_of(table: Any, bench: ProducerBench) -> list[int]:
    return [part.num_rows for part, _ in cut(rows_of(table, now_us=1), bench.core.rows_limit(bench.home))]


@pytest.mark.parametrize("value_bytes", [100, 1_000, 100_000])
def test_a_table_whose_values_fill_a_batch_is_one_batch(value_bytes: int) -> None:
    count = (2 << 20) // value_bytes
    whole = pa.table({"value": pa.array([b"v" * value_bytes] * count, pa.binary())})
    assert parts_of(whole, ProducerBench()) == [count]


@pytest.mark.parametrize(
    ("configs", "settings", "limit"),
    [
        ({}, {}, (2 << 20) * 5 // 4),
        ({"max.message.bytes": "1100000"}, {}, 1_100_000),
        ({"max.message.bytes": "8192"}, {}, 8_192),
        ({}, {"batch_bytes_max": 4 << 20}, 4 << 20),
        ({}, {"batch_bytes_max": 8 << 20}, 8 << 20),
        ({"max.message.bytes": "12000000"}, {"batch_bytes_max": 8 << 20}, (8 << 20) * 5 // 4),
        ({}, {"batch_bytes_max": 1 << 20, "buffer_memory_bytes": 1 << 20}, 1 << 20),
    ],
)
def test_a_batch_of_rows_is_never_larger_than_the_topic_or_the_buffer_allows(
    configs: dict[str, str], settings: dict[str, Any], limit: int
) -> None:
    bench = ProducerBench(configs=configs, **settings)
    assert bench.core.rows_limit(bench.home) == limit


def test_a_row_that_no_batch_of_rows_can_hold_is_refused() -> None:
    bench = ProducerBench(batch_bytes_max=8_192)
    row = rows_of(pa.table({"value": [b"v" * 10_000]}), now_us=1)
    ((part, size_bytes),) = cut(row, bench.core.rows_limit(bench.home))
    with pytest.raises(RecordTooLargeError, match="over the limit of 10240 bytes a batch"):
        bench.core.append_arrow(bench.home.queues[0], part, size_bytes, bench.now_ms)
