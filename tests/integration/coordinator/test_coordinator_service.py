"""The coordinator as a process, with consumers as raw messages on real streams (§7 to §11)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import pytest
from hightide import Admin
from hightide.v1 import coordinator_service_pb2 as pb
from hightide_local.cluster import LocalCluster
from hightide_runtime.znodes.cluster_znodes import TopicZnode
from integration.controller.controller_harness import until
from integration.controller.zookeeper_operator import ZooKeeperOperator
from integration.coordinator.raw_consumer import (
    Ended,
    Ending,
    Manner,
    Place,
    RawConsumer,
    RawGroups,
    with_groups,
)

pytestmark = pytest.mark.cluster

SHORT_MS = 7_500
"""Of those that are to be pinged soon, or to be given up: a test that stands still for two thirds of it has
answered too late."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("coordinator"), brokers=1, controllers=1, coordinators=1
    ) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    """A new topic of four partitions."""
    return created(cluster, partitions=4)


def created(cluster: LocalCluster, partitions: int) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=partitions, replication_factor=1)
    return name


def with_coordinator(cluster: LocalCluster, test: Callable[[RawGroups], Awaitable[None]]) -> None:
    with_groups(cluster.address_of(cluster.active_coordinator()), test)


def group_name() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


async def registered(groups: RawGroups, group: str, topic: str = "", **options: Any) -> RawConsumer:
    consumer = groups.consumer(group, topic, **{"auto_commit": True, **options})
    await consumer.register()
    return consumer


async def left(*consumers: RawConsumer) -> None:
    """Each says goodbye, and its stream ends well."""
    for consumer in consumers:
        assert (await consumer.leave()).status is grpc.StatusCode.OK


async def committed(groups: RawGroups, group: str) -> dict[int, int]:
    """Partition → committed offset, of groups with one topic."""
    return {partition: offset for (_, partition), offset in (await groups.committed(group)).items()}


async def refusal_at_registration(consumer: RawConsumer) -> Ending:
    with pytest.raises(Ended):
        await consumer.register()
    assert consumer.ending is not None
    return consumer.ending


def places(topic: str, count: int = 4) -> list[Place]:
    return [(topic, number) for number in range(count)]


def test_a_consumer_alone_is_given_every_partition_from_its_beginning(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(groups: RawGroups) -> None:
        group = group_name()
        consumer = await registered(groups, group, topic)
        assert consumer.welcome is not None
        assert consumer.welcome.consumer_id
        assert consumer.welcome.member_id
        assert consumer.welcome.ping_interval_ms == 30_000 // 3
        assert consumer.welcome.answer_timeout_ms == 60_000 // 3
        await consumer.until_owns(*places(topic))
        assert {each.offset for each in consumer.owned.values()} == {0}
        # The answer to the order is on its way, on another connection.
        group_now = await groups.until_group(
            group, "stable", lambda told: told.state == pb.GROUP_STATE_STABLE
        )
        assert group_now.generation == consumer.orders[-1].generation
        assert [len(member.partitions) for member in group_now.members] == [4]
        await left(consumer)

    with_coordinator(cluster, test)


def test_a_second_consumer_takes_half_and_the_first_stops_only_that(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(groups: RawGroups) -> None:
        group = group_name()
        first = await registered(groups, group, topic)
        await first.until_owns(*places(topic))
        first.offsets = {place: 10 + place[1] for place in places(topic)}
        second = await registered(groups, group, topic)
        stop = await first.until_told("stop_fetcher")
        assert len(stop.stop_fetcher.partitions) == 2
        await second.until_told("start_fetcher")
        assert sorted([*first.owned, *second.owned]) == places(topic)
        # Where the first one had come to is where the second one begins.
        assert {place: each.offset for place, each in second.owned.items()} == {
            place: 10 + place[1] for place in second.owned
        }
        await left(second)
        await first.until_owns(*places(topic))
        await left(first)

    with_coordinator(cluster, test)


def test_a_consumer_is_pinged_and_its_positions_become_durable(cluster: LocalCluster, topic: str) -> None:
    async def test(groups: RawGroups) -> None:
        group = group_name()
        consumer = await registered(groups, group, topic, session_timeout_ms=SHORT_MS)
        await consumer.until_owns(*places(topic))
        consumer.offsets[topic, 0] = 7

        async def is_durable() -> bool:
            return (await committed(groups, group)).get(0) == 7

        await until(is_durable, "the position is durable")
        assert "ping" in consumer.kinds
        await left(consumer)

    with_coordinator(cluster, test)


def test_a_goodbye_commits_its_positions_before_the_stream_ends(cluster: LocalCluster, topic: str) -> None:
    async def test(groups: RawGroups) -> None:
        group = group_name()
        consumer = await registered(groups, group, topic)
        await consumer.until_owns(*places(topic))
        consumer.offsets = {place: 100 + place[1] for place in places(topic)}
        await left(consumer)
        assert await committed(groups, group) == {number: 100 + number for number in range(4)}
        assert (await groups.describe(group)).state == pb.GROUP_STATE_EMPTY

    with_coordinator(cluster, test)


def test_a_consumer_that_answers_no_ping_is_declared_dead_and_the_others_take_over(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(groups: RawGroups) -> None:
        group = group_name()
        dying = await registered(groups, group, topic, session_timeout_ms=SHORT_MS)
        await dying.until_owns(*places(topic))
        dying.manners["ping"] = Manner.HOLD
        heir = await registered(groups, group, topic)
        assert (await dying.ended()).reason == "SESSION_TIMED_OUT"
        await heir.until_owns(*places(topic))
        await left(heir)

    with_coordinator(cluster, test)


def test_a_consumer_whose_stream_breaks_comes_back_as_itself_and_nothing_moves(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(groups: RawGroups) -> None:
        group = group_name()
        consumer = await registered(groups, group, topic)
        other = await registered(groups, group, topic)
        await consumer.until("it owns half", lambda: len(consumer.owned) == 2)
        await other.until("it owns half", lambda: len(other.owned) == 2)
        before = {place: each.generation for place, each in consumer.owned.items()}
        generation = (await groups.describe(group)).generation
        consumer.drop()
        await consumer.ended()
        welcome = await consumer.come_back(groups.connection())
        assert {(each.topic, each.partition): each.generation for each in welcome.retained} == before
        assert (await groups.describe(group)).generation == generation
        await left(consumer, other)

    with_coordinator(cluster, test)


def test_an_explicit_commit_is_durable_when_it_is_answered_and_fenced(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(groups: RawGroups) -> None:
        group = group_name()
        consumer = await registered(groups, group, topic, auto_commit=False)
        await consumer.until_owns(*places(topic))
        place = (topic, 1)
        given = consumer.owned[place].generation

        async def commit(offset: int, place: Place = place, **fields: Any) -> str:
            assert consumer.welcome is not None
            me = {"member_id": consumer.welcome.member_id, "generation": given}
            return await groups.commit(group, place, offset, **{**me, **fields})

        assert await commit(5) == "OK"
        assert (await committed(groups, group))[1] == 5
        assert await commit(4) == "COMMIT_GOES_BACK"
        assert await commit(6, generation=given + 1) == "FENCED_GENERATION"
        assert await commit(6, (topic, 99)) == "UNKNOWN_PARTITION"
        assert await commit(-1) == "INVALID_REQUEST"
        assert await commit(4, reset=True) == "OK"
        assert (await committed(groups, group))[1] == 4
        for stranger in ("nobody", ""):
            assert await commit(9, member_id=stranger) == "UNKNOWN_MEMBER"
        assert (await committed(groups, group))[1] == 4
        await left(consumer)

    with_coordinator(cluster, test)


def test_an_operator_resets_and_deletes_a_group_without_members_only(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(groups: RawGroups) -> None:
        group = group_name()
        consumer = await registered(groups, group, topic)
        await consumer.until_owns(*places(topic))
        reset = pb.ResetOffsetsRequest(
            group=group, offsets=[pb.OffsetCommit(topic=topic, partition=2, offset=0, leader_epoch=-1)]
        )
        delete = pb.DeleteGroupRequest(group=group)
        assert (await groups.ask("ResetOffsets", reset)).reason == "GROUP_NOT_EMPTY"
        assert (await groups.ask("DeleteGroup", delete)).reason == "GROUP_NOT_EMPTY"
        consumer.offsets[topic, 2] = 50
        await left(consumer)
        results = (await groups.ask("ResetOffsets", reset)).offsets
        assert [(each.error_code, each.previous_offset) for each in results] == [(0, 50)]
        assert (await committed(groups, group))[2] == 0
        listed = (await groups.ask("ListGroups", pb.ListGroupsRequest())).groups
        assert group in {each.group for each in listed}
        assert isinstance(await groups.ask("DeleteGroup", delete), pb.DeleteGroupResponse)
        gone = await groups.ask("DescribeGroup", pb.DescribeGroupRequest(group=group))
        assert gone.reason == "UNKNOWN_GROUP"

    with_coordinator(cluster, test)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"group": "a/b"}, "INVALID_GROUP_NAME"),
        ({"group": ""}, "INVALID_GROUP_NAME"),
        ({"consumer_id": "no spaces"}, "INVALID_GROUP_NAME"),
        ({"session_timeout_ms": 10}, "INVALID_SESSION_TIMEOUT"),
        ({"session_timeout_ms": 2_000_000}, "INVALID_SESSION_TIMEOUT"),
        ({"assignor": "fair"}, "UNKNOWN_ASSIGNOR"),
        ({"topics": [], "pattern": "fl(ights"}, "INVALID_PATTERN"),
        ({"topics": [], "pattern": ""}, "INVALID_REQUEST"),
        ({"pattern": "flights"}, "INVALID_REQUEST"),
        ({"offset_reset": 99}, "INVALID_REQUEST"),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused_with_its_reason(
    cluster: LocalCluster, fields: dict[str, Any], reason: str
) -> None:
    async def test(groups: RawGroups) -> None:
        consumer = groups.consumer(group_name(), "flights")
        for name in fields:
            consumer.registration.ClearField(name)  # type: ignore[arg-type]
        consumer.registration.MergeFrom(pb.ConsumerRegistration(**fields))
        error = await refusal_at_registration(consumer)
        assert error.reason == reason
        assert error.message

    with_coordinator(cluster, test)


def test_a_consumer_id_of_a_living_member_is_taken(cluster: LocalCluster, topic: str) -> None:
    async def test(groups: RawGroups) -> None:
        group = group_name()
        first = await registered(groups, group, topic, consumer_id="one")
        error = await refusal_at_registration(groups.consumer(group, topic, consumer_id="one"))
        assert error.reason == "CONSUMER_ID_TAKEN"
        await left(first)

    with_coordinator(cluster, test)


@pytest.mark.parametrize("fence", [{"sequence": 99}, {"coordinator_epoch": 99, "sequence": 1}])
def test_an_answer_out_of_turn_ends_the_stream(
    cluster: LocalCluster, topic: str, fence: dict[str, Any]
) -> None:
    async def test(groups: RawGroups) -> None:
        consumer = await registered(groups, group_name(), topic)
        await consumer.until_told("start_fetcher")
        epoch = consumer.seen_coordinator_epoch
        wrong = pb.RegisterConsumerRequest(**{"coordinator_epoch": epoch, **fence}, ping=pb.PingAnswer())
        await consumer.say(wrong)
        assert (await consumer.ended()).reason in {"ANSWER_OUT_OF_TURN", "STALE_COORDINATOR_EPOCH"}
        await consumer.come_back(groups.connection())
        await left(consumer)

    with_coordinator(cluster, test)


def test_a_second_registration_on_a_stream_ends_it(cluster: LocalCluster, topic: str) -> None:
    async def test(groups: RawGroups) -> None:
        consumer = await registered(groups, group_name(), topic)
        await consumer.say(pb.RegisterConsumerRequest(registration=consumer.registration))
        assert (await consumer.ended()).reason == "INVALID_REQUEST"

    with_coordinator(cluster, test)


def test_partitions_of_a_growing_topic_and_topics_that_match_come_to_the_group(cluster: LocalCluster) -> None:
    prefix = f"p-{uuid.uuid4().hex[:6]}"
    group = group_name()

    async def test(groups: RawGroups) -> None:
        consumer = await registered(groups, group, pattern=f"{prefix}-.*")
        with Admin(cluster.bootstrap) as admin:
            await asyncio.to_thread(admin.create_topic, f"{prefix}-a", partitions=1, replication_factor=1)
            await consumer.until_owns((f"{prefix}-a", 0))
            await asyncio.to_thread(admin.add_partitions, f"{prefix}-a", 2)
            await consumer.until_owns((f"{prefix}-a", 0), (f"{prefix}-a", 1))
            await asyncio.to_thread(admin.delete_topic, f"{prefix}-a")
            await consumer.until_owns()
        await left(consumer)

    with_coordinator(cluster, test)


def test_offsets_of_a_topic_that_made_no_sense_at_takeover_count_when_it_does_again(
    cluster: LocalCluster, topic: str
) -> None:
    group = group_name()
    operator = ZooKeeperOperator(cluster)
    path = TopicZnode.path(topic)

    async def commit(groups: RawGroups) -> None:
        assert await groups.commit(group, (topic, 0), 0) == "OK"

    async def correct(groups: RawGroups) -> None:
        assert await groups.committed(group) == {}
        operator.put(path, content)

        async def is_told() -> bool:
            return await groups.committed(group) == {(topic, 0): 0}

        await until(is_told, "the offset counts again")

    try:
        with_coordinator(cluster, commit)
        content, _ = operator.zookeeper.get(path)
        operator.put(path, b"nonsense")
        cluster.restart("coordinator-1")
        with_coordinator(cluster, correct)
    finally:
        operator.close()
