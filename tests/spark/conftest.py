"""One Spark session and one cluster for all tests of this directory that start none of their own."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hightide import Admin
from hightide_local.cluster import LocalCluster
from hightide_local.processes.spark_java import SHORT_LIVED, spark_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark takes its time."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def java_home() -> Iterator[str]:
    """The Java that Spark runs on, as JAVA_HOME of this process and of those that it starts."""
    home = str(spark_java_home())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", home)
        patch.setenv("JDK_JAVA_OPTIONS", SHORT_LIVED)
        yield home


@pytest.fixture(scope="session")
def spark(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A session with two threads, for the whole run. Leave its settings as you found them."""
    from hightide_spark.session import spark_session

    directory = tmp_path_factory.mktemp("spark")
    session = spark_session(
        "tests",
        master="local[2]",
        defaults={
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.local.dir": str(directory / "local"),
            "spark.sql.shuffle.partitions": "2",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(hightide_cluster: LocalCluster) -> LocalCluster:
    """Three brokers, two controllers, a coordinator, for the whole run. Leave them running, all of them."""
    return hightide_cluster


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    """A new topic of two partitions, each on all brokers."""
    name = f"spark-{uuid.uuid4().hex}"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=2, replication_factor=len(cluster.brokers))
    return name
