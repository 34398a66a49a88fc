"""Topics are archived once: over runs, over a micro-batch that is done again, and over a compaction."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from flight_topics import flights, forget_from, write_rows
from hightide.errors import UnknownTopicError
from hightide_local.cluster import LocalCluster
from hightide_spark.pipelines.archive import CHECKPOINT, archive, check, compact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_record_is_archived_once_whatever_is_done_again(
    spark: "SparkSession", cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    rows = flights()
    write_rows(cluster.bootstrap, topic, rows[:3_000])
    archive(spark, cluster.bootstrap, tmp_path, {"subscribe": topic, "maxOffsetsPerTrigger": "2000"})
    first = check(tmp_path)
    assert (first.records, first.files, first.flaws) == ({topic: 3_000}, 4, ())
    write_rows(cluster.bootstrap, topic, rows[3_000:])
    forget_from(tmp_path / CHECKPOINT, 1)
    archive(spark, cluster.bootstrap, tmp_path, {"subscribe": topic})
    second = check(tmp_path)
    assert (second.records, second.files, second.flaws) == ({topic: len(rows)}, 6, ())

    with pytest.raises(UnknownTopicError):
        archive(spark, cluster.bootstrap, tmp_path, {"subscribe": f"{topic}, not-there"})
    assert compact(spark, tmp_path, 10_000_000) == 6
    merged = check(tmp_path)
    assert (merged.records, merged.files, merged.flaws) == ({topic: len(rows)}, 2, ())
    found = spark.read.parquet(str(tmp_path)).select("topic", "key", "value").collect()
    assert {each.topic for each in found} == {topic}
    written = sorted((row.key, row.value) for row in rows)
    assert sorted((bytes(each.key), bytes(each.value)) for each in found) == written
