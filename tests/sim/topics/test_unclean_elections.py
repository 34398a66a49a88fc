"""An unclean election gives a partition another history: what a broker had noted of the first does not count
for the second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from sim.topics.schedules import FIRST_ID, FLUSHED_AFTER_MS, TOPIC, begin, heal
from sim.topics.world import Cluster

KEY: Final = (bytes.fromhex(FIRST_ID), 0)
RECORDS: Final = 6
SHARED: Final = 1
"""As far as the two histories are the same."""


@pytest.fixture
def world() -> Iterator[Cluster]:
    """Broker 2 was away since the first record. Meanwhile all others of a later epoch were written, and some
    deleted; then all were lost but what 2 has, and it leads."""
    cluster = Cluster()
    begin(cluster)
    settings = {"flush": "fsync", "min.insync.replicas": "1"}
    cluster.ask(rq.AlterTopicConfigRequested(0, TOPIC, settings), ef.AnswerTopic)
    cluster.settle()
    end(cluster, 2)
    end(cluster, 1)
    cluster.settle()
    for _ in range(RECORDS):
        assert cluster.produce_to(TOPIC) is not None
    cluster.settle()
    cluster.delete_records(3, KEY, RECORDS)
    cluster.settle()
    cluster.advance(FLUSHED_AFTER_MS)
    cluster.settle()
    assert replica_start(cluster, 3) == RECORDS
    end(cluster, 3)
    cluster.restart(2)
    cluster.settle()
    cluster.checkers.unclean_asked.add((TOPIC, 0))
    unclean = rq.ElectLeadersRequested(0, rq.ElectionKind.UNCLEAN, (TopicPartition(TOPIC, 0),))
    cluster.ask(unclean, ef.AnswerElections)
    cluster.settle()
    for _ in range(2 * RECORDS):
        assert cluster.produce_to(TOPIC) is not None
    cluster.settle()
    yield cluster
    cluster.close()


def end(world: Cluster, broker_id: int) -> None:
    """A process dies, and all know it."""
    host = world.hosts[broker_id]
    world.crash(broker_id)
    world.detect_death(broker_id, host.broker_epoch)
    world.expire(broker_id)
    world.settle()


def replica_start(world: Cluster, broker_id: int) -> int:
    """Where a broker's log begins."""
    replica = world.hosts[broker_id].replica(KEY)
    assert replica is not None
    return replica.state.log_start_offset


@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_after_a_log_began_anew_further_down_leaves_no_gap_at_its_front(
    world: Cluster, seed: int
) -> None:
    """A checkpoint says still where the log of before began. The replica was in sync without the records
    below, and as a leader it would have had all replicas delete them."""
    world.restart(3)
    world.settle()
    state = world.state(TOPIC, 0)
    assert state is not None
    assert 3 in state.isr
    assert replica_start(world, 3) == SHARED
    world.lose_power(3, seed)
    world.restart(3)
    world.settle()
    assert replica_start(world, 3) == SHARED
    heal(world)
    end(world, 2)
    assert [value for _, value in world.hosts[3].logs.log(KEY).log][1 : 1 + 2 * RECORDS] == list(
        range(8, 8 + 2 * RECORDS)
    )
    heal(world)


def test_so_does_a_kill_while_it_begins_anew(world: Cluster) -> None:
    files_of = type(world.hosts[3].files)
    replace = files_of.replace
    killed: list[str] = []

    def kill_at_the_epochs(self: object, source: str, target: str) -> None:
        """The log is emptied already."""
        if target.startswith("/3/") and target.endswith("leader_epochs") and not killed:
            killed.append(target)
            world.hosts[3].files.ended = True
        replace(self, source, target)  # type: ignore[arg-type]

    files_of.replace = kill_at_the_epochs  # type: ignore[method-assign]
    try:
        world.restart(3)
        world.settle()
    finally:
        files_of.replace = replace  # type: ignore[method-assign]
    assert killed
    end(world, 3)
    world.restart(3)
    world.settle()
    assert replica_start(world, 3) == SHARED
    heal(world)
