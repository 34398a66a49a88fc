import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hightide_local.cluster import LocalCluster
from hightide_local.errors import ClusterError
from hightide_local.layout import ClusterLayout, FirstPorts
from hightide_local.processes.ports import HOST, free_port, is_free


def layout_of(directory: Path, brokers: int = 3, controllers: int = 2) -> ClusterLayout:
    return ClusterLayout.of(directory, brokers, controllers, FirstPorts())


def test_all_ports_are_different_and_outside_of_what_the_kernel_gives_to_clients(tmp_path: Path) -> None:
    ports = layout_of(tmp_path, 9, 5).ports
    assert len(set(ports)) == 15
    assert all(1024 < port < 32_768 for port in ports)


def test_a_cluster_keeps_its_ports(tmp_path: Path) -> None:
    first = layout_of(tmp_path)
    first.processes = {"broker-1": (123, 4.5)}
    first.save()
    assert layout_of(tmp_path) == first
    first.tls = True
    first.save()
    assert ClusterLayout.load(tmp_path) == first
    grown = layout_of(tmp_path, brokers=4)
    assert {number: grown.brokers[number] for number in first.brokers} == first.brokers


def test_preferred_ports_are_taken_where_they_are_free(tmp_path: Path) -> None:
    start = free_port()
    with socket.socket() as taken:
        taken.bind((HOST, start + 1))
        taken.listen()
        layout = ClusterLayout.of(tmp_path, 3, 1, FirstPorts(broker=start))
    assert layout.brokers[1] == start
    assert layout.brokers[2] != start + 1


def chosen_elsewhere(preferred: int) -> int:
    """The port that another process chooses, which has ended by then."""
    choose = f"from hightide_local.processes.ports import free_port; print(free_port(preferred={preferred}))"
    run = subprocess.run([sys.executable, "-c", choose], capture_output=True, text=True, check=True)
    return int(run.stdout)


def test_a_port_that_a_process_has_chosen_is_left_to_it_while_it_lives_though_nobody_listens_yet() -> None:
    port = free_port()
    assert is_free(port)
    other = chosen_elsewhere(port)
    assert other != port
    assert free_port(preferred=other) == other, "it goes with the process"


def test_a_port_that_somebody_took_while_a_process_was_down_is_given_up(tmp_path: Path) -> None:
    layout = layout_of(tmp_path)
    before = dict(layout.brokers)
    with socket.socket() as taken:
        taken.bind((HOST, before[2]))
        taken.listen()
        assert not is_free(before[2])
        layout.replace_taken_ports(layout.names)
    assert layout.brokers[2] != before[2]
    assert (layout.brokers[1], layout.brokers[3]) == (before[1], before[3])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version":1}', '{"version":1,"zookeeper_port":"x"}'])
def test_a_damaged_cluster_json_is_an_error_that_says_what_to_do(tmp_path: Path, content: str) -> None:
    (tmp_path / "cluster.json").write_text(content)
    with pytest.raises(ClusterError, match="delete"):
        ClusterLayout.load(tmp_path)


def test_a_cluster_json_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(ClusterError, match="version 99"):
        ClusterLayout.load(tmp_path)


def test_a_cluster_names_its_processes_and_where_clients_find_it(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=2, controllers=1)
    assert cluster.names == ["zookeeper", "controller-1", "broker-1", "broker-2"]
    assert cluster.bootstrap.split(",") == [cluster.brokers[1], cluster.brokers[2]]
    assert cluster.running() == {}


def test_coordinators_keep_their_ports_too_and_stand_between_controllers_and_brokers(tmp_path: Path) -> None:
    first = ClusterLayout.of(tmp_path, 1, 1, FirstPorts(), coordinators=2)
    first.save()
    again = ClusterLayout.of(tmp_path, 1, 1, FirstPorts(), coordinators=2)
    assert again.coordinators == first.coordinators
    assert again.names == ["zookeeper", "controller-1", "coordinator-1", "coordinator-2", "broker-1"]


def test_a_cluster_json_from_before_there_were_coordinators_is_one_without(tmp_path: Path) -> None:
    layout_of(tmp_path).save()
    content = json.loads((tmp_path / "cluster.json").read_text())
    del content["coordinators"]
    (tmp_path / "cluster.json").write_text(json.dumps(content))
    loaded = ClusterLayout.load(tmp_path)
    assert loaded is not None
    assert loaded.coordinators == {}


@pytest.mark.parametrize("name", ["broker-9", "broker-", "broker", "nobody", "controller-x"])
def test_a_name_that_is_no_process_is_an_error_that_lists_them(tmp_path: Path, name: str) -> None:
    with pytest.raises(ClusterError, match="zookeeper, controller-1, broker-1"):
        LocalCluster(tmp_path, brokers=1, controllers=1).kill(name)


def test_a_cluster_without_brokers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="needs a broker"):
        LocalCluster(tmp_path, brokers=0)


@pytest.mark.parametrize(
    "call", ["kill", "terminate", "pause", "resume", "restart", "log_tail", "address_of"]
)
def test_a_process_that_there_is_not_is_told_with_those_that_there_are(tmp_path: Path, call: str) -> None:
    cluster = LocalCluster(tmp_path, brokers=2, controllers=1)
    with pytest.raises(ClusterError, match=r"no process 'broker-9'; there are zookeeper, .*broker-2"):
        getattr(cluster, call)("broker-9")
