"""The controller with real brokers: what it decides, they act on."""

from __future__ import annotations

import time
from collections.abc import Callable

import grpc
import pytest
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import controller_service_pb2_grpc as controller_grpc
from hightide.v1 import metadata_pb2
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S
from hightide_local.pytest_plugin import ClusterFactory
from integration.controller.controller_harness import CALL_S

pytestmark = pytest.mark.cluster

Partitions = list[metadata_pb2.PartitionMetadata]


class Operator:
    """Asks whichever controller is active."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self._channels = {name: grpc.insecure_channel(at) for name, at in cluster.controllers.items()}

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()

    def create(self, topic: str) -> None:
        request = controller_pb2.CreateTopicRequest(topic=topic, partition_count=6, replication_factor=3)
        self._active().CreateTopic(request, timeout=CALL_S)

    def describe(self) -> controller_pb2.DescribeClusterResponse:
        request = controller_pb2.DescribeClusterRequest()
        return self._active().DescribeCluster(request, timeout=CALL_S)

    def wait(self, topic: str, condition: Callable[[Partitions], bool]) -> None:
        """Until all is so; each look waits for an answer, so that this does not spin."""
        deadline = time.monotonic() + HEALED_S
        while True:
            request = controller_pb2.DescribeTopicsRequest(topics=[topic])
            (described,) = self._active().DescribeTopics(request, timeout=CALL_S).topics
            if condition(list(described.partitions)):
                return
            assert time.monotonic() < deadline, described

    def _active(self) -> controller_grpc.ControllerServiceStub:
        deadline = time.monotonic() + HEALED_S
        while True:
            for channel in self._channels.values():
                stub = controller_grpc.ControllerServiceStub(channel)
                try:
                    stub.DescribeCluster(controller_pb2.DescribeClusterRequest(), timeout=CALL_S)
                except grpc.RpcError:
                    continue
                return stub
            assert time.monotonic() < deadline, "no controller is active"


def gone(broker_id: int) -> Callable[[Partitions], bool]:
    def holds(partitions: Partitions) -> bool:
        return all(p.leader not in (-1, broker_id) and broker_id not in p.isr for p in partitions)

    return holds


def all_in_sync(partitions: Partitions) -> bool:
    return all(p.leader >= 0 and len(p.isr) == 3 for p in partitions)


def test_brokers_go_and_come_back_under_two_controllers(hightide_cluster_factory: ClusterFactory) -> None:
    cluster = hightide_cluster_factory(session_timeout_ms=30_000)
    operator = Operator(cluster)
    operator.create("flights")
    operator.wait("flights", all_in_sync)

    killed_at = time.monotonic()
    cluster.kill("broker-1")
    operator.wait("flights", gone(1))
    assert time.monotonic() - killed_at < 20, "sooner than the session expires"
    cluster.restart("broker-1")
    operator.wait("flights", all_in_sync)

    cluster.terminate("broker-2")
    operator.wait("flights", gone(2))
    cluster.restart("broker-2")
    operator.wait("flights", all_in_sync)

    active = cluster.active_controller()
    epoch = operator.describe().controller_epoch
    cluster.kill(active)
    assert operator.describe().controller_epoch == epoch + 1
    cluster.restart(active)

    for broker_id in (1, 2, 3):
        cluster.kill(f"broker-{broker_id}")
    for broker_id in (1, 2, 3):
        cluster.restart(f"broker-{broker_id}", wait=False)
    # They are registered in their new lives then; ISRs may be as they were before anybody saw the deaths.
    cluster.wait_ready(HEALED_S)
    operator.wait("flights", all_in_sync)
    summary = operator.describe()
    assert (summary.offline_partition_count, summary.under_replicated_partition_count) == (0, 0)
    assert [broker.alive for broker in summary.brokers] == [True, True, True]
    operator.close()
