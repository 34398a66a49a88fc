"""Attacks on a whole cluster with TLS, by callers whose certificates are of its CA: a client, and a broker
that speaks for others. The records and the leaders stay, and a producer beside them does not notice."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from hightide import Admin, Consumer, Producer, TopicPartition
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide.v1.broker_control_service_pb2_grpc import BrokerControlServiceStub
from hightide.v1.broker_service_pb2_grpc import BrokerServiceStub
from hightide.v1.controller_service_pb2_grpc import ControllerServiceStub
from hightide.v1.replica_service_pb2_grpc import ReplicaServiceStub
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster

CALL_S = 60.0
RECORDS = 10
EPOCH_MAX = 2**31 - 1
#: A client, and a broker that speaks for others.
ATTACKERS = ("client/mallory", "broker/1")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("attacked"), controllers=2, tls=True) as started:
        assert started.certificates is not None
        started.certificates.issue("client/mallory")
        yield started


@pytest.fixture(autouse=True)
def client_certificate(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clients of a test that are no attackers use the cluster's certificate for clients."""
    for name, value in cluster.client_environment.items():
        monkeypatch.setenv(name, value)
    yield
    cluster.restore()


def credentials_of(cluster: LocalCluster, identity: str) -> grpc.ChannelCredentials:
    assert cluster.certificates is not None
    ca: Path = cluster.certificates.client.ca
    path = ca.with_name(identity.replace("/", "-"))
    read = [each.read_bytes() for each in (ca, path.with_suffix(".key"), path.with_suffix(".crt"))]
    return grpc.ssl_channel_credentials(*read)


def ask(cluster: LocalCluster, caller: str, address: str, stub: Any, method: str, request: Message) -> Any:
    with grpc.secure_channel(address, credentials_of(cluster, caller)) as channel:
        return getattr(stub(channel), method)(request, timeout=CALL_S, wait_for_ready=True)


def refusal_of(
    cluster: LocalCluster, caller: str, process: str, stub: Any, method: str, request: Message
) -> None:
    """Make a call that is refused, and find its line in the process's audit log."""
    with pytest.raises(grpc.RpcError) as refused:
        ask(cluster, caller, cluster.address_of(process), stub, method, request)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert (refused.value.details() or "").startswith(f"{caller} may not call ")
    assert (caller, method) in [
        (line["who"], line["method"].rpartition("/")[2]) for line in denials(cluster, process)
    ]


def denials(cluster: LocalCluster, process: str) -> list[dict[str, Any]]:
    marked = " hightide.audit: "
    lines = (
        line.partition(marked)[2] for line in cluster.log_tail(process, 500).splitlines() if marked in line
    )
    return [line for line in map(json.loads, lines) if not line["allowed"] and "who" in line]


def described(cluster: LocalCluster) -> controller_pb2.DescribeClusterResponse:
    address = cluster.address_of(cluster.active_controller())
    answer: controller_pb2.DescribeClusterResponse = ask(
        cluster,
        "client/local",
        address,
        ControllerServiceStub,
        "DescribeCluster",
        controller_pb2.DescribeClusterRequest(),
    )
    return answer


def metadata_of(cluster: LocalCluster, topic: str) -> Any:
    request = broker_pb2.GetMetadataRequest(topics=[topic])
    told = ask(cluster, "client/local", cluster.brokers[1], BrokerServiceStub, "GetMetadata", request)
    return told.topics[0]


def created(cluster: LocalCluster, topic: str) -> str:
    """A topic that acknowledges what two replicas have; and the leader's name."""
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(topic, 1, 3, configs={"min.insync.replicas": "2"})
    return cluster.leader_of(topic)


def send(cluster: LocalCluster, topic: str, first: int, between: Callable[[], None] = lambda: None) -> None:
    with Producer(cluster.bootstrap, acks="all") as producer:
        for number in range(first, first + RECORDS):
            producer.send(topic, b"%d" % number).result(CALL_S)
            between()


def read(cluster: LocalCluster, topic: str, count: int) -> list[bytes]:
    values: list[bytes] = []
    with Consumer(cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(values) < count:
            values.extend(record.value or b"" for record in consumer.poll(1.0))
    return values


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_a_fetch_under_a_forged_replica_id_acknowledges_nothing(cluster: LocalCluster, attacker: str) -> None:
    topic = f"forged-{attacker.partition('/')[0]}"
    leader = created(cluster, topic)
    epochs = {each.endpoint.id: each.broker_epoch for each in described(cluster).brokers}
    cluster_id = described(cluster).cluster_id
    topic_id = metadata_of(cluster, topic).topic_id

    def attack() -> None:
        for replica_id in (2, 3):
            forged = replica_pb2.ReplicaFetchRequest(
                cluster_id=cluster_id,
                replica_id=replica_id,
                broker_epoch=epochs[replica_id],
                moved=[
                    replica_pb2.ReplicaFetchPartition(topic_id=topic_id, fetch_offset=RECORDS, leader_epoch=1)
                ],
            )
            refusal_of(cluster, attacker, leader, ReplicaServiceStub, "ReplicaFetch", forged)

    send(cluster, topic, 0, attack)
    cluster.kill(leader)
    assert read(cluster, topic, RECORDS) == [b"%d" % number for number in range(RECORDS)]


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_nobody_but_the_controller_stops_replicas_and_nobody_shuts_other_brokers_down(
    cluster: LocalCluster, attacker: str
) -> None:
    topic = f"stopped-{attacker.partition('/')[0]}"
    leader = created(cluster, topic)
    send(cluster, topic, 0)
    before = described(cluster)
    stamp = control_pb2.ControllerStamp(
        cluster_id=before.cluster_id, controller_id=before.controller.id, controller_epoch=EPOCH_MAX
    )
    stop = control_pb2.StopReplicaPartition(
        topic=topic, topic_id=metadata_of(cluster, topic).topic_id, leader_epoch=EPOCH_MAX, delete=True
    )
    active = cluster.active_controller()
    for broker in before.brokers:
        stamp.broker_epoch = broker.broker_epoch
        delete = control_pb2.StopReplicaRequest(stamp=stamp, partitions=[stop])
        name = f"broker-{broker.endpoint.id}"
        refusal_of(cluster, attacker, name, BrokerControlServiceStub, "StopReplica", delete)
        if attacker != f"broker/{broker.endpoint.id}":
            shut = controller_pb2.ControlledShutdownRequest(
                broker_id=broker.endpoint.id, broker_epoch=broker.broker_epoch
            )
            refusal_of(cluster, attacker, active, ControllerServiceStub, "ControlledShutdown", shut)
    send(cluster, topic, RECORDS)
    assert cluster.leader_of(topic) == leader
    assert [each.alive for each in described(cluster).brokers] == [True] * 3
    assert len(read(cluster, topic, 2 * RECORDS)) == 2 * RECORDS


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_a_controller_epoch_that_no_controller_has_deposes_nobody(
    cluster: LocalCluster, attacker: str
) -> None:
    before = described(cluster)
    for broker in before.brokers:
        update = control_pb2.UpdateMetadataRequest(
            stamp=control_pb2.ControllerStamp(
                cluster_id=before.cluster_id,
                controller_id=before.controller.id,
                controller_epoch=EPOCH_MAX,
                broker_epoch=broker.broker_epoch,
            ),
            full=True,
        )
        name = f"broker-{broker.endpoint.id}"
        refusal_of(cluster, attacker, name, BrokerControlServiceStub, "UpdateMetadata", update)
    created(cluster, f"decided-{attacker.partition('/')[0]}")
    after = described(cluster)
    assert (after.controller.id, after.controller_epoch) == (before.controller.id, before.controller_epoch)
