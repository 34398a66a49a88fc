"""What the text on the consumer coordinator says step by step, where no other test says it on real processes:
retries that are counted (§8), names before their topics (§6), each reason for a rebalance that §9 lists, an
attempt that fails and is made again, and a group that cannot be helped and says so.

One coordinator; broker 2 is there to be killed. Stories that wait run side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from hightide import Admin, Consumer, Producer, TopicPartition
from hightide.v1 import coordinator_service_pb2 as pb
from hightide_local.cluster import LocalCluster
from hightide_runtime.znodes.group_znodes import GroupZnode, OffsetZnode, OwnerZnode
from integration.controller.controller_harness import until
from integration.controller.zookeeper_operator import ZooKeeperOperator
from integration.coordinator.group_reading import Reading
from integration.coordinator.raw_consumer import Manner, RawConsumer, RawGroups, with_groups

pytestmark = pytest.mark.cluster

SHORT_MS = 12_000
"""A third of it is what a consumer that answers at once has to be heard in, and so has a test that answers in
its place; two busy cores may keep both waiting."""
LONG_MS = 20_000
"""So long a new coordinator waits for consumers to come back, and for one that there never was."""
STORIES_S = 200
FLIGHTS = [("flights", number) for number in range(4)]
AWAY = "broker-2"
MISSING = ("flights", 3)
"""The partition whose owner an operator takes away."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    retries = ("--ping-retries-max", "1", "--rebalance-retries-max", "1")
    backoff = ("--rebalance-backoff-ms", "100", "--rebalance-backoff-max-ms", "2000")
    with LocalCluster(
        tmp_path_factory.mktemp("sections"),
        brokers=2,
        controllers=1,
        coordinators=1,
        session_timeout_ms=4_000,
        coordinator_arguments=(*retries, *backoff),
    ) as running:
        with Admin(running.bootstrap) as admin:
            admin.create_topic("flights", assignment=[[1]] * 4)
            admin.create_topic("ferries", assignment=[[1], [2]])
        yield running


@pytest.fixture
def address(cluster: LocalCluster) -> str:
    return cluster.address_of(cluster.active_coordinator())


async def pair(groups: RawGroups, group: str, session_timeout_ms: int = LONG_MS) -> list[RawConsumer]:
    """Two consumers with two partitions of flights each."""
    both = [groups.consumer(group, "flights", session_timeout_ms=session_timeout_ms) for _ in range(2)]
    for consumer in both:
        await consumer.register()
    for consumer in both:
        await has_half(consumer)
    return both


async def has_half(consumer: RawConsumer) -> None:
    await consumer.until("it has half", lambda: len(consumer.owned) == 2)


async def has_all(consumer: RawConsumer) -> None:
    await consumer.until_owns(*FLIGHTS)


# -- §8: failure detection -----------------------------------------------------------------------------------


async def misses_one_ping_at_a_time(groups: RawGroups) -> None:
    """More than `ping_retries_max` in a row: one may be missed, and the next one says so."""
    consumer = groups.consumer("forgetful", "flights", session_timeout_ms=SHORT_MS)
    await consumer.register()
    await has_all(consumer)
    consumer.manners["ping"] = Manner.HOLD
    for _ in range(2):
        await is_pinged(consumer, retry_count=1)
        silent_since = asyncio.get_running_loop().time()
        await consumer.answer(consumer.orders[-1])
        await is_pinged(consumer, retry_count=0)
    ending = await consumer.ended()
    assert ending.reason == "SESSION_TIMED_OUT"
    # The session timeout, and a third of it for the Ping that may be missed.
    assert asyncio.get_running_loop().time() - silent_since > 1.3 * SHORT_MS / 1000
    assert {order.ping.retry_count for order in consumer.orders if order.WhichOneof("message") == "ping"} == {
        0,
        1,
    }


async def is_pinged(consumer: RawConsumer, retry_count: int) -> None:
    """From now on, once, and told so."""
    before = len(consumer.orders)
    await consumer.until(
        f"a ping says {retry_count}",
        lambda: any(order.ping.retry_count == retry_count for order in consumer.orders[before:]),
    )


# -- §9 step 5: an attempt that is not answered in time ------------------------------------------------------


async def answers_a_stop_at_the_second_attempt(groups: RawGroups) -> None:
    """An order that is unanswered for two thirds of the session timeout fails the attempt, and not the
    consumer, which answers pings. A late answer to it does not complete the next attempt (C1)."""
    slow = groups.consumer("slow", "flights", session_timeout_ms=SHORT_MS)
    await slow.register()
    await has_all(slow)
    slow.manners["stop_fetcher"] = Manner.HOLD
    heir = groups.consumer("slow", "flights", session_timeout_ms=SHORT_MS)
    await heir.register()
    first = await slow.until_told("stop_fetcher")
    second = await slow.until_told("stop_fetcher", 2)
    assert second.sequence > first.sequence
    assert slow.ending is None
    assert heir.owned == {}
    described = await groups.describe("slow")
    assert described.state in (pb.GROUP_STATE_REBALANCING, pb.GROUP_STATE_FAILED)
    assert slow.welcome is not None
    assert slow.welcome.consumer_id in described.reason
    lost = [(each.topic, each.partition) for each in second.stop_fetcher.partitions]
    kept = {place: slow.owned[place] for place in lost}
    await slow.answer(first)
    # What follows from the late answer comes before the answer to this.
    await groups.describe("slow")
    await heir.until_told("ping", heir.kinds.count("ping") + 1)
    assert heir.owned == {}, "the late answer completes nothing"
    slow.owned.update(kept)
    # The second order may have expired, too, while this process stood still: then it is the next one.
    slow.manners.clear()
    for order in list(slow.held):
        if order.WhichOneof("message") == "stop_fetcher":
            await slow.answer(order)
    await heir.until_owns(*lost)
    await groups.until_group("slow", "stable", lambda group: group.state == pb.GROUP_STATE_STABLE)


# -- §6: topics and partitions -------------------------------------------------------------------------------


def follows_a_name_and_a_pattern(cluster: LocalCluster) -> Callable[[RawGroups], Coroutine[Any, Any, None]]:
    async def story(groups: RawGroups) -> None:
        """Named before it exists; it grows; it goes with what was committed; a namesake begins anew."""
        by_name = groups.consumer("by-name", "barges", session_timeout_ms=LONG_MS)
        by_pattern = groups.consumer("by-pattern", pattern="bar.*s", session_timeout_ms=LONG_MS)
        both = ((by_name, "by-name"), (by_pattern, "by-pattern"))
        with Admin(cluster.bootstrap) as admin:
            for consumer, _ in both:
                await consumer.register()
            await asyncio.to_thread(admin.create_topic, "barges", assignment=[[1]])
            await asyncio.gather(*(consumer.until_owns(("barges", 0)) for consumer, _ in both))
            await asyncio.to_thread(admin.add_partitions, "barges", 2)
            for consumer, group in both:
                await consumer.until_owns(("barges", 0), ("barges", 1))
                assert "stop_fetcher" not in consumer.kinds, "a topic that grows stops nobody"
                await asyncio.to_thread(produce, cluster, "barges", 3)
                assert consumer.welcome is not None
                done = await groups.commit(
                    group,
                    ("barges", 0),
                    3,
                    member_id=consumer.welcome.member_id,
                    generation=consumer.owned["barges", 0].generation,
                )
                assert done == "OK"
            await asyncio.to_thread(admin.delete_topic, "barges")
            for consumer, group in both:
                await consumer.until_owns()
                await groups.until_group(group, "offsets are gone", lambda group: not group.offsets)
            await asyncio.to_thread(admin.create_topic, "barges", assignment=[[1]])
            for consumer, _ in both:
                await consumer.until_owns(("barges", 0))
                assert consumer.owned["barges", 0].offset == 0

    return story


def produce(cluster: LocalCluster, topic: str, count: int) -> None:
    with Producer(cluster.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"record %d" % number, partition=0)


def test_names_missed_pings_and_late_answers(cluster: LocalCluster, address: str) -> None:
    follow = follows_a_name_and_a_pattern(cluster)

    async def stories(groups: RawGroups) -> None:
        async with asyncio.TaskGroup() as side_by_side:
            side_by_side.create_task(misses_one_ping_at_a_time(groups))
            side_by_side.create_task(answers_a_stop_at_the_second_attempt(groups))
            side_by_side.create_task(follow(groups))

    with_groups(address, stories, STORIES_S)


# -- §9 step 3: is a rebalance necessary? --------------------------------------------------------------------


def test_each_reason_for_a_rebalance_that_a_new_coordinator_finds_in_zookeeper(
    cluster: LocalCluster, address: str
) -> None:
    """While no coordinator runs, ZooKeeper is changed; everybody comes back with what it reads."""

    async def story(groups: RawGroups) -> None:
        names = ("same", "unowned", "one-missing", "one-too-many", "other-owner")
        members = dict(zip(names, await asyncio.gather(*(pair(groups, name) for name in names)), strict=True))
        before = {name: await groups.describe(name) for name in names}
        kept = {name: [set(each.owned) for each in both] for name, both in members.items()}
        operator = await asyncio.to_thread(ZooKeeperOperator, cluster)
        cluster.kill("coordinator-1")
        for both in members.values():
            for consumer in both:
                await consumer.ended()
        await asyncio.to_thread(change, operator)
        await asyncio.to_thread(cluster.restart, "coordinator-1")
        again = RawGroups(cluster.address_of(cluster.active_coordinator()))
        try:
            await come_back(again, members)
            after = {name: await again.until_group(name, "stable and owned", is_shared_out) for name in names}
            generations = {name: after[name].generation - before[name].generation for name in names}
            # That nobody owns what is not there is written down without giving anybody anything; and once
            # more, where somebody came back while it was written.
            assert generations.pop("one-too-many") in (0, 1, 2)
            assert generations == {"same": 0, "unowned": 1, "one-missing": 1, "other-owner": 1}
            assert [set(each.owned) for each in members["same"]] == kept["same"]
            undisturbed = [*members["same"], *members["one-too-many"]]
            assert not any(set(each.kinds) - {"ping"} for each in undisturbed)
            # Only what was missing is given anew; the owners of the others go on.
            started = [
                (each.topic, each.partition)
                for consumer in members["one-missing"]
                for order in consumer.orders
                for stream in order.start_fetcher.streams
                for each in stream.partitions
            ]
            assert started == [MISSING]
            await asyncio.to_thread(read_from_the_beginning, cluster)
            assert not operator.zookeeper.exists(OwnerZnode.path("one-too-many", "flights", 9))
            assert not operator.zookeeper.exists(OffsetZnode.path("one-too-many", "flights", 9))
        finally:
            operator.close()
            await again.close()

    with_groups(address, story, STORIES_S)


def change(operator: ZooKeeperOperator) -> None:
    """§9.3.1: nobody owns anything. §9.3.2: a partition has no owner. §9.3.3: one that is not there has.
    §9.3.4: the owner is not who should be."""
    operator.take_away(OwnerZnode.parent("unowned"))
    operator.take_away(OwnerZnode.path("one-missing", *MISSING))
    owner = operator.content(OwnerZnode.path("one-too-many", "flights", 0))
    assert owner is not None
    operator.put(OwnerZnode.path("one-too-many", "flights", 9), owner)
    found = OwnerZnode.decode(operator.content(OwnerZnode.path("other-owner", "flights", 0)) or b"")
    stranger = OwnerZnode("m-nobody", "nobody", "", 0, found.generation, found.topic_id)
    operator.put(OwnerZnode.path("other-owner", "flights", 0), stranger.encode())
    operator.put(GroupZnode.path("ahead"), GroupZnode(1, LONG_MS).encode())
    operator.put(OffsetZnode.path("ahead", "flights", 0), OffsetZnode(1_000, -1, found.topic_id).encode())


def read_from_the_beginning(cluster: LocalCluster) -> None:
    """§11, Ping 2: what is committed is out of range. The consumer goes where it asked to, and commits
    that it went back; it owns what it owned."""
    produce(cluster, "flights", 3)
    with Consumer(cluster.bootstrap, group="ahead", topics="flights", commit_interval_ms=50) as consumer:
        reading = Reading([consumer])
        reading.until(lambda: reading.count() == 3 and len(consumer.assignment) == len(FLIGHTS))
        generations = dict(consumer.generations)
        produce(cluster, "flights", 1)
        reading.until(lambda: reading.count() == 4)
        assert consumer.generations == generations
    with Admin(cluster.bootstrap) as admin:
        assert admin.group_offsets("ahead")[TopicPartition("flights", 0)].offset == 4


async def come_back(groups: RawGroups, members: dict[str, list[RawConsumer]]) -> None:
    for both in members.values():
        for at, old in enumerate(both):
            old.register_again_as()
            new = groups.consumer(old.registration.group)
            new.registration.CopyFrom(old.registration)
            new.seen_coordinator_epoch = old.seen_coordinator_epoch
            new.owned, new.offsets = dict(old.owned), dict(old.offsets)
            await new.register()
            both[at] = new


def is_shared_out(group: pb.DescribeGroupResponse) -> bool:
    owned = [(each.topic, each.partition) for member in group.members for each in member.partitions]
    return group.state == pb.GROUP_STATE_STABLE and sorted(owned) == FLIGHTS


# -- §9: a group that cannot be helped says so ---------------------------------------------------------------


def test_a_group_whose_start_cannot_be_found_out_fails_visibly_and_heals(
    cluster: LocalCluster, address: str
) -> None:
    async def story(groups: RawGroups) -> None:
        await asyncio.to_thread(cluster.kill, AWAY)
        consumer = groups.consumer("stranded", "ferries", session_timeout_ms=LONG_MS)
        await consumer.register()
        await consumer.until_owns(("ferries", 0))  # What can start is not held up.
        failed = await groups.until_group(
            "stranded", "failed", lambda group: group.state == pb.GROUP_STATE_FAILED
        )
        assert "ferries" in failed.reason, failed.reason

        async def is_listed_so() -> bool:
            listed = await groups.ask("ListGroups", pb.ListGroupsRequest())
            return ("stranded", pb.GROUP_STATE_FAILED) in {(each.group, each.state) for each in listed.groups}

        await until(is_listed_so, "it is listed as failed, which it is between two attempts")
        assert consumer.ending is None
        await asyncio.to_thread(cluster.restart, AWAY)
        await consumer.until_owns(("ferries", 0), ("ferries", 1))
        await groups.until_group("stranded", "stable", lambda group: group.state == pb.GROUP_STATE_STABLE)
        assert consumer.kinds.count("stop_fetcher") == 0

    with_groups(address, story, STORIES_S)
