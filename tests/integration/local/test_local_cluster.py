"""A whole cluster on this machine, with the real brokers and controllers."""

import time

import pytest
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_local.pytest_plugin import ClusterFactory
from hightide_local.traces.trace_lookup import failovers

pytestmark = pytest.mark.cluster
SESSION_S = 60
TRACED_S = 60.0


def test_three_brokers_and_two_controllers_are_ready_soon(hightide_cluster_factory: ClusterFactory) -> None:
    # 2.5 to 4 s on 2 cores; a start that waits for the end of a session takes longer than one.
    started_s = time.monotonic()
    cluster = hightide_cluster_factory(session_timeout_ms=SESSION_S * 1_000)
    assert time.monotonic() - started_s < SESSION_S
    assert list(cluster.brokers) == [1, 2, 3]
    assert cluster.active_controller() in cluster.running()


def test_brokers_and_controllers_can_be_killed_and_come_back(
    hightide_cluster_factory: ClusterFactory,
) -> None:
    cluster = hightide_cluster_factory()
    cluster.kill("broker-2")
    cluster.restart("broker-2")
    active = cluster.active_controller()
    cluster.kill(active)
    assert cluster.active_controller() != active
    cluster.restart(active)
    cluster.kill("zookeeper")
    cluster.restart("zookeeper")
    assert set(cluster.running()) == set(cluster.names)


def test_the_death_of_a_controller_is_a_trace(hightide_cluster_factory: ClusterFactory) -> None:
    cluster: LocalCluster = hightide_cluster_factory(brokers=1)
    active = cluster.active_controller()

    def takeovers() -> int:
        names = [trace.roots[0].span.name for trace in failovers(cluster.trace_directory)]
        return names.count("controller_failover")

    before = takeovers()
    cluster.kill(active)
    wait_until("the takeover is traced", lambda: takeovers() == before + 1, TRACED_S)


def test_a_topic_for_one_test_is_there_when_the_test_begins(
    hightide_cluster: LocalCluster, hightide_topic: str
) -> None:
    from hightide import Admin

    with Admin(hightide_cluster.bootstrap) as admin:
        assert hightide_topic in str(admin.list_topics())
