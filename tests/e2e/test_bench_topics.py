"""A benchmark on a cluster that goes on running leaves nothing there, however it ends."""

import signal
import subprocess

import pytest
from e2e.command_line import command, environment, hightide
from hightide import Admin
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster

CREATED_S = 60.0


def topics_of(cluster: LocalCluster, purpose: str) -> list[str]:
    with Admin(cluster.bootstrap) as admin:
        names = [each.name for each in admin.describe_topics()]
    return [each for each in names if each.startswith(f"bench-{purpose}-")]


def test_a_benchmark_deletes_its_topic_unless_it_shall_be_kept(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    bench = ("bench", "e2e", "--rounds", "1", "--seconds", "0.5")
    assert hightide(cluster, *bench).returncode == 0
    assert topics_of(cluster, "e2e") == []
    kept = hightide(cluster, *bench, "--keep")
    (name,) = topics_of(cluster, "e2e")
    assert f"topic {name} is kept" in kept.stderr.decode()
    with Admin(cluster.bootstrap) as admin:
        admin.delete_topic(name)


def test_a_benchmark_that_is_interrupted_deletes_its_topic(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    run = command("bench", "produce", "--seconds", "60")
    with subprocess.Popen(run, stderr=subprocess.PIPE, env=environment(cluster)) as process:
        begun = f"-{process.pid}"
        wait_until(
            "it has begun",
            lambda: any(each.endswith(begun) for each in topics_of(cluster, "produce")),
            CREATED_S,
        )
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert topics_of(cluster, "produce") == []
