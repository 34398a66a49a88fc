"""A cluster that listens twice everywhere: who comes in from outside is told of that side only."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import coordinator_service_pb2 as coordinator_pb2
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide.v1.broker_control_service_pb2_grpc import BrokerControlServiceStub
from hightide.v1.broker_service_pb2_grpc import BrokerServiceStub
from hightide.v1.controller_service_pb2_grpc import ControllerServiceStub
from hightide.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from hightide.v1.replica_service_pb2_grpc import ReplicaServiceStub
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from integration.sdk import outside_client, outside_listener

pytestmark = pytest.mark.cluster

INSIDE, OUTSIDE = "127.0.0.1", outside_listener.OUTSIDE
GROUP = "travellers"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    def program(module: str) -> tuple[str, ...]:
        return sys.executable, outside_listener.__file__, module

    with LocalCluster(
        tmp_path_factory.mktemp("outside"),
        brokers=2,
        controllers=2,
        coordinators=2,
        broker_program=program("hightide_broker.main"),
        controller_program=program("hightide_controller.main"),
        coordinator_program=program("hightide_coordinator.main"),
    ) as running:
        running.active_coordinator()
        yield running


def seen_from(side: str, address: str) -> str:
    return f"{side}:{address.rpartition(':')[2]}"


def ask(stub: Any, address: str, method: str, request: Message) -> Any:
    with grpc.insecure_channel(address) as channel:
        return getattr(stub(channel), method)(request, timeout=30, wait_for_ready=True)


def test_a_client_from_outside_finds_everything_outside(cluster: LocalCluster, tmp_path: Path) -> None:
    """It creates a topic, produces, reads in a group, describes both; and is connected to nobody inside."""
    bootstrap = seen_from(OUTSIDE, cluster.brokers[1])
    run = subprocess.run(
        [sys.executable, outside_client.__file__, bootstrap, "flights"],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["read"] == outside_client.RECORDS
    assert {told.rpartition(":")[0] for told in report["told"]} == {OUTSIDE}
    assert len(report["told"]) == 3
    assert report["hosts"] == [OUTSIDE]


@pytest.mark.parametrize("side", [INSIDE, OUTSIDE])
def test_each_side_is_told_its_own_addresses(cluster: LocalCluster, side: str) -> None:
    address = seen_from(side, cluster.brokers[2])
    told = ask(BrokerServiceStub, address, "GetMetadata", broker_pb2.GetMetadataRequest())
    endpoints = [*told.brokers, told.controller, *told.coordinators]
    address = seen_from(side, cluster.controllers[int(cluster.active_controller()[-1])])
    described = ask(
        ControllerServiceStub, address, "DescribeCluster", controller_pb2.DescribeClusterRequest()
    )
    endpoints += [described.controller, *(each.endpoint for each in described.brokers)]
    assert {each.host for each in endpoints} == {side}
    assert {each.external_host for each in endpoints} == {""}
    own = {f"{side}:{address.rpartition(':')[2]}" for address in cluster.brokers.values()}
    assert {f"{each.host}:{each.port}" for each in told.brokers} == own


@pytest.mark.parametrize("side", [INSIDE, OUTSIDE])
def test_those_who_stand_by_name_who_is_active_as_the_caller_reaches_it(
    cluster: LocalCluster, side: str
) -> None:
    active, standby = by_role(cluster.controllers, cluster.active_controller())
    facts = facts_once_told(
        "host",
        ControllerServiceStub,
        seen_from(side, standby),
        "CreateTopic",
        controller_pb2.CreateTopicRequest(topic="late", partition_count=1, replication_factor=1),
    )
    assert f"{facts['host']}:{facts['port']}" == seen_from(side, active)
    active, standby = by_role(cluster.coordinators, cluster.active_coordinator(GROUP))
    facts = facts_once_told(
        "coordinator_address",
        CoordinatorServiceStub,
        seen_from(side, standby),
        "DescribeGroup",
        coordinator_pb2.DescribeGroupRequest(group=GROUP),
    )
    assert facts["coordinator_address"] == seen_from(side, active)
    registration = coordinator_pb2.RegisterConsumerRequest()
    registration.registration.group = GROUP
    with grpc.insecure_channel(seen_from(side, standby)) as channel:
        stream = CoordinatorServiceStub(channel).RegisterConsumer(iter([registration]), timeout=30)
        with pytest.raises(grpc.RpcError) as refused:
            next(stream)
    assert facts_of(refused.value)["coordinator_address"] == seen_from(side, active)


@pytest.mark.parametrize(
    ("stub", "method", "request_type"),
    [
        (ReplicaServiceStub, "ReplicaFetch", replica_pb2.ReplicaFetchRequest),
        (ReplicaServiceStub, "EndOffsetForLeaderEpoch", replica_pb2.EndOffsetForLeaderEpochRequest),
        (ReplicaServiceStub, "DigestBatches", replica_pb2.DigestBatchesRequest),
        (BrokerControlServiceStub, "LeaderAndISR", control_pb2.LeaderAndISRRequest),
        (BrokerControlServiceStub, "StopReplica", control_pb2.StopReplicaRequest),
        (BrokerControlServiceStub, "UpdateMetadata", control_pb2.UpdateMetadataRequest),
        (ControllerServiceStub, "ControlledShutdown", controller_pb2.ControlledShutdownRequest),
        (ControllerServiceStub, "ReportFailedReplicas", controller_pb2.ReportFailedReplicasRequest),
    ],
)
def test_nobody_outside_speaks_for_a_broker_or_for_the_controller(
    cluster: LocalCluster, stub: Any, method: str, request_type: type[Message]
) -> None:
    """Whatever ids and epochs a request names: it is refused before it is read."""
    address = cluster.brokers[1] if stub is not ControllerServiceStub else cluster.controllers[1]
    facts = refusal_of(stub, seen_from(OUTSIDE, address), method, request_type())
    assert facts["listener"] == "external"
    assert facts["method"].endswith(f"/{method}")


def test_the_command_says_why_a_server_does_not_describe_itself_outside(cluster: LocalCluster) -> None:
    outside = seen_from(OUTSIDE, cluster.brokers[1])
    told = subprocess.run(
        [Path(sys.executable).parent / "hightide", "rpc", "ls", outside],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert told.returncode == 1
    assert f"{outside} serves no reflection" in told.stderr
    assert "--external-introspection" in told.stderr


def by_role(processes: dict[int, str], active: str) -> tuple[str, str]:
    """The addresses of the active process and of the one that stands by."""
    number = int(active.rpartition("-")[2])
    return processes[number], next(address for id_, address in processes.items() if id_ != number)


def facts_once_told(fact: str, stub: Any, address: str, method: str, request: Message) -> dict[str, str]:
    """Those of a refusal, once this one is among them: who stands by hears a moment later who is active."""
    return (
        wait_until(
            f"{fact} is told",
            lambda: facts if (facts := refusal_of(stub, address, method, request)).get(fact) else None,
            30,
        )
        or {}
    )


def refusal_of(stub: Any, address: str, method: str, request: Message) -> dict[str, str]:
    with pytest.raises(grpc.RpcError) as refused:
        ask(stub, address, method, request)
    return facts_of(refused.value)


def facts_of(error: Any) -> dict[str, str]:
    status = rpc_status.from_call(error)
    assert status is not None, error
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return dict(info.metadata)
