"""SIGTERM twice: a broker that is told to hurry says so, and closes its logs all the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hightide
import pytest
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster

BROKER = "broker-1"
HANDS_OVER_MS = 600_000
"""Nobody waits for so long: who ends before was told to hurry."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Its broker hands leadership over to a controller that does not answer."""
    hands_over = ("--controlled-shutdown-timeout-ms", str(HANDS_OVER_MS))
    with LocalCluster(
        tmp_path,
        brokers=1,
        controllers=1,
        # Where the controller's session had ended, the broker would wait for nobody.
        session_timeout_ms=120_000,
        broker_arguments=hands_over,
    ) as cluster:
        with hightide.Admin(cluster.bootstrap) as admin:
            admin.create_topic("flights", partitions=3, replication_factor=1)
        with hightide.Producer(cluster.bootstrap) as producer:
            for number in range(30):
                producer.send("flights", b"%d" % number, partition=number % 3)
        cluster.pause("controller-1")
        yield cluster
        if BROKER in cluster.running():
            cluster.kill(BROKER)
        cluster.resume("controller-1")


def said(cluster: LocalCluster, what: str) -> bool:
    return what in cluster.log_tail(BROKER, 200)


def test_a_second_signal_ends_the_wait_for_others_and_leaves_the_clean_mark(cluster: LocalCluster) -> None:
    mark = cluster.data_directory(1) / ".clean"
    assert not mark.exists()
    os.kill(cluster.running()[BROKER], signal.SIGTERM)
    wait_until("it was told", lambda: said(cluster, "SIGTERM: stops in good order"), 60)
    cluster.terminate(BROKER)
    assert said(cluster, "SIGTERM again: stops without waiting for others")
    assert said(cluster, "waits neither for leadership to move nor for clients")
    assert mark.exists()
