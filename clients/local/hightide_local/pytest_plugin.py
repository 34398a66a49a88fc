"""Fixtures for tests against a real cluster: `pytest_plugins = ["hightide_local.pytest_plugin"]`."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from hightide_local.cluster import LocalCluster

#: Takes the options of LocalCluster, and returns it running and ready.
ClusterFactory: TypeAlias = Callable[..., LocalCluster]


@pytest.fixture(scope="session")
def hightide_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of 3 brokers, 2 controllers and a coordinator for all tests of the session. Leave it as you
    found it."""
    with LocalCluster(tmp_path_factory.mktemp("hightide"), coordinators=1) as cluster:
        yield cluster


@pytest.fixture
def hightide_cluster_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterFactory]:
    """Makes clusters that belong to one test, which may do to them what it likes; stopped after it."""
    clusters: list[LocalCluster] = []

    def start(**options: Any) -> LocalCluster:
        directory = options.pop("directory", None) or tmp_path_factory.mktemp("hightide")
        cluster = LocalCluster(directory, **options)
        clusters.append(cluster)
        cluster.start()
        return cluster

    yield start
    for cluster in clusters:
        cluster.stop()


@pytest.fixture
def hightide_topic(hightide_cluster: LocalCluster) -> str:
    """The name of a new topic of the shared cluster: one partition, on all brokers."""
    from hightide import Admin

    topic = f"test-{uuid.uuid4().hex}"
    with Admin(hightide_cluster.bootstrap) as admin:
        admin.create_topic(topic, partitions=1, replication_factor=len(hightide_cluster.brokers))
    return topic
