"""The delays of real flights are those that counting them by hand gives, and are written once."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from flight_topics import flights, forget_from, read_back, write_rows
from hightide import Admin
from hightide_bench.measuring.comparison import RecordRow
from hightide_local.cluster import LocalCluster
from hightide_spark.pipelines.delays import CHART, TABLE, DelaysPlan, delays, read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def _in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The driver's Python, and not Spark, in a time zone that must not be seen in the windows."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_in_new_york")
def test_delays_are_told_by_day_and_airport_and_once(
    spark: "SparkSession", cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    rows = flights()
    strange = [
        RecordRow(b"", b"not json"),
        RecordRow(b"", b'{"year": 2013, "month": 13}'),
        RecordRow(b"", None),
    ]
    write_rows(cluster.bootstrap, topic, [*rows[:3_000], *strange])
    target = f"{topic}-delays"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(target, partitions=2, replication_factor=3)
    plan = DelaysPlan(topic, target, tmp_path)
    report = delays(spark, cluster.bootstrap, plan, {})
    assert (report.rows, report.unreadable, report.too_late) == (3_000, len(strange), 0)
    write_rows(cluster.bootstrap, topic, rows[3_000:])
    forget_from(tmp_path / "_checkpoint", 0)
    assert delays(spark, cluster.bootstrap, plan, {}).rows == len(rows)

    parsed = [json.loads(row.value or b"") for row in rows]
    table = read_table(tmp_path / TABLE)
    assert {(each.start.day, each.origin): each.flights for each in table} == Counter(
        (each["day"], each["origin"]) for each in parsed
    )
    assert sum(each.cancelled for each in table) == sum(each["dep_delay"] is None for each in parsed)
    assert sum(each.delay_min_sum for each in table) == sum(each["dep_delay"] or 0 for each in parsed)
    assert {each.airport for each in table} == {"Newark Liberty Intl", "John F Kennedy Intl", "La Guardia"}
    assert (tmp_path / CHART).read_bytes().startswith(b"\x89PNG")

    told = read_back(cluster.bootstrap, target)
    newest = {each.key: each.value for each in sorted(told, key=lambda record: record.offset)}
    assert newest == {each.key.encode(): each.document().encode() for each in table}
    # Of the micro-batch that was done again nothing was written twice, and each record tells a change.
    assert len({(each.key, each.value) for each in told}) == len(told) > len(table)
