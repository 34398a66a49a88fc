"""The coordinator as a process, with consumers as raw messages on real streams (§7 to §11)."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc
import pytest
from hightide import Admin
from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from hightide.v1.errors_pb2 import ErrorCode
from hightide_local.cluster import LocalCluster
from hightide_runtime.addresses import HostPort
from hightide_runtime.channels import open_channel
from integration.controller_harness import until
from integration.scripted_consumer import PATIENCE_S, RawConsumer, Refused, refusal_of

pytestmark = pytest.mark.cluster


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


@contextlib.asynccontextmanager
async def connected(cluster: LocalCluster) -> AsyncIterator[grpc.aio.Channel]:
    async with open_channel(HostPort.parse(cluster.address_of(cluster.active_coordinator()))) as channel:
        yield channel


def on_a_channel(cluster: LocalCluster, test: Callable[[grpc.aio.Channel], Awaitable[None]]) -> None:
    async def run() -> None:
        async with connected(cluster) as channel, asyncio.timeout(3 * PATIENCE_S):
            await test(channel)

    asyncio.run(run())


def group_name() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


def subscribed(channel: grpc.aio.Channel, group: str, topic: str, **options: Any) -> RawConsumer:
    return RawConsumer(channel, group, topics=[pb.TopicStreams(topic=topic)], **options)


async def answered(call: Awaitable[Any]) -> Any:
    """What an RPC answers. Raises Refused."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise refusal_of(error) from None


async def described(channel: grpc.aio.Channel, group: str) -> pb.DescribeGroupResponse:
    request = pb.DescribeGroupRequest(group=group)
    response: pb.DescribeGroupResponse = await answered(
        CoordinatorServiceStub(channel).DescribeGroup(request, timeout=5)
    )
    return response


async def committed(channel: grpc.aio.Channel, group: str) -> dict[int, int]:
    """Partition → committed offset, of groups with one topic."""
    response = await answered(
        CoordinatorServiceStub(channel).FetchOffsets(pb.FetchOffsetsRequest(group=group), timeout=5)
    )
    return {each.partition: each.offset for each in response.offsets}


async def commit(
    channel: grpc.aio.Channel, group: str, member_id: str, *offsets: pb.OffsetCommit
) -> list[pb.OffsetCommitResult]:
    request = pb.CommitOffsetsRequest(group=group, member_id=member_id, offsets=offsets)
    response = await answered(CoordinatorServiceStub(channel).CommitOffsets(request, timeout=5))
    return list(response.offsets)


async def refusal_at_registration(consumer: RawConsumer) -> Refused:
    with pytest.raises(Refused) as raised:
        await consumer.join()
    return raised.value


def test_a_consumer_alone_is_given_every_partition_from_its_beginning(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(channel: grpc.aio.Channel) -> None:
        group = group_name()
        consumer = await subscribed(channel, group, topic).join()
        assert consumer.registered.consumer_id
        assert consumer.registered.member_id
        assert consumer.registered.ping_interval_ms == 10_000 // 3
        assert consumer.registered.answer_timeout_ms == 20_000 // 3
        await consumer.until_reading(*((topic, number) for number in range(4)))
        assert {offset for offset, _ in consumer.reading.values()} == {0}
        group_now = await described(channel, group)
        assert (group_now.state, group_now.generation) == (pb.GROUP_STATE_STABLE, consumer.generation)
        assert [len(member.partitions) for member in group_now.members] == [4]
        await consumer.leave()

    on_a_channel(cluster, test)


def test_a_second_consumer_takes_half_and_the_first_stops_only_that(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(channel: grpc.aio.Channel) -> None:
        group = group_name()
        first = await subscribed(channel, group, topic).join()
        await first.until_reading(*((topic, number) for number in range(4)))
        first.positions = {(topic, number): 10 + number for number in range(4)}
        second = await subscribed(channel, group, topic).join()
        stop = await first.order()
        assert stop.WhichOneof("message") == "stop_fetcher"
        assert len(stop.stop_fetcher.partitions) == 2
        start = await second.order()
        assert start.WhichOneof("message") == "start_fetcher"
        assert set(second.reading) | set(first.reading) == {(topic, number) for number in range(4)}
        assert not set(second.reading) & set(first.reading)
        # Where the first one had come to is where the second one begins.
        assert {name[1]: offset for name, (offset, _) in second.reading.items()} == {
            name[1]: 10 + name[1] for name in second.reading
        }
        await second.leave()
        await first.until_reading(*((topic, number) for number in range(4)))
        await first.leave()

    on_a_channel(cluster, test)


def test_a_consumer_is_pinged_and_its_positions_become_durable(cluster: LocalCluster, topic: str) -> None:
    async def test(channel: grpc.aio.Channel) -> None:
        group = group_name()
        consumer = await subscribed(channel, group, topic, session_timeout_ms=1_000).join()
        await consumer.until_reading(*((topic, number) for number in range(4)))
        consumer.positions = {(topic, 0): 7}

        async def is_durable() -> bool:
            return (await committed(channel, group)).get(0) == 7

        await until(is_durable, "the position is durable")
        assert consumer.pings >= 1
        await consumer.leave()

    on_a_channel(cluster, test)


def test_a_goodbye_commits_its_positions_before_the_stream_ends(cluster: LocalCluster, topic: str) -> None:
    async def test(channel: grpc.aio.Channel) -> None:
        group = group_name()
        consumer = await subscribed(channel, group, topic).join()
        await consumer.until_reading(*((topic, number) for number in range(4)))
        consumer.positions = {(topic, number): 100 + number for number in range(4)}
        await consumer.leave()
        assert await committed(channel, group) == {number: 100 + number for number in range(4)}
        assert (await described(channel, group)).state == pb.GROUP_STATE_EMPTY

    on_a_channel(cluster, test)


def test_a_consumer_that_answers_no_ping_is_declared_dead_and_the_others_take_over(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(channel: grpc.aio.Channel) -> None:
        group = group_name()
        dying = await subscribed(channel, group, topic, session_timeout_ms=1_000).join()
        await dying.until_reading(*((topic, number) for number in range(4)))
        dying.answers_pings = False
        heir = await subscribed(channel, group, topic, session_timeout_ms=1_000).join()
        error = await dying.end()
        assert error.reason == "SESSION_TIMED_OUT"
        await heir.until_reading(*((topic, number) for number in range(4)))
        await heir.leave()

    on_a_channel(cluster, test)


def test_a_consumer_whose_stream_breaks_comes_back_as_itself_and_nothing_moves(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(channel: grpc.aio.Channel) -> None:
        group = group_name()
        consumer = await subscribed(channel, group, topic).join()
        other = await subscribed(channel, group, topic).join()
        while len(consumer.reading) != 2 or len(other.reading) != 2:
            await (consumer if len(consumer.reading) != 2 else other).order()
        before = dict(consumer.reading)
        generation = (await described(channel, group)).generation
        consumer.vanish()
        await consumer.end()
        await consumer.come_back(channel)
        retained = {(each.topic, each.partition): each.generation for each in consumer.registered.retained}
        assert retained == {name: given for name, (_, given) in before.items()}
        assert (await described(channel, group)).generation == generation
        for each in (consumer, other):
            await each.leave()

    on_a_channel(cluster, test)


def test_an_explicit_commit_is_durable_when_it_is_answered_and_fenced(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(channel: grpc.aio.Channel) -> None:
        group = group_name()
        consumer = await subscribed(channel, group, topic, auto_commit=False).join()
        await consumer.until_reading(*((topic, number) for number in range(4)))
        me = consumer.registered.member_id
        given = consumer.reading[topic, 1][1]

        def offset(value: int, **more: Any) -> pb.OffsetCommit:
            fields = {"topic": topic, "partition": 1, "generation": given, "leader_epoch": -1, **more}
            return pb.OffsetCommit(offset=value, **fields)

        assert [each.error_code for each in await commit(channel, group, me, offset(5))] == [0]
        assert (await committed(channel, group))[1] == 5
        codes = [
            (await commit(channel, group, who, what))[0].error_code
            for who, what in (
                (me, offset(4)),
                (me, offset(6, generation=given + 1)),
                (me, offset(6, partition=99)),
            )
        ]
        with pytest.raises(Refused, match="INVALID_REQUEST"):
            await commit(channel, group, me, offset(-1))
        assert codes[:2] == [ErrorCode.ERROR_CODE_COMMIT_GOES_BACK, ErrorCode.ERROR_CODE_FENCED_GENERATION]
        assert 0 not in codes
        assert (await commit(channel, group, me, offset(4, reset=True)))[0].error_code == 0
        assert (await committed(channel, group))[1] == 4
        for stranger in ("nobody", ""):
            with contextlib.suppress(Refused):
                results = await commit(channel, group, stranger, offset(9))
                assert results[0].error_code != 0
        assert (await committed(channel, group))[1] == 4
        await consumer.leave()

    on_a_channel(cluster, test)


def test_an_operator_resets_and_deletes_a_group_without_members_only(
    cluster: LocalCluster, topic: str
) -> None:
    async def test(channel: grpc.aio.Channel) -> None:
        group = group_name()
        stub: Any = CoordinatorServiceStub(channel)
        consumer = await subscribed(channel, group, topic).join()
        await consumer.until_reading(*((topic, number) for number in range(4)))
        reset = pb.ResetOffsetsRequest(
            group=group, offsets=[pb.OffsetCommit(topic=topic, partition=2, offset=0, leader_epoch=-1)]
        )
        for refused in (
            stub.ResetOffsets(reset, timeout=5),
            stub.DeleteGroup(pb.DeleteGroupRequest(group=group), timeout=5),
        ):
            with pytest.raises(Refused, match="GROUP_NOT_EMPTY"):
                await answered(refused)
        consumer.positions = {(topic, 2): 50}
        await consumer.leave()
        results = (await answered(stub.ResetOffsets(reset, timeout=5))).offsets
        assert [(each.error_code, each.previous_offset) for each in results] == [(0, 50)]
        assert (await committed(channel, group))[2] == 0
        listed = (await answered(stub.ListGroups(pb.ListGroupsRequest(), timeout=5))).groups
        assert group in {each.group for each in listed}
        await answered(stub.DeleteGroup(pb.DeleteGroupRequest(group=group), timeout=5))
        with pytest.raises(Refused, match="UNKNOWN_GROUP"):
            await described(channel, group)

    on_a_channel(cluster, test)


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
    async def test(channel: grpc.aio.Channel) -> None:
        registration = {"group": group_name(), "topics": [pb.TopicStreams(topic="flights")], **fields}
        error = await refusal_at_registration(RawConsumer(channel, **registration))
        assert error.reason == reason
        assert error.message

    on_a_channel(cluster, test)


def test_a_consumer_id_of_a_living_member_is_taken(cluster: LocalCluster, topic: str) -> None:
    async def test(channel: grpc.aio.Channel) -> None:
        group = group_name()
        first = await subscribed(channel, group, topic, consumer_id="one").join()
        error = await refusal_at_registration(subscribed(channel, group, topic, consumer_id="one"))
        assert error.reason == "CONSUMER_ID_TAKEN"
        await first.leave()

    on_a_channel(cluster, test)


@pytest.mark.parametrize("fence", [{"sequence": 99}, {"coordinator_epoch": 99, "sequence": 1}])
def test_an_answer_out_of_turn_ends_the_stream(
    cluster: LocalCluster, topic: str, fence: dict[str, Any]
) -> None:
    async def test(channel: grpc.aio.Channel) -> None:
        consumer = await subscribed(channel, group_name(), topic).join()
        await consumer.order()
        wrong = pb.RegisterConsumerResponse(generation=consumer.generation, **fence)
        await consumer.say(answering=wrong, ping=pb.PingAnswer())
        assert (await consumer.end()).reason in {"ANSWER_OUT_OF_TURN", "STALE_COORDINATOR_EPOCH"}
        await consumer.come_back(channel)
        await consumer.leave()

    on_a_channel(cluster, test)


def test_a_second_registration_on_a_stream_ends_it(cluster: LocalCluster, topic: str) -> None:
    async def test(channel: grpc.aio.Channel) -> None:
        consumer = await subscribed(channel, group_name(), topic).join()
        await consumer.say(registration=consumer.registration)
        assert (await consumer.end()).reason == "INVALID_REQUEST"

    on_a_channel(cluster, test)


def test_partitions_of_a_growing_topic_and_topics_that_match_come_to_the_group(cluster: LocalCluster) -> None:
    prefix = f"p-{uuid.uuid4().hex[:6]}"
    group = group_name()

    async def test(channel: grpc.aio.Channel) -> None:
        consumer = await RawConsumer(channel, group, pattern=f"{prefix}-.*").join()
        with Admin(cluster.bootstrap) as admin:
            await asyncio.to_thread(admin.create_topic, f"{prefix}-a", partitions=1, replication_factor=1)
            await consumer.until_reading((f"{prefix}-a", 0))
            await asyncio.to_thread(admin.add_partitions, f"{prefix}-a", 2)
            await consumer.until_reading((f"{prefix}-a", 0), (f"{prefix}-a", 1))
            await asyncio.to_thread(admin.delete_topic, f"{prefix}-a")
            await consumer.until_reading()
        await consumer.leave()

    on_a_channel(cluster, test)
