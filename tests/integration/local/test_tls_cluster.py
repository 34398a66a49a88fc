"""A cluster whose processes all use TLS: it works as any other, and lets nobody in without a certificate."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hightide import Admin, Consumer, Producer
from hightide.errors import TlsRefusedError
from hightide_local.certificates import CertificateAuthority
from hightide_local.cluster import ClusterError, LocalCluster
from hightide_local.cluster_certificates import TLS_VARIABLES
from hightide_local.detached import down, find, up

pytestmark = pytest.mark.cluster

RECORDS = 300
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("tls"), coordinators=2, tls=True) as started:
        yield started


@pytest.fixture(autouse=True)
def client_certificate(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All clients of the test use the cluster's certificate for clients, unless they are given another."""
    for name, value in cluster.client_environment.items():
        monkeypatch.setenv(name, value)
    yield
    cluster.restore()


def values(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def send(cluster: LocalCluster, topic: str, sent: list[bytes]) -> None:
    """Send these values with acks=all; returns when all are acknowledged."""
    with Producer(cluster.bootstrap, acks="all") as producer:
        deliveries = [producer.send(topic, value) for value in sent]
        producer.flush()
        for delivery in deliveries:
            delivery.result(PATIENCE_S)


def read_by_group(cluster: LocalCluster, topic: str, group: str, count: int) -> list[bytes]:
    """What a new group reads, until it has read `count` records."""
    read: list[bytes] = []
    with Consumer(cluster.bootstrap, group=group, topics=[topic], offset_reset="earliest") as consumer:
        while len(read) < count:
            read.extend(record.value or b"" for record in consumer.poll(1.0))
    return read


def test_nothing_is_lost_when_a_leader_dies_under_tls(cluster: LocalCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("flights", 1, 3, configs={"min.insync.replicas": "2"})
    send(cluster, "flights", values(0, RECORDS))
    leader = cluster.leader_of("flights")
    cluster.kill(leader)
    send(cluster, "flights", values(RECORDS, RECORDS))
    assert cluster.leader_of("flights") != leader
    cluster.restart(leader)
    # The controller's link, the follower's fetches, the coordinator's streams: all of them with TLS.
    cluster.wait_isr("flights")
    read = read_by_group(cluster, "flights", "readers", 2 * RECORDS)
    assert read == values(0, 2 * RECORDS)


def test_a_broker_that_is_told_to_stop_hands_over_its_leadership_under_tls(cluster: LocalCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("handed-over", 1, 3)
    send(cluster, "handed-over", values(0, 1))
    leader = cluster.leader_of("handed-over")
    cluster.terminate(leader)
    assert "leadership handed over in" in cluster.log_tail(leader)
    assert "did not take over" not in cluster.log_tail(leader)


def test_another_controller_takes_over_at_once_under_tls(cluster: LocalCluster) -> None:
    """The standby sees the death by its stream, long before the session of the dead one ends."""
    active = cluster.active_controller()
    cluster.kill(active)
    other = cluster.active_controller()
    assert other != active
    assert "is dead" in cluster.log_tail(other, 200)


def test_a_client_without_a_certificate_is_refused_by_every_process(cluster: LocalCluster) -> None:
    assert cluster.certificates is not None
    ca = cluster.certificates.client.ca.read_bytes()
    for name in cluster.names[1:]:
        with grpc.secure_channel(cluster.address_of(name), grpc.ssl_channel_credentials(ca)) as channel:
            with pytest.raises(grpc.RpcError) as refused:
                health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_the_sdk_says_why_a_client_is_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    assert cluster.certificates is not None
    ca = str(cluster.certificates.client.ca)
    with pytest.raises(TlsRefusedError) as refused, Admin(cluster.bootstrap, tls_ca=ca) as admin:
        admin.list_topics()
    assert "asks for a certificate of this client" in str(refused.value)
    mallory = CertificateAuthority.create(tmp_path).issue("client/alice", [], tmp_path)
    certificate, key = str(mallory.certificate), str(mallory.key)
    with (
        pytest.raises(TlsRefusedError) as refused,
        Admin(cluster.bootstrap, tls_ca=ca, tls_certificate=certificate, tls_key=key) as admin,
    ):
        admin.list_topics()
    assert "refuses the certificate of this client" in str(refused.value)


def test_a_running_cluster_takes_new_certificates_without_a_restart(cluster: LocalCluster) -> None:
    """All certificates are issued anew; then a new client reads, and a new leader is followed."""
    assert cluster.certificates is not None
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("renewed", 1, 3)
    send(cluster, "renewed", values(0, RECORDS))
    before = cluster.running()
    for name in cluster.names[1:]:
        cluster.certificates.issue(name.replace("-", "/"))
    send(cluster, "renewed", values(RECORDS, RECORDS))
    cluster.kill(cluster.leader_of("renewed"))
    send(cluster, "renewed", values(2 * RECORDS, RECORDS))
    assert read_by_group(cluster, "renewed", "renewed", 3 * RECORDS) == values(0, 3 * RECORDS)
    killed = before.keys() - cluster.running().keys()
    assert len(killed) == 1
    assert {name: pid for name, pid in before.items() if name not in killed} == cluster.running()


def test_a_detached_cluster_is_found_again_with_its_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "detached"
    try:
        started = up(directory, brokers=1, controllers=1, tls=True)
        with pytest.raises(ClusterError, match="0 coordinators with TLS runs in"):
            up(directory, brokers=1, controllers=1)
        found = find(directory)
        assert found.client_environment == started.client_environment
        for name, value in found.client_environment.items():
            monkeypatch.setenv(name, value)
        found.wait_ready()
        with Admin(found.bootstrap) as admin:
            admin.create_topic("here", 1, 1)
            assert [str(name) for name in admin.list_topics()] == ["here"]
    finally:
        down(directory, delete=True)


def test_commands_find_the_cluster_of_dev_up_with_its_certificates(tmp_path: Path) -> None:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("HIGHTIDE_")}
    environment = {**ours, "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}

    def hightide(line: str) -> str:
        command = [sys.executable, "-m", "hightide_cli.main", *line.split()]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    try:
        printed = hightide("dev up --tls --brokers 1 --controllers 1 --coordinators 0")
        assert all(f"export {name}=" in printed for name in TLS_VARIABLES)
        hightide("topic create here -p 1 -r 1")
        assert "here" in hightide("topic ls")
    finally:
        hightide("dev down --delete")
