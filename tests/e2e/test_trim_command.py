"""Deleting old records by the command line alone."""

import pytest
from e2e.command_line import hightide
from e2e.commands_here import json_here, succeed_here
from hightide import Admin, Producer
from hightide_local.cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

STARTED_US = 1_600_000_000_000_000


def test_old_records_are_trimmed_after_they_were_shown(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic("words-trimmed", 3, 3)
        for number in range(120):
            at = number // 3
            producer.send(
                "words-trimmed", b"x", partition=number % 3, timestamp_us=STARTED_US + at * 1_000_000
            )
    trim = ("topic", "trim", "words-trimmed")
    shown = json_here(cluster, *trim, "--before-offset", "10", "--dry-run")
    assert [each["earliest"] for each in shown["partitions"]] == [10, 10, 10]

    def earliest() -> list[int]:
        offsets = json_here(cluster, "topic", "offsets", "words-trimmed")["partitions"]
        return [each["earliest"] for each in offsets]

    assert earliest() == [0, 0, 0], "it was only shown"
    assert hightide(cluster, *trim, "--before-offset", "10").returncode == 1, "nobody is there to answer"
    beyond = hightide(cluster, *trim, "--before-offset", "41", "--yes")
    assert beyond.returncode == 1
    assert b"words-trimmed-0 ends at offset 40" in beyond.stderr
    assert earliest() == [0, 0, 0], "a digit too many deletes nothing"
    done = json_here(cluster, *trim, "--before-offset", "10", "-p", "1", "--yes")
    assert [each["records"] for each in done["partitions"]] == [10]
    assert earliest() == [0, 10, 0]
    moment = str(STARTED_US // 1000 + 20_000)
    succeed_here(cluster, *trim, "--before-time", moment, "--yes")
    assert earliest() == [20, 20, 20]
    gone = hightide(cluster, "topic", "get", "words-trimmed", "0", "19")
    assert b"words-trimmed-0 has offsets 20 to 39" in gone.stderr
    succeed_here(cluster, *trim, "--all", "--yes")
    assert earliest() == [40, 40, 40]
    assert hightide(cluster, *trim).returncode == 2
