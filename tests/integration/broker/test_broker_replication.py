"""Replication between real brokers: in and out of the ISR, restarts, lost sessions and disks (V3 C, E, G)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from adversary.batches import good_batch
from adversary.control import ControlPlane
from adversary.raw_client import name_of
from adversary.target import Target, code_in, produce_result
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from integration.broker.scripted_controller import ME, Scripted, described, scripted
from integration.runtime.test_startup_refusals import serves

pytestmark = pytest.mark.cluster

LAG_MS = 3000
"""Less than a session, so that a silent follower leaves the ISR by its leader's clock."""
PATIENCE_S = 60
LINES = 1000
"""All that a broker has logged since it was started, and more."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of this module's own, whose ISRs shrink soon. Each test leaves all brokers running."""
    directory = tmp_path_factory.mktemp("replication")
    with LocalCluster(directory, controllers=1, replica_lag_time_max_ms=LAG_MS) as cluster:
        yield cluster


class Partition:
    """Partition 0 of a topic on all brokers, and what the source of truth says of it."""

    def __init__(self, cluster: LocalCluster, topic: str, min_insync_replicas: int = 2) -> None:
        self.cluster = cluster
        self.topic = topic
        self.control = ControlPlane(cluster.bootstrap)
        self.control.create_topic(topic, min_insync_replicas=str(min_insync_replicas))
        self.target = Target(cluster.bootstrap, topic)

    @property
    def isr(self) -> set[int]:
        return set(self.control.topics()[self.topic].partitions[0].isr)

    @property
    def followers(self) -> list[str]:
        return [f"broker-{each}" for each in self.cluster.brokers if each != self.target.leader_id]

    @property
    def leader(self) -> str:
        return f"broker-{self.target.leader_id}"

    def wait_for_isr(self, size: int) -> None:
        wait_until(f"an ISR of {size}", lambda: len(self.isr) == size, PATIENCE_S)

    def wait_until_producing(self) -> Target:
        """Whoever leads by now takes a record with acks=all. A follower says who that is."""
        follower = self.cluster.address_of(self.followers[0])

        def took() -> Target | None:
            try:
                target = Target.beside_others(follower, self.topic)
            except KeyError:
                return None  # The leader is no live broker any more, and its successor is not told yet.
            answer = target.send_produce(good_batch(target.topic_id, 0), timeout_ms=2000, timeout_s=5)
            if answer.ok and not produce_result(answer).error_code:
                return target
            target.close()
            return None

        found = wait_until("a leader that takes a record", took, PATIENCE_S)
        assert found is not None
        return found


def test_a_silent_follower_leaves_the_isr_by_the_clock_and_comes_back_by_catching_up(
    cluster: LocalCluster,
) -> None:
    partition = Partition(cluster, "silent-follower")
    silent = partition.followers[0]
    cluster.pause(silent)
    try:
        answer = produce_result(partition.target.send_produce(good_batch(partition.target.topic_id, 0)))
        assert name_of(answer.error_code) == "OK", "acknowledged once the ISR is without the silent one"
        assert len(partition.isr) == 2
    finally:
        cluster.resume(silent)
    partition.wait_for_isr(3)
    cluster.wait_brokers_alive()


def test_with_too_few_in_sync_nothing_is_appended(cluster: LocalCluster) -> None:
    partition = Partition(cluster, "too-few")
    target = partition.target
    for follower in partition.followers:
        cluster.pause(follower)
    try:
        target.send_produce(good_batch(target.topic_id, 0), acks=broker_pb2.ACKS_LEADER)
        target.next_offset += 1
        partition.wait_for_isr(1)

        def is_refused() -> bool:
            """Where the controller took the others out, the leader appends until it hears of that."""
            code = code_in(target.send_produce(good_batch(target.topic_id, 0)), produce_result)
            assert code in {"NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
            target.next_offset += code != "NOT_ENOUGH_REPLICAS"
            return code == "NOT_ENOUGH_REPLICAS"

        wait_until("the leader knows that it is alone", is_refused, PATIENCE_S)
    finally:
        for follower in partition.followers:
            cluster.resume(follower)
    partition.wait_for_isr(3)
    cluster.wait_brokers_alive()
    target.produce_good()


def test_between_high_watermark_and_log_end_there_is_nothing_yet_and_beyond_it_an_error(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    """The follower is played: a real one that is silent leaves the ISR, and then all is committed."""
    other = 2

    async def test(broker: Scripted) -> None:
        topic = await broker.create("between", (ME, other))
        assert await broker.decide(topic, 0) == [0]
        await broker.update(described(topic, (ME, other)))
        for values in ((b"committed",), (b"a", b"b")):
            appended = await broker.produce(topic, 0, *values, acks=broker_pb2.ACKS_LEADER)
            assert name_of(appended.error_code) == "OK", appended
        await broker.follow(other, topic, 1, incarnation=0)
        for offset in (1, 2, 3):
            read = await broker.fetch(topic, 0, offset)
            assert (name_of(read.error_code), read.batches, read.high_watermark) == ("OK", b"", 1)
        assert name_of((await broker.fetch(topic, 0, 4)).error_code) == "OFFSET_OUT_OF_RANGE"

    async def run() -> None:
        arguments = ("--replica-lag-time-max-ms", "600000")
        async with scripted(zookeeper_hosts, tmp_path, arguments) as broker:
            await test(broker)

    asyncio.run(run())


def test_a_broker_told_to_stop_hands_over_first_and_is_soon_gone(cluster: LocalCluster) -> None:
    partition = Partition(cluster, "handed-over")
    stopped = partition.leader
    cluster.terminate(stopped)
    told = cluster.log_tail(stopped, LINES)
    moved = partition.wait_until_producing()
    assert moved.leader_id != partition.target.leader_id
    assert "leadership handed over in" in told
    assert "leadership was not handed over within" not in told, "it waited until its time was up"
    cluster.restart(stopped)
    partition.wait_for_isr(3)
    moved.close()


def test_a_killed_leader_comes_back_as_a_follower_with_all_it_lacked(cluster: LocalCluster) -> None:
    partition = Partition(cluster, "killed")
    killed = partition.leader
    cluster.kill(killed)
    successor = partition.wait_until_producing()
    assert successor.leader_epoch > partition.target.leader_epoch
    cluster.restart(killed)
    partition.wait_for_isr(3)
    successor.close()


def test_a_broker_whose_session_expired_registers_anew_and_serves(cluster: LocalCluster) -> None:
    partition = Partition(cluster, "lost-session")
    broker_id = partition.target.leader_id
    control = ControlPlane(cluster.bootstrap)
    before = control.stamp_for(broker_id).broker_epoch
    cluster.pause(partition.leader)
    try:
        successor = partition.wait_until_producing()
        assert successor.leader_id != broker_id
        successor.close()
    finally:
        cluster.resume(partition.leader)
    wait_until("another broker epoch", lambda: control.stamp_for(broker_id).broker_epoch > before, PATIENCE_S)
    partition.wait_for_isr(3)
    control.close()


def test_a_broker_that_lost_its_disk_leaves_the_isr_before_it_can_be_elected(cluster: LocalCluster) -> None:
    partition = Partition(cluster, "lost-disk")
    partition.target.produce_good([b"x"] * 100)
    lost = partition.followers[0]
    broker_id = int(lost.removeprefix("broker-"))
    # Without a controller nobody else could take it out of the ISR.
    cluster.terminate("controller-1")
    cluster.kill(lost)
    shutil.rmtree(cluster.data_directory(broker_id))
    cluster.restart(lost, wait=False)
    wait_until("leaving the ISRs", lambda: "left the ISRs of" in cluster.log_tail(lost, LINES), PATIENCE_S)
    cluster.restart("controller-1")
    wait_until("one that answers", lambda: ControlPlane(cluster.bootstrap).describe_cluster(), PATIENCE_S)
    partition.control = ControlPlane(cluster.bootstrap)
    partition.wait_for_isr(3)
    partition.wait_until_producing().close()


def test_brokers_start_from_zookeeper_alone(cluster: LocalCluster) -> None:
    partition = Partition(cluster, "no-controller")
    brokers = [f"broker-{broker_id}" for broker_id in cluster.brokers]
    cluster.terminate("controller-1")
    follower = partition.followers[0]
    cluster.terminate(follower)
    cluster.restart(follower, wait=False)
    port = int(cluster.address_of(follower).rpartition(":")[2])
    wait_until("serving", lambda: serves(port), PATIENCE_S)
    target = Target.beside_others(cluster.brokers[int(follower[-1])], partition.topic)
    assert target.leader_id == partition.target.leader_id
    cluster.restart("controller-1")
    assert set(brokers) <= set(cluster.running())
    target.close()
