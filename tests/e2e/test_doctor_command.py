"""The doctor on a cluster that is well, on one that is half dead, and where there is none."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from e2e.command_line import hightide, succeed
from hightide import Admin
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_local.processes.ports import free_port
from hightide_local.processes.readiness import ReadinessChannels

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

THERE_S = 60.0


@pytest.fixture(autouse=True)
def no_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def examined(cluster: LocalCluster, exit_code: int, *arguments: str) -> dict[str, list[dict[str, Any]]]:
    """What it found, by check."""
    # One that does not answer is waited for; one that does has time to, also on a busy machine.
    patience_s = "30" if exit_code == 0 else "5"
    run = hightide(cluster, "doctor", "-o", "json", "--timeout", patience_s, *arguments)
    assert run.returncode == exit_code, run.stderr.decode()
    found: dict[str, list[dict[str, Any]]] = {}
    for each in json.loads(run.stdout)["findings"]:
        found.setdefault(each["check"], []).append(each)
    return found


def brokers_of(admin: Admin) -> set[int]:
    return {each.broker_id for each in admin.describe_cluster().brokers}


def test_a_cluster_is_examined_well_and_half_dead(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    with Admin(cluster.bootstrap) as admin:
        # A controller that stands by serves a little before it is told of.
        wait_until("it is told of", lambda: len(admin.describe_cluster().controllers) == 2, THERE_S)
    well = examined(cluster, 0, "--zookeeper", cluster.zookeeper)
    checks = ("bootstrap", "standbys", "advertised addresses", "clocks", "versions", "session timeout")
    for check in checks:
        assert [each["verdict"] for each in well[check]] == ["ok"] * len(well[check]), well[check]
    # A slow disk below ZooKeeper is warned of, and no fault of this cluster.
    assert well["zookeeper"][0]["verdict"] in ("ok", "warn"), well["zookeeper"]
    assert well["zookeeper"][1]["verdict"] == "ok", well["zookeeper"]
    assert "standalone" in well["zookeeper"][0]["message"]
    # Its tick is 500 ms in local clusters.
    assert "from 1000 to 120000 ms" in well["zookeeper"][1]["message"]
    assert well["advertised addresses"][0]["message"].startswith("all 6 resolve")
    assert well["standbys"][0]["message"] == "2 controllers, 1 active, 1 coordinator, 1 active"
    assert well["clocks"][0]["message"].startswith("6 servers agree")
    assert well["versions"][0]["message"].startswith("6 servers and this command are")

    # In this order: nobody is left to notice the end of the broker's session.
    cluster.kill("controller-1")
    cluster.kill("controller-2")
    cluster.pause("broker-3")
    ill = examined(cluster, 1)
    assert [each["verdict"] for each in ill["zookeeper"]] == ["skipped"]
    assert [each["verdict"] for each in ill["bootstrap"]] == ["warn"]
    silent = [each["message"] for each in ill["advertised addresses"]]
    assert any(each.startswith("broker 3 advertises") and "nobody answers" in each for each in silent)
    assert ill["clocks"][0]["verdict"] == "ok"


def test_a_broker_that_advertises_a_name_of_its_neighbours_is_told(
    hightide_cluster: LocalCluster, tmp_path: Path
) -> None:
    # What containers get wrong most often.
    cluster, port = hightide_cluster, free_port()
    told = ("--listen", f"127.0.0.1:{port}", "--advertise", f"broker-9.invalid:{port}")
    whose = ("--broker-id", "9", "--zookeeper", cluster.zookeeper, "--data-dir", str(tmp_path / "data"))
    broker = subprocess.Popen(
        [sys.executable, "-m", "hightide_broker.main", *told, *whose],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with Admin(cluster.bootstrap) as admin:
            wait_until("broker 9 is there", lambda: 9 in brokers_of(admin), THERE_S)
        with ReadinessChannels() as questions:
            # The doctor goes by what one of them knows.
            for address in cluster.brokers.values():
                wait_until("all know of it", partial(questions.knows_brokers, address, {9}), THERE_S)
        found = examined(cluster, 1)
        (wrong,) = found["advertised addresses"]
        name = f"broker-9.invalid:{port}"
        assert wrong["message"] == f"broker 9 advertises {name}, and that name means nothing on this machine"
        assert "--external-advertise" in wrong["next_step"]
        assert {each["verdict"] for each in found["bootstrap"]} == {"ok"}
    finally:
        broker.terminate()
        broker.wait(60)
    # Its session ends with it, and nothing of the cluster was placed on it.
    with Admin(cluster.bootstrap) as admin:
        wait_until("it is gone", lambda: 9 not in brokers_of(admin), THERE_S)
    succeed(cluster, "cluster", "health", "--until-healthy", "--interval", "0.2")


def test_where_no_cluster_is_the_doctor_says_so_and_ends(hightide_cluster: LocalCluster) -> None:
    nobody = ("--bootstrap", "127.0.0.1:1", "--zookeeper", "127.0.0.1:1")
    found = examined(hightide_cluster, 1, *nobody)
    assert [each["verdict"] for each in found["bootstrap"]] == ["fail"]
    assert [each["verdict"] for each in found["zookeeper"]] == ["fail"]
    assert "what --bootstrap says" in found["bootstrap"][0]["next_step"]
    a_broker = next(iter(hightide_cluster.brokers.values()))
    wrong = examined(hightide_cluster, 1, "--zookeeper", a_broker)
    assert "is not ZooKeeper" in wrong["zookeeper"][0]["message"]
