"""Offsets of groups without readers, written down and forgotten by the command line alone."""

import pytest
from e2e.command_line import hightide
from e2e.commands_here import json_here, run_here, succeed_here
from hightide import Admin, Producer
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster


def committed(cluster: LocalCluster, group: str) -> dict[str, int]:
    with Admin(cluster.bootstrap) as admin:
        return {str(each): found.offset for each, found in admin.group_offsets(group).items()}


def test_offsets_are_committed_for_who_keeps_positions_elsewhere(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        for topic in ("kept", "kept-too"):
            admin.create_topic(topic, 2, 1)
            for number in range(20):
                producer.send(topic, b"%d" % number, partition=number % 2)
    planned = json_here(cluster, "group", "commit", "keeper", "kept:0=5", "--dry-run")
    assert planned["partitions"] == [{"topic": "kept", "partition": 0, "previous": None, "committed": 5}]
    assert run_here(cluster, "group", "describe", "keeper").exception is not None, "it was only shown"
    succeed_here(cluster, "group", "commit", "keeper", "kept:0=5", "kept:1=3", "kept-too:1=2")
    assert committed(cluster, "keeper") == {"kept-0": 5, "kept-1": 3, "kept-too-1": 2}
    back = hightide(cluster, "group", "commit", "keeper", "kept:0=4")
    assert (back.returncode, b"--yes" in back.stderr) == (1, True), "nobody is there to answer"
    succeed_here(cluster, "group", "commit", "keeper", "kept:0=4", "--yes", "--metadata", "by hand")
    assert committed(cluster, "keeper")["kept-0"] == 4
    lines = succeed_here(cluster, "topic", "consume", "kept", "-g", "keeper", "-n", "13", "-f", "%p@%o\n")
    assert sorted(lines.decode().split()) == sorted(
        [*(f"0@{at}" for at in range(4, 10)), *(f"1@{at}" for at in range(3, 10))]
    )


def test_offsets_of_a_topic_that_nobody_reads_are_forgotten(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    with Admin(cluster.bootstrap) as admin:
        for topic in ("left", "stays"):
            admin.create_topic(topic, 2, 1)
    succeed_here(cluster, "group", "commit", "leaver", "left:0=0", "left:1=0", "stays:0=0")
    delete = ("group", "delete-offsets", "leaver", "left")
    assert json_here(cluster, *delete, "--dry-run")["offsets"] == 2
    assert hightide(cluster, *delete).returncode == 1, "nobody is there to answer"
    assert json_here(cluster, *delete, "--yes")["offsets"] == 2
    assert committed(cluster, "leaver") == {"stays-0": 0}
    assert b"nothing to delete" in succeed_here(cluster, *delete)
