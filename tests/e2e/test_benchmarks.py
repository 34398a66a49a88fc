"""Every benchmark runs on a cluster of its own, prints the promised keys, and loses nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hightide_bench.commands.bench import FAILOVER_KEYS, GROUPS_KEYS, THROUGHPUT_KEYS
from hightide_bench.commands.tls import KEYS as TLS_KEYS
from hightide_bench.measuring.failover import FailoverPlan
from hightide_bench.measuring.groups import GroupsPlan
from hightide_cli.documents.form import departures
from hightide_cli.documents.registry import DOCUMENTS
from hightide_local.cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """No cluster of `dev up` is found here, so each benchmark starts one."""
    without = {name: value for name, value in os.environ.items() if name != "HIGHTIDE_BOOTSTRAP"}
    return {**without, "XDG_STATE_HOME": str(tmp_path)}


def bench(environment: dict[str, str], *arguments: str) -> dict[str, Any]:
    (document,) = bench_lines(environment, *arguments)
    return document


def bench_lines(environment: dict[str, str], *arguments: str) -> list[dict[str, Any]]:
    return bench_run(environment, *arguments)[0]


def bench_run(environment: dict[str, str], *arguments: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The documents of one benchmark, which are held to the registry, and what it said meanwhile."""
    run = subprocess.run(
        [sys.executable, "-m", "hightide_cli.main", "bench", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=350,
        env=environment,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    documents = [json.loads(line) for line in run.stdout.splitlines()]
    for each in documents:
        assert departures(DOCUMENTS[f"bench {arguments[0]}"], each) == []
    return documents, run.stderr.splitlines()


def test_a_benchmark_without_a_cluster_starts_one_and_counts_what_its_brokers_cost(
    environment: dict[str, str],
) -> None:
    document = bench(environment, "produce", "--rounds", "1", "--seconds", "1")
    assert all(document[key] > 0 for key in THROUGHPUT_KEYS)


def test_tls_is_measured_beside_plaintext(environment: dict[str, str]) -> None:
    document = bench(environment, "tls", "--rounds", "1", "--seconds", "1")
    for name in ("plaintext", "tls", "ratio"):
        assert all(document[name][key] > 0 for key in TLS_KEYS)


@pytest.mark.parametrize(
    "arguments",
    [
        ("produce", "--rounds", "1", "--seconds", "1", "--record-bytes", "100", "--api", "send_arrow"),
        ("consume", "--rounds", "1", "--size-mb", "20"),
        ("e2e", "--rounds", "1", "--seconds", "1", "--records-per-s", "200"),
    ],
    ids=" ".join,
)
def test_a_cluster_elsewhere_is_measured_without_the_cost_of_its_brokers(
    hightide_cluster: LocalCluster, environment: dict[str, str], arguments: tuple[str, ...]
) -> None:
    document = bench({**environment, "HIGHTIDE_BOOTSTRAP": hightide_cluster.bootstrap}, *arguments)
    assert document["broker_cpu_s_per_gb"] is None
    assert all(document[key] > 0 for key in THROUGHPUT_KEYS if key != "broker_cpu_s_per_gb")


@pytest.mark.parametrize("signal", ["--kill", "--term"])
def test_a_failover_loses_nothing_and_waits_for_no_timer(environment: dict[str, str], signal: str) -> None:
    """A broker that stops in order once let itself back into the ISRs on its way out, and every producer
    waited replica.lag.time.max.ms (10 s) for it. The bound is loose, since the machine may be busy."""
    (document,), (_, *said) = bench_run(
        environment, "failover", signal, "--rounds", "1", "--idle-seconds", "1"
    )
    assert len(said) == FailoverPlan(6, idle_s=1).steps, said
    assert all(document[key] is not None for key in FAILOVER_KEYS)
    assert (document["lost"], document["duplicated"], document["client_errors"]) == (0, 0, 0)
    assert document["unavailable_ms_max"] < 9_000
    assert document["zookeeper_ms"] <= document["elect_ms"] <= document["all_led_ms"]


def test_a_scale_is_measured_size_by_size(environment: dict[str, str]) -> None:
    first, second = bench_lines(
        environment, "failover", "--scale", "3,12", "--rounds", "1", "--idle-seconds", "0"
    )
    assert [first["partitions"], second["partitions"]] == [3, 12]
    assert first["idle_cpu_percent"] is None
    assert (second["lost"], second["duplicated"], second["client_errors"]) == (0, 0, 0)
    assert second["takeover_ms"] > 0


def measured_path(environment: dict[str, str], script: str, *arguments: str) -> list[dict[str, Any]]:
    """The documents of a script of bench/paths."""
    path = Path(__file__).resolve().parents[2] / "bench" / "paths" / script
    run = subprocess.run(
        [sys.executable, str(path), *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=350,
        env=environment,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_the_ways_to_store_are_compared_on_one_zookeeper(environment: dict[str, str]) -> None:
    (document,) = measured_path(environment, "controller_paths.py", "--partitions", "30", "--rounds", "1")
    for name in ("write_ms", "read_ms"):
        assert len(document[name]) == 3
        assert all(ms > 0 for ms in document[name].values())


def test_a_cluster_with_a_controller_and_one_without_are_measured_side_by_side(
    environment: dict[str, str],
) -> None:
    """Without the steps that take long and do not depend on the number of partitions."""
    controlled, led = measured_path(
        environment, "coordination_paths.py", "--partitions", "4", "--topics", "0", "--idle-seconds", "0"
    )
    assert [each["coordination"] for each in (controlled, led)] == ["controller", "leaders"]
    assert set(controlled) == set(led)
    for each in (controlled, led):
        assert all(each[f"{step}_client_errors"] == 0 for step in ("kill", "stop"))
        assert min(each["kill_decided_ms"], each["create_writes"], each["watches"]) > 0


def test_groups_lose_their_coordinator_and_disturb_only_those_who_gain_or_lose(
    environment: dict[str, str],
) -> None:
    """10 members with a partition each: one leaves, and one other takes over its partition; one comes, and
    takes it from there."""
    (document,), said = bench_run(
        environment, "groups", "--consumers", "20", "--groups", "2", "--seconds", "4", "--rounds", "1",
        "--session-timeout-ms", "6000",
    )  # fmt: skip
    assert len(said) == GroupsPlan(20, 2, rounds=1).steps, said
    assert all(document[key] is not None for key in GROUPS_KEYS)
    assert (document["leave_disturbed"], document["join_disturbed"]) == (1, 1)
    assert document["rebalance_moved"] == 10
    assert (document["failover_stopped"], document["client_errors"]) == (0, 0)
    assert 0 < document["failover_ms"] < document["session_timeout_ms"] + 5_000


def test_consumers_that_are_not_groups_of_equal_size_are_refused(environment: dict[str, str]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "hightide_cli.main", "bench", "groups", "--consumers", "5", "--groups", "3"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert run.returncode == 2
    assert "5 consumers are not 3 groups of equal size" in run.stderr


def test_a_campaign_of_faults_counts_what_it_did_and_finds_nothing_lost(environment: dict[str, str]) -> None:
    """One season is enough here: hours of it are run by hand."""
    document = bench(environment, "faults", "--seconds", "8", "--only", "processes", "--seed", "4")
    assert document["violations"] == 0
    assert document["seasons"] >= 1
    assert document["acknowledged"] > 0
    assert sum(document["faults"].values()) > 0
