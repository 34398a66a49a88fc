"""The links of a cluster can be cut and mended, and the pytest plugin gives it to tests whole again."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide import Admin, Producer
from hightide_local.cluster import ClusterError, LocalCluster
from hightide_local.processes.network import CLIENTS, Network
from hightide_local.processes.ports import HOST, free_port

pytestmark = pytest.mark.cluster
SILENCE_S = 0.3
PATIENCE_S = 60.0


class Listener:
    """A server that hands its connections to the test, beside the network before it."""

    def __init__(self, network: Network, name: str, port: int) -> None:
        self.port = port
        self.server = socket.create_server((HOST, network.target_port(name)))
        self.server.settimeout(PATIENCE_S)

    def accept(self) -> socket.socket:
        """The next connection that says anything: the network looks, without a word, whether we listen."""
        while True:
            connection, _ = self.server.accept()
            connection.settimeout(PATIENCE_S)
            first = connection.recv(1, socket.MSG_PEEK)
            if first:
                return connection
            connection.close()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def network(tmp_path: Path, port: int) -> Iterator[Network]:
    cuttable = Network({"server": port}, tmp_path / "network.log")
    yield cuttable
    cuttable.stop()


@pytest.fixture
def listener(network: Network, port: int) -> Iterator[Listener]:
    listening = Listener(network, "server", port)
    network.start()
    yield listening
    listening.server.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=PATIENCE_S)


def hears_nothing(end: socket.socket) -> bool:
    end.settimeout(SILENCE_S)
    try:
        return not end.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        end.settimeout(PATIENCE_S)


def test_bytes_go_both_ways_through_a_whole_link(listener: Listener) -> None:
    with connected(listener.port) as client:
        client.sendall(b"question")
        with listener.accept() as server:
            assert server.recv(100) == b"question"
            server.sendall(b"answer")
            assert client.recv(100) == b"answer"


def test_a_cut_link_is_silent_and_what_waited_in_it_arrives_once_it_is_mended(
    network: Network, listener: Listener
) -> None:
    with connected(listener.port) as client:
        client.sendall(b"1")
        with listener.accept() as server:
            assert server.recv(1) == b"1"
            network.cut([CLIENTS], ["server"], one_way=False)
            client.sendall(b"2")
            server.sendall(b"3")
            assert hears_nothing(server)
            assert hears_nothing(client)
            network.heal()
            assert server.recv(1) == b"2"
            assert client.recv(1) == b"3"


def test_a_link_can_be_cut_one_way(network: Network, listener: Listener) -> None:
    with connected(listener.port) as client:
        client.sendall(b"1")
        with listener.accept() as server:
            assert server.recv(1) == b"1"
            network.cut([CLIENTS], ["server"], one_way=True)
            client.sendall(b"2")
            server.sendall(b"3")
            assert client.recv(1) == b"3"
            assert hears_nothing(server)


def test_a_connection_made_in_a_cut_is_answered_by_nobody_until_it_is_mended(
    network: Network, listener: Listener
) -> None:
    network.cut([CLIENTS], ["server"], one_way=False)
    with connected(listener.port) as client:
        client.sendall(b"early")
        assert hears_nothing(client)
        network.heal()
        with listener.accept() as server:
            assert server.recv(100) == b"early"


def test_where_nobody_listens_any_more_a_connection_is_refused_as_soon_as_the_last_one_was_reset(
    listener: Listener,
) -> None:
    with connected(listener.port) as client:
        client.sendall(b"1")
        server = listener.accept()
        listener.server.close()
        server.close()
        assert client.recv(100) in (b"1", b"")
        with pytest.raises(ConnectionRefusedError):
            connected(listener.port)


def test_a_port_that_refuses_ends_what_was_connected_and_is_open_again_once_it_is_mended(
    network: Network, listener: Listener
) -> None:
    with connected(listener.port) as client:
        client.sendall(b"1")
        with listener.accept() as server:
            assert server.recv(1) == b"1"
            network.refuse(["server"])
            assert client.recv(1) == b""
            with pytest.raises(ConnectionRefusedError):
                connected(listener.port)
    network.heal()
    with connected(listener.port) as client:
        client.sendall(b"2")
        with listener.accept() as server:
            assert server.recv(1) == b"2"


def test_a_leader_that_is_cut_off_from_everybody_is_replaced_and_comes_back_as_a_follower(
    hightide_cluster: LocalCluster, hightide_topic: str
) -> None:
    with Producer(hightide_cluster.bootstrap) as producer:
        producer.send(hightide_topic, value=b"before").result(PATIENCE_S)
        leader = hightide_cluster.leader_of(hightide_topic)
        hightide_cluster.partition(leader)
        after = producer.send(hightide_topic, value=b"while it is away")
        assert after.result(PATIENCE_S).offset == 1
    assert hightide_cluster.leader_of(hightide_topic) != leader
    hightide_cluster.heal()
    hightide_cluster.wait_isr(hightide_topic)


def test_a_follower_that_is_cut_off_from_its_leader_alone_leaves_the_isr_and_returns(tmp_path: Path) -> None:
    with (
        LocalCluster(tmp_path, partitionable=True, replica_lag_time_max_ms=1_000) as cluster,
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as producer,
    ):
        admin.create_topic("flights", partitions=1, replication_factor=3)
        leader = cluster.leader_of("flights")
        follower = next(f"broker-{each}" for each in cluster.brokers if f"broker-{each}" != leader)
        cluster.partition(follower, leader)
        # It lags behind from here on; as long as nothing is written, it is as good as the others.
        producer.send("flights", value=b"acknowledged by the other two").result(30)
        cluster.wait_isr("flights", size=2)
        assert cluster.leader_of("flights") == leader
        cluster.heal()
        cluster.wait_isr("flights")


def test_a_topic_that_does_not_exist_is_not_waited_for(hightide_cluster: LocalCluster) -> None:
    with pytest.raises(ClusterError, match="no topic 'nope'"):
        hightide_cluster.wait_isr("nope")


def test_a_cluster_without_its_network_says_how_to_have_one(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=1, controllers=1)
    with pytest.raises(ClusterError, match="partitionable=True"):
        cluster.partition("broker-1")
    with pytest.raises(ClusterError, match="no process 'broker-7'"):
        cluster.partition("broker-7")


PROJECT = """
from hightide import Admin, Producer

def test_one_kills_the_leader_and_pauses_a_controller(hightide_cluster, hightide_topic):
    hightide_cluster.kill(hightide_cluster.leader_of(hightide_topic))
    hightide_cluster.pause("controller-1")
    assert len(hightide_cluster.running()) == 4  # ZooKeeper, 2 brokers and a controller, which stands still

def test_the_next_one_finds_the_cluster_whole(hightide_cluster, hightide_topic):
    assert len(hightide_cluster.running()) == 5
    hightide_cluster.wait_isr(hightide_topic)
    with Producer(hightide_cluster.bootstrap) as producer:
        assert producer.send(hightide_topic, value=b"hello").result(30).offset == 0

def test_one_fails(hightide_cluster):
    assert False
"""


def test_a_project_gets_the_fixtures_by_installing_the_package(tmp_path: Path) -> None:
    tmp_path.joinpath("test_of_a_user.py").write_text(PROJECT)
    tmp_path.joinpath("pytest.ini").write_text(
        "[pytest]\nhightide_coordinators = 0\nhightide_controllers = 1\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=tmp_path,
    )
    assert "2 passed" in run.stdout, run.stdout
    assert "1 failed" in run.stdout, run.stdout
    assert "hightide cluster" in run.stdout
    assert "logs: " in run.stdout
