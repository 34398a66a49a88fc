"""A leader that is paused, or whose machine is gone, while its session in ZooKeeper lives: pings tell."""

from __future__ import annotations

import pytest
from hightide_local.histories.anomalies import READS_OF_A_DEPOSED_LEADER
from hightide_local.histories.drill import HEALED_S, FaultDrill
from hightide_local.histories.waiting import wait_until
from hightide_local.pytest_plugin import ClusterFactory


@pytest.mark.cluster
def test_a_paused_leader_is_replaced_while_its_session_lives_and_follows_when_it_goes_on(
    hightide_cluster_factory: ClusterFactory,
) -> None:
    # A session that outlasts the test.
    cluster = hightide_cluster_factory(session_timeout_ms=120_000)
    with FaultDrill(cluster, "paused", request_timeout_ms=2_000, allowed=READS_OF_A_DEPOSED_LEADER) as drill:
        leader = drill.leader()
        cluster.pause(f"broker-{leader}")
        drill.wait_for_other_leaders(leader)
        drill.wait_for_progress()
        cluster.resume(f"broker-{leader}")
        drill.wait_for_isr(3)


@pytest.mark.cluster
def test_a_controller_that_reaches_no_broker_declares_none_dead(
    hightide_cluster_factory: ClusterFactory,
) -> None:
    cluster = hightide_cluster_factory(session_timeout_ms=120_000, partitionable=True)
    with FaultDrill(cluster, "deaf") as drill:
        leaders = [partition.leader for partition in drill.describe()]
        controller = cluster.active_controller()
        cluster.partition(controller, [f"broker-{number}" for number in cluster.brokers])
        wait_until(
            "the controller hears nobody",
            lambda: "too many others do not answer either" in cluster.log_tail(controller),
            HEALED_S,
        )
        drill.wait_for_progress()
        cluster.heal()
        assert [partition.leader for partition in drill.describe()] == leaders
        assert all(broker.alive for broker in drill.admin.describe_cluster().brokers)
