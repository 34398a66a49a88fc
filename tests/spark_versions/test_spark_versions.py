"""Each Spark 4 writes, reads and streams, in an environment of its own that `make spark-versions` has made.

Not in `make test`: each environment is a download of 450 MB. What these tests show is, as far as it can be
without another Spark, in tests/unit/spark/test_spark_versions.py too.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hightide import Admin
from hightide.records import TopicPartition
from hightide_local.cluster import LocalCluster
from hightide_local.processes.spark_java import SHORT_LIVED, spark_java_home
from spark_versions.environments import Environment, environments

PROGRAM = Path(__file__).with_name("version_program.py")
ROWS = 2_000
WITHIN_S = 600.0

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def found_by(environment: Environment, cluster: LocalCluster, topics: list[str], scratch: Path) -> Any:
    """What the program finds in this environment."""
    variables = environment.variables() | {
        "JAVA_HOME": str(spark_java_home()),
        "JDK_JAVA_OPTIONS": SHORT_LIVED,
    }
    command = [
        *(str(environment.python), str(PROGRAM), "--bootstrap", cluster.bootstrap),
        *("--first", topics[0], "--second", topics[1], "--scratch", str(scratch)),
    ]
    run = subprocess.run(
        command, env=variables, cwd=scratch, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert run.returncode == 0, run.stderr[-6000:]
    for ignored in ("a stream from hightide ignores kafka.max.poll.records", "ignores kafka.linger.ms"):
        assert ignored in run.stderr, "an option that is ignored is worth a warning"
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("environment", environments(), ids=str)
def test_every_row_arrives_once_and_what_this_spark_lacks_is_refused(
    environment: Environment, hightide_cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster = hightide_cluster
    topics = [f"{name}-{environment}" for name in ("first", "second")]
    with Admin(cluster.bootstrap) as admin:
        for name in topics:
            admin.create_topic(name, 2, len(cluster.brokers))
    found = found_by(environment, cluster, topics, tmp_path)

    once = {"rows": 2 * ROWS, "values": 2 * ROWS, "timely": 2 * ROWS}
    assert found["spark"] == environment.version
    assert (found["first"], found["second"]) == (once, once)
    assert found["batches"] == [[ROWS], [ROWS]]
    limit = "option maxOffsetsPerTrigger needs Spark 4.2 or later" if environment.minor < 2 else ""
    pushdown = "option pushdown needs Spark 4.1 or later" if environment.minor < 1 else ""
    assert found["limit_refused"][: len(limit) or None] == limit, found["limit_refused"]
    assert found["pushdown_refused"][: len(pushdown) or None] == pushdown, found["pushdown_refused"]
    with Admin(cluster.bootstrap) as admin:
        lag = {each.partition: each.lag for each in admin.group_lag("copier")}
    # Spark 4.0 and 4.1 do not ask at the end of AvailableNow: a group knows the end of the run before.
    behind = ROWS if environment.minor < 2 else 0
    assert sum(lag[TopicPartition(topics[0], number)] or 0 for number in (0, 1)) == behind
