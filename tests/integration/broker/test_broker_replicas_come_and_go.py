"""Replicas of a real broker that come and go: deleted, created again, moved, removed, missed (V3 C, E, H).

A scripted controller writes ZooKeeper and speaks; each test says by which way the broker hears of a change:
by StopReplica, by UpdateMetadata alone, by a decision that tells more, or only when it starts again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from adversary.raw_client import name_of
from hightide.v1 import metadata_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.hosting.strays import HeldReplica, read_stored
from hightide_runtime.znodes.cluster_znodes import ClusterIdZnode, LeaderAndIsrZnode, TopicZnode
from hightide_runtime.zookeeper.session import ZooKeeperSession
from integration.broker.scripted_controller import ME, Scripted, Topic, described, scripted
from integration.controller.controller_harness import until

OK = [ErrorCode.ERROR_CODE_UNSPECIFIED]
FENCED = [ErrorCode.ERROR_CODE_FENCED_LEADER_EPOCH]
OTHER = 2


def run(
    zookeeper: str, directory: Path, test: Callable[[Scripted], Awaitable[None]], *arguments: str
) -> None:
    async def main() -> None:
        async with scripted(zookeeper, directory, arguments) as broker:
            await test(broker)

    asyncio.run(main())


async def led_topic(broker: Scripted, name: str, partitions: int = 1, records: int = 3) -> Topic:
    """A topic that the broker leads alone, with records in each partition."""
    topic = await broker.create(name, *[(ME,)] * partitions)
    assert await broker.decide(topic, *range(partitions)) == OK * partitions
    await broker.update(described(topic, *[(ME,)] * partitions))
    for partition in range(partitions):
        for _ in range(records):
            result = await broker.produce(topic, partition)
            assert name_of(result.error_code) == "OK", result
    return topic


async def lead_again(broker: Scripted, topic: Topic, partition: int, epoch: int) -> None:
    """Have the broker lead in a new leader epoch: after a restart it leads in none that it led in before."""
    await broker.set_state(topic, partition, ME, epoch, (ME,))
    assert await broker.decide(topic, partition) == OK


async def assert_empty(broker: Scripted, topic: Topic, partition: int = 0) -> None:
    """Nothing of what was there before is served, and offsets begin at 0."""
    read = await broker.fetch(topic, partition)
    assert (name_of(read.error_code), read.batches, read.high_watermark) == ("OK", b"", 0)
    assert (await broker.produce(topic, partition)).base_offset == 0


# --- while the broker runs -------------------------------------------------------------------------


def test_a_topic_deleted_and_created_again_under_its_name_starts_empty(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def test(broker: Scripted) -> None:
        old = await led_topic(broker, "flights")
        await broker.delete(old)
        new = await broker.create("flights", (ME,))
        # All at once, as a controller that hurries would: the new topic can come before the end of the old.
        stopped, led, _ = await asyncio.gather(
            broker.stop(old, 0),
            broker.decide(new, 0),
            broker.update(described(new, (ME,)), deleted=(old,)),
        )
        assert (stopped, led) == (OK, OK)
        await assert_empty(broker, new)
        assert name_of((await broker.fetch(old)).error_code) == "UNKNOWN_TOPIC"
        assert name_of((await broker.produce(old)).error_code) == "UNKNOWN_TOPIC"
        assert broker.quarantined() == {broker.on_disk(old).name}
        assert set(await broker.held()) == {(new.topic_id, 0)}

    run(zookeeper_hosts, tmp_path, test)


def test_a_broker_that_never_hears_a_stop_finds_out_by_the_metadata(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def test(broker: Scripted) -> None:
        old = await led_topic(broker, "flights")
        kept = await led_topic(broker, "airports")
        await broker.delete(old)
        await broker.update(deleted=(old,))
        await broker.until_quarantined(old)
        assert set(await broker.held()) == {(kept.topic_id, 0)}
        assert (await broker.produce(kept)).base_offset == 3

    run(zookeeper_hosts, tmp_path, test)


def test_metadata_alone_stops_nothing_that_zookeeper_still_assigns(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def test(broker: Scripted) -> None:
        topic = await led_topic(broker, "flights", partitions=2)
        await broker.update(full=True)
        await broker.update(deleted=(topic,))
        gone = await led_topic(broker, "gone")
        await broker.delete(gone)
        await broker.update(full=True)
        # The one that is really gone is looked at together with the others.
        await broker.until_quarantined(gone)
        assert set(await broker.held()) == {(topic.topic_id, 0), (topic.topic_id, 1)}
        await broker.update(described(topic, (ME,), (ME,)))
        assert (await broker.produce(topic, 1)).base_offset == 3

    run(zookeeper_hosts, tmp_path, test)


def test_a_replica_that_was_moved_away_is_put_aside(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def test(broker: Scripted) -> None:
        topic = await led_topic(broker, "flights", partitions=2)
        await broker.set_state(topic, 0, OTHER, 1, (OTHER,))
        await broker.assign(topic, (OTHER,), (ME,))
        await broker.update(described(topic, (OTHER,), (ME,)))
        await broker.until_quarantined(topic, 0)
        assert name_of((await broker.fetch(topic, 0)).error_code) == "NOT_LEADER"
        assert (await broker.produce(topic, 1)).base_offset == 3

    run(zookeeper_hosts, tmp_path, test)


def test_a_removed_partition_that_comes_back_starts_empty(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def test(broker: Scripted) -> None:
        topic = await led_topic(broker, "flights", partitions=2)
        # Neither a stop nor metadata reaches the broker: it hears of it when the number is back.
        await broker.remove_states(topic, 1)
        await broker.assign(topic, (ME,), (ME,), first_epochs={1: 1})
        await broker.add_state(topic, 1, ME, (ME,), epoch=1)
        # As after a restart, it leads in no epoch that it may have led in before.
        assert await broker.decide(topic, 1, first_epoch=1) == FENCED
        await broker.set_state(topic, 1, ME, 2, (ME,))
        assert await broker.decide(topic, 1, first_epoch=1) == OK
        assert broker.quarantined() == {broker.on_disk(topic, 1).name}
        await assert_empty(broker, topic, 1)
        assert (await broker.produce(topic, 0)).base_offset == 3

    run(zookeeper_hosts, tmp_path, test)


def test_a_removed_partition_that_was_stopped_and_comes_back_starts_empty_at_once(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def test(broker: Scripted) -> None:
        topic = await led_topic(broker, "flights", partitions=2)
        await broker.remove_states(topic, 1)
        await broker.assign(topic, (ME,), first_epochs={1: 1})
        assert await broker.stop(topic, 1) == OK
        removed = metadata_pb2.TopicMetadata(
            topic=topic.name,
            topic_id=topic.topic_id,
            error_code=ErrorCode.ERROR_CODE_UNKNOWN_PARTITION,
            partitions=[metadata_pb2.PartitionMetadata(partition=1)],
        )
        await broker.update(removed)
        assert name_of((await broker.produce(topic, 1)).error_code) == "UNKNOWN_PARTITION"
        await broker.assign(topic, (ME,), (ME,), first_epochs={1: 1})
        await broker.add_state(topic, 1, ME, (ME,), epoch=1)
        assert await broker.decide(topic, 1, first_epoch=1) == OK
        await assert_empty(broker, topic, 1)

    run(zookeeper_hosts, tmp_path, test)


def test_whoever_waits_at_a_replica_that_is_stopped_is_answered_at_once(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def test(broker: Scripted) -> None:
        topic = await broker.create("flights", (ME, OTHER))
        assert await broker.decide(topic, 0) == OK
        await broker.update(described(topic, (ME, OTHER)))
        producing = asyncio.create_task(broker.produce(topic, timeout_ms=30_000))

        async def appended() -> bool:
            return (await broker.held())[topic.topic_id, 0].log_end_offset == 1

        await until(appended, "the record waits for the other replica")
        fetching = asyncio.create_task(broker.fetch(topic, max_wait_ms=30_000))
        await broker.fetch(topic)
        assert not producing.done()
        assert await broker.stop(topic, 0) == OK
        # Half of what they would wait by themselves.
        produced, read = await asyncio.wait_for(asyncio.gather(producing, fetching), 15)
        assert name_of(produced.error_code) == "NOT_LEADER", "it may be committed: nobody promises otherwise"
        assert name_of(read.error_code) == "NOT_LEADER"

    # The other one never fetches, and must not leave the ISR for it meanwhile.
    run(zookeeper_hosts, tmp_path, test, "--replica-lag-time-max-ms", "600000")


def test_settings_change_without_a_new_leader_epoch(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def test(broker: Scripted) -> None:
        topic = await led_topic(broker, "flights")
        assert await broker.decide(topic, 0, configs={"max.message.bytes": "2000"}) == OK
        large = await broker.produce(topic, 0, bytes(5_000))
        assert name_of(large.error_code) == "BATCH_TOO_LARGE"
        assert await broker.decide(topic, 0) == OK
        assert name_of((await broker.produce(topic, 0, bytes(5_000))).error_code) == "OK"

    run(zookeeper_hosts, tmp_path, test)


# --- while the broker is down ----------------------------------------------------------------------


def test_a_topic_deleted_and_created_again_while_the_broker_is_down_is_never_served_with_old_data(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def test(broker: Scripted) -> None:
        old = await led_topic(broker, "flights")
        await broker.terminate()
        await broker.delete(old)
        new = await broker.create("flights", (ME,))
        await broker.start()
        await broker.until_quarantined(old)
        await lead_again(broker, new, 0, 1)
        await assert_empty(broker, new)
        assert name_of((await broker.fetch(old)).error_code) == "UNKNOWN_TOPIC"

    run(zookeeper_hosts, tmp_path, test)


def test_what_was_moved_away_or_removed_while_the_broker_is_down_is_put_aside(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def test(broker: Scripted) -> None:
        topic = await led_topic(broker, "flights", partitions=4)
        await broker.kill()
        await broker.set_state(topic, 1, OTHER, 1, (OTHER,))
        await broker.remove_states(topic, 2, 3)
        # Partition 2 is there again, under the next leader epoch; 3 is not.
        await broker.assign(topic, (ME,), (OTHER,), (ME,), first_epochs={2: 1, 3: 1})
        await broker.add_state(topic, 2, ME, (ME,), epoch=1)
        await broker.start()
        for partition in (1, 2, 3):
            await broker.until_quarantined(topic, partition)
        await lead_again(broker, topic, 0, 1)
        assert (await broker.produce(topic, 0)).base_offset == 3
        await broker.set_state(topic, 2, ME, 2, (ME,))
        assert await broker.decide(topic, 2, first_epoch=1) == OK
        await assert_empty(broker, topic, 2)

    run(zookeeper_hosts, tmp_path, test)


@pytest.mark.parametrize("spoilt_by", [b"not JSON", b'{"0":[1]}'], ids=["garbage", "an operator"])
def test_what_zookeeper_does_not_say_for_certain_is_left_alone(
    zookeeper_hosts: str, tmp_path: Path, spoilt_by: bytes
) -> None:
    async def test(broker: Scripted) -> None:
        spoilt = await led_topic(broker, "spoilt")
        gone = await led_topic(broker, "gone")
        await broker.terminate()
        await broker.delete(gone)
        readable = (await broker.session.get(TopicZnode.path("spoilt"))).data
        await broker.session.set(TopicZnode.path("spoilt"), spoilt_by, -1)
        await broker.start()

        async def looked() -> bool:
            return "does not say for certain" in broker.process.log_tail(50)

        await until(looked, "the broker has looked at what it holds")
        # Of neither: the id of the topic that cannot be read may be either's.
        assert broker.quarantined() == set()
        assert broker.on_disk(spoilt).exists()
        await broker.terminate()
        await broker.session.set(TopicZnode.path("spoilt"), readable, -1)
        await broker.start()
        await broker.until_quarantined(gone)
        await lead_again(broker, spoilt, 0, 1)
        assert (await broker.produce(spoilt)).base_offset == 3

    run(zookeeper_hosts, tmp_path, test)


# --- stops and recoveries ----------------------------------------------------------------------------


def test_a_stop_that_comes_while_the_log_is_recovered_leaves_nothing_of_it(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def test(broker: Scripted) -> None:
        topic = await led_topic(broker, "flights")
        for _ in range(40):
            await broker.produce(topic, 0, bytes(1_000_000))
        await broker.kill()
        # Without leaderAndISR the log is not opened at startup, and is left where it is.
        await broker.remove_states(topic, 0)
        await broker.start()
        await broker.add_state(topic, 0, ME, (ME,), epoch=1)
        decisions = await broker.decisions(topic, 0)
        led, stopped = await asyncio.gather(broker.send(decisions), broker.stop(topic, 0, epoch=1))
        assert stopped == OK
        assert broker.quarantined() == {broker.on_disk(topic).name}
        assert led == FENCED, "it leads in no epoch that it may have led in before"
        held = (await broker.held()).get((topic.topic_id, 0))
        # Where the stop overtook the decision on its way, that began anew.
        assert held is None or held.log_end_offset == 0

    run(zookeeper_hosts, tmp_path, test)


def test_another_clusters_zookeeper_proves_nothing(zookeeper_hosts: str) -> None:
    held = HeldReplica((bytes(16), 0), "flights", 1, 1)

    async def main() -> None:
        session = await ZooKeeperSession.connect(zookeeper_hosts)
        try:
            cluster_id = await session.ensure_cluster_id()
            assert await read_stored(session, cluster_id, [held]) is not None
            # As of a ZooKeeper that lost its data: everything is gone from it.
            await session.set(ClusterIdZnode.path(), ClusterIdZnode("another").encode(), -1)
            assert await read_stored(session, cluster_id, [held]) is None
            await session.delete(ClusterIdZnode.path())
            assert await read_stored(session, cluster_id, [held]) is None
        finally:
            await session.close()

    asyncio.run(main())


@pytest.mark.parametrize("spoilt", [TopicZnode.path("t"), LeaderAndIsrZnode.path("t", 0)])
def test_a_broker_whose_logs_are_in_doubt_does_not_start_before_its_partitions_can_be_read(
    zookeeper_hosts: str, tmp_path: Path, spoilt: str
) -> None:
    """It would count as in sync as soon as somebody corrects the znode, whatever its disk has lost."""

    async def test(broker: Scripted) -> None:
        await led_topic(broker, "t")
        await broker.terminate()
        (broker.data / "machine_boot_id").unlink()
        readable = (await broker.session.get(spoilt)).data
        await broker.session.set(spoilt, b"not JSON", -1)
        with pytest.raises(AssertionError, match=f"cannot decode what ZooKeeper has of {spoilt}"):
            await broker.start()
        await broker.session.set(spoilt, readable, -1)
        await broker.start()
        told = LeaderAndIsrZnode.decode((await broker.session.get(LeaderAndIsrZnode.path("t", 0))).data)
        assert [log.broker_id for log in told.recovered] == [ME]

    run(zookeeper_hosts, tmp_path, test)
