"""An unclean election takes away what consumers have read: they are told, or go back, and never read on over
the gap (KIP-320, C13)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hightide import Consumer, Producer, Record
from hightide.aio import Consumer as AioConsumer
from hightide.errors import DivergingLogError
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S, replica_differences
from hightide_local.histories.waiting import wait_until
from integration.controller.zookeeper_operator import ZooKeeperOperator

pytestmark = pytest.mark.cluster

KEPT, LOST, INSTEAD, FIRST_OF_THEM = 30, 20, 45, 15


@pytest.fixture(scope="module")
def shared_operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperOperator]:
    with LocalCluster(
        tmp_path_factory.mktemp("lost"),
        brokers=2,
        coordinators=1,
        session_timeout_ms=6_000,
    ) as cluster:
        operator = ZooKeeperOperator(cluster)
        yield operator
        operator.close()


@pytest.fixture
def operator(shared_operator: ZooKeeperOperator) -> Iterator[ZooKeeperOperator]:
    """The cluster, whole again after a test that failed halfway."""
    yield shared_operator
    shared_operator.make_whole()


def produce(operator: ZooKeeperOperator, topic: str, word: str, count: int) -> None:
    with Producer(operator.cluster.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%s %d" % (word.encode(), number), partition=0)


def begin(operator: ZooKeeperOperator, topic: str) -> None:
    """Broker 1 leads alone; some records are its own, written in two epochs."""
    operator.admin.create_topic(topic, assignment=[[1, 2]])
    produce(operator, topic, "kept", KEPT)
    # Also where it has left the ISR for a moment, and the other one alone has acknowledged.
    wait_until("broker 2 has what is kept", lambda: end_on(operator, topic, 2) == KEPT, HEALED_S)
    operator.cluster.kill("broker-2")
    wait_until("broker 1 is alone", lambda: operator.partitions(topic)[0].isr == (1,), HEALED_S)
    produce(operator, topic, "lost", LOST // 2)
    epoch = operator.partitions(topic)[0].leader_epoch
    operator.cluster.restart("broker-1")
    wait_until(
        "it leads in a new epoch", lambda: operator.partitions(topic)[0].leader_epoch > epoch, HEALED_S
    )
    produce(operator, topic, "lost", LOST // 2)


def end_on(operator: ZooKeeperOperator, topic: str, broker_id: int) -> int:
    """Where this broker's own log ends."""
    (end,) = [
        each.log_end_offset
        for each in operator.admin.describe_replicas([topic]).replicas
        if each.broker_id == broker_id
    ] or [0]
    return end


def elect_the_one_without_them(operator: ZooKeeperOperator, topic: str) -> None:
    """Broker 2 leads, and has soon more records than broker 1 ever had."""
    operator.cluster.kill("broker-1")
    operator.cluster.restart("broker-2")
    wait_until("nobody leads", lambda: operator.partitions(topic)[0].leader is None, HEALED_S)
    (election,) = operator.admin.elect_leaders("unclean", [operator.partition(topic)])
    assert election.ok
    assert election.leader == 2
    produce(operator, topic, "instead", INSTEAD)


def words(records: list[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


def told(word: str, count: int) -> list[str]:
    return [f"{word} {number}" for number in range(count)]


def read_up_to(consumer: Consumer, end_offset: int) -> list[Record]:
    """Records until the one before this offset has been handed out."""
    records: list[Record] = []
    while not records or records[-1].offset + 1 < end_offset:
        records += consumer.poll(1.0, 1)
    return records


async def aio_read_up_to(consumer: AioConsumer, end_offset: int) -> list[Record]:
    records: list[Record] = []
    while not records or records[-1].offset + 1 < end_offset:
        records += await consumer.poll(1.0, 1)
    return records


ALL_BEFORE = told("kept", KEPT) + told("lost", LOST // 2) * 2


def test_a_consumer_that_has_read_lost_records_goes_back_or_is_told(operator: ZooKeeperOperator) -> None:
    topic, bootstrap = "overtaken", operator.cluster.bootstrap
    begin(operator, topic)
    with (
        Consumer(bootstrap, topics=topic, offset_reset="latest") as goes_back,
        Consumer(bootstrap, topics=topic, offset_reset="error") as wants_to_know,
    ):
        goes_back.seek_to_beginning()
        for consumer in (goes_back, wants_to_know):
            assert words(read_up_to(consumer, KEPT + LOST)) == ALL_BEFORE
        elect_the_one_without_them(operator, topic)
        again = read_up_to(goes_back, KEPT + INSTEAD)
        assert again[0].offset == KEPT
        assert words(again) == told("instead", INSTEAD), "it reads what stands there now"
        with pytest.raises(DivergingLogError) as caught:
            read_up_to(wants_to_know, KEPT + INSTEAD)
        assert caught.value.diverging_end_offset == KEPT
        assert f"records from offset {KEPT} to {KEPT + LOST - 1}, which were read, are lost" in str(
            caught.value
        )
        wants_to_know.seek(operator.partition(topic), caught.value.diverging_end_offset)
        assert words(read_up_to(wants_to_know, KEPT + INSTEAD)) == told("instead", INSTEAD)
    operator.cluster.restart("broker-1")
    wait_until("both are in sync", lambda: len(operator.partitions(topic)[0].isr) == 2, HEALED_S)
    assert replica_differences(operator.cluster, topic) == []


def test_an_asyncio_consumer_that_has_read_lost_records_goes_back_or_is_told(
    operator: ZooKeeperOperator,
) -> None:
    topic, bootstrap = "overtaken-asyncio", operator.cluster.bootstrap
    begin(operator, topic)

    async def story() -> None:
        async with (
            AioConsumer(bootstrap, topics=topic) as goes_back,
            AioConsumer(bootstrap, topics=topic, offset_reset="error") as wants_to_know,
        ):
            for consumer in (goes_back, wants_to_know):
                assert words(await aio_read_up_to(consumer, KEPT + LOST)) == ALL_BEFORE
            await asyncio.to_thread(elect_the_one_without_them, operator, topic)
            assert words(await aio_read_up_to(goes_back, KEPT + INSTEAD)) == told("instead", INSTEAD)
            with pytest.raises(DivergingLogError, match="are lost"):
                await aio_read_up_to(wants_to_know, KEPT + INSTEAD)

    asyncio.run(story())


def test_a_group_goes_on_where_its_log_parts_from_what_it_has_committed(operator: ZooKeeperOperator) -> None:
    """One member stays and goes back; of another group nobody was there when it happened."""
    topic, bootstrap = "overtaken-groups", operator.cluster.bootstrap
    begin(operator, topic)
    with Consumer(bootstrap, topics=topic, group="away") as reads_and_leaves:
        assert words(read_up_to(reads_and_leaves, KEPT + LOST)) == ALL_BEFORE
    with Consumer(bootstrap, topics=topic, group="there", auto_commit=False) as stays:
        assert words(read_up_to(stays, KEPT + LOST)) == ALL_BEFORE
        stays.commit()
        elect_the_one_without_them(operator, topic)
        assert words(read_up_to(stays, KEPT + FIRST_OF_THEM)) == told("instead", FIRST_OF_THEM)
        stays.commit()
        went_back_to = {operator.partition(topic): KEPT + FIRST_OF_THEM}
        assert stays.committed() == went_back_to, "lower than what it had committed"
    with (
        Consumer(bootstrap, topics=topic, group="away", offset_reset="error") as wants_to_know,
        pytest.raises(DivergingLogError) as caught,
    ):
        read_up_to(wants_to_know, KEPT + INSTEAD)
    assert caught.value.diverging_end_offset == KEPT
    with Consumer(bootstrap, topics=topic, group="away") as comes_back:
        assert words(read_up_to(comes_back, KEPT + INSTEAD)) == told("instead", INSTEAD)


def test_clean_elections_and_leaders_that_write_nothing_alarm_nobody(operator: ZooKeeperOperator) -> None:
    """Each broker in turn leads, dies and comes back; every second leader gets nothing to write."""
    topic = "calm"
    operator.admin.create_topic(topic, assignment=[[1, 2]])
    produced = 0
    with Consumer(operator.cluster.bootstrap, topics=topic, offset_reset="error") as consumer:
        for turn in range(4):
            if turn % 2 == 0:
                produce(operator, topic, f"turn {turn}", 5)
                produced += 5
            if turn:
                leader = operator.partitions(topic)[0].leader
                operator.cluster.restart(f"broker-{leader}")
                operator.wait_until_led(topic, 1)
        produce(operator, topic, "last", 5)
        assert len(read_up_to(consumer, produced + 5)) == produced + 5
