"""What is archived comes back once and per key in its order, also when a replay is begun again."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flight_topics import by_key, flights, read_back, write_rows
from hightide import Admin
from hightide_local.cluster import LocalCluster
from hightide_spark.pipelines.archive import archive
from hightide_spark.pipelines.replay import plan_replay, replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_replay_that_was_interrupted_writes_what_is_missing(
    spark: "SparkSession", cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    rows = flights()
    write_rows(cluster.bootstrap, topic, rows)
    archive(spark, cluster.bootstrap, tmp_path, {"subscribe": topic, "maxOffsetsPerTrigger": "2000"})
    target = f"{topic}-again"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(target, partitions=3, replication_factor=3)
    plan = plan_replay(tmp_path, topic, None)
    assert plan.record_count == len(rows)

    begun = replace(plan, paths=tuple(paths[:1] for paths in plan.paths))
    replay(spark, cluster.bootstrap, begun, target)
    assert 0 < len(read_back(cluster.bootstrap, target)) < len(rows)
    for _ in range(2):
        replay(spark, cluster.bootstrap, plan, target)
        back = read_back(cluster.bootstrap, target)
        assert len(back) == len(rows)
        assert by_key(back) == by_key(rows)
    times = {(each.value, each.timestamp_us) for each in read_back(cluster.bootstrap, topic)}
    assert {(each.value, each.timestamp_us) for each in back} == times
