"""What consumers and operators may get wrong, on a real cluster: each gets a typed reason and a sentence that
says what to do, and nobody else notices."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from adversary.raw_client import name_of
from hightide import Admin, Producer
from hightide.v1 import coordinator_service_pb2 as pb
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from integration.coordinator.group_process import GroupProcess
from integration.coordinator.raw_consumer import Ended, Ending, Manner, RawConsumer, RawGroups, with_groups

pytestmark = pytest.mark.cluster

RECORDS = 7
SHORT_MS = 7_500
"""Of those that are to be pinged soon. This process has two thirds of it to answer in."""
GIVEN_UP_MS = 9_000
"""Of one that is to be given up, and has to be seen before that."""
CALM_MS = 60_000
"""For so long a crowd may keep nobody else waiting, and for a third of it where a stream breaks. On a slow
machine ten thousand registrations take 10 s, and beside other tests 50 s."""
AT_ONCE = 10_000
GROUPS_AT_ONCE = 3_000
CROWD_PATIENCE_S = 180
"""A crowd is mostly this process's own work, which a busy machine draws out."""
CROWD_SESSION_MS = 300_000
"""Members are pinged three times in it. With 60 s, ten thousand pings came 20 s after the registrations, and
kept this one process from all else on a busy machine: its answers were late, and those to
gRPC's own pings."""
ZOOKEEPER_SESSION_MS = 30_000
"""A coordinator whose loop does not turn for half of it resigns, and consumers have to come back, which
those of these tests do not. Once it did not turn for 2 s beside other tests; why was not found out. The
default is 6 s."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("bad-groups"),
        brokers=1,
        controllers=1,
        coordinators=1,
        session_timeout_ms=ZOOKEEPER_SESSION_MS,
    ) as running:
        with Admin(running.bootstrap) as admin:
            admin.create_topic("flights", assignment=[[1], [1]])
            admin.create_topic("ships", assignment=[[1]])
            admin.create_topic("ferries", assignment=[[1]])
        with Producer(running.bootstrap) as producer:
            for number in range(2 * RECORDS):
                producer.send("flights", b"record %d" % number, partition=number % 2)
        yield running


@pytest.fixture
def address(cluster: LocalCluster) -> str:
    return cluster.address_of(cluster.active_coordinator())


async def refused(consumer: RawConsumer) -> Ending:
    """How a registration ends that must not succeed."""
    with pytest.raises(Ended):
        await consumer.register()
    assert consumer.ending is not None
    assert consumer.ending.is_typed_error, consumer.ending
    return consumer.ending


async def settled(groups: RawGroups, group: str, **fields: Any) -> RawConsumer:
    """A consumer that is alone in its group, and reads both partitions."""
    consumer = groups.consumer(group, "flights", **fields)
    await consumer.register()
    await consumer.until_owns(("flights", 0), ("flights", 1))
    return consumer


async def is_undisturbed(consumer: RawConsumer) -> None:
    """It goes on being pinged, and is neither stopped nor started."""
    pings = consumer.kinds.count("ping")
    await consumer.until_told("ping", pings + 2)
    assert set(consumer.kinds) == {"start_fetcher", "ping"}
    assert consumer.kinds.count("start_fetcher") == 1


# ---- registrations


def test_a_consumer_id_that_is_taken(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        first = await settled(groups, "taken", consumer_id="reader", session_timeout_ms=SHORT_MS)
        for member_id in ("", "guessed"):
            second = groups.consumer("taken", "flights", consumer_id="reader", member_id=member_id)
            ending = await refused(second)
            assert ending.reason == "CONSUMER_ID_TAKEN"
            assert "'reader' of group taken" in ending.message
        await is_undisturbed(first)

    with_groups(address, story)


def test_a_consumer_that_knows_its_member_id_replaces_its_own_stream_and_no_other(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        first = await settled(groups, "returning", consumer_id="reader")
        assert first.welcome is not None
        again = groups.consumer(
            "returning", "flights", consumer_id="reader", member_id=first.welcome.member_id
        )
        again.seen_coordinator_epoch = first.seen_coordinator_epoch
        assert (await again.register()).member_id == first.welcome.member_id
        assert (await first.ended()).is_typed_error
        await again.until_owns(("flights", 0), ("flights", 1))

    with_groups(address, story)


REGISTRATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "session timeout below the minimum": ({"session_timeout_ms": 499}, "INVALID_SESSION_TIMEOUT"),
    "no session timeout": ({"session_timeout_ms": 0}, "INVALID_SESSION_TIMEOUT"),
    "negative session timeout": ({"session_timeout_ms": -1}, "INVALID_SESSION_TIMEOUT"),
    "session timeout of days": ({"session_timeout_ms": 2**31 - 1}, "INVALID_SESSION_TIMEOUT"),
    "unknown assignor": ({"assignor": "fair"}, "UNKNOWN_ASSIGNOR"),
    "pattern that does not compile": ({"topics": "", "pattern": "flights["}, "INVALID_PATTERN"),
    "pattern that looks behind": ({"topics": "", "pattern": "(?<=a)b"}, "INVALID_PATTERN"),
    "pattern that repeats itself": ({"topics": "", "pattern": r"(a+)\1"}, "INVALID_PATTERN"),
    "pattern that grows": ({"topics": "", "pattern": "((a{100}){100}){100}"}, "INVALID_PATTERN"),
    "pattern of a book's length": ({"topics": "", "pattern": "a" * 100_000}, "INVALID_PATTERN"),
    "topics and a pattern": ({"pattern": "f.*"}, "INVALID_REQUEST"),
    "neither topics nor a pattern": ({"topics": ""}, "INVALID_REQUEST"),
    "topic that can have no such name": ({"topics": "../etc"}, "INVALID_TOPIC_NAME"),
    "too many streams": ({"topics": {"flights": 65}}, "INVALID_REQUEST"),
    "fewer streams than none": ({"topics": {"flights": -1}}, "INVALID_REQUEST"),
    "too many topics": ({"topics": {f"t{n}": 1 for n in range(1_001)}}, "LIMIT_EXCEEDED"),
    "group without a name": ({"group": ""}, "INVALID_GROUP_NAME"),
    "group that is a path": ({"group": "a/../b"}, "INVALID_GROUP_NAME"),
    "group with a long name": ({"group": "g" * 250}, "INVALID_GROUP_NAME"),
    "consumer id that is a path": ({"consumer_id": "/"}, "INVALID_GROUP_NAME"),
    "instance id with a blank": ({"instance_id": "a b"}, "INVALID_GROUP_NAME"),
    "member id of a book's length": ({"member_id": "m" * 100_000}, "INVALID_REQUEST"),
    "offset reset from the future": ({"offset_reset": 9}, "INVALID_REQUEST"),
}


@pytest.mark.parametrize("wrong", REGISTRATIONS)
def test_a_registration_that_cannot_be_accepted(address: str, wrong: str) -> None:
    fields, reason = REGISTRATIONS[wrong]

    async def story(groups: RawGroups) -> None:
        asked: dict[str, Any] = {"group": "wrong", "topics": "flights", **fields}
        ending = await refused(groups.consumer(**asked))
        assert ending.reason == reason, ending
        answer = await groups.ask("DescribeGroup", pb.DescribeGroupRequest(group="wrong"))
        assert isinstance(answer, Ending)
        assert answer.reason == "UNKNOWN_GROUP", "it left nothing behind"

    with_groups(address, story)


def test_a_topic_that_stands_twice_in_a_registration(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        consumer = groups.consumer("twice", "flights")
        consumer.registration.topics.add(topic="flights", streams=2)
        assert (await refused(consumer)).reason == "INVALID_REQUEST"

    with_groups(address, story)


def test_a_consumer_that_has_seen_a_newer_coordinator(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        consumer = groups.consumer("newer", "flights")
        consumer.seen_coordinator_epoch = 1_000
        assert (await refused(consumer)).reason == "STALE_COORDINATOR_EPOCH"
        await settled(groups, "older")  # Nobody was deposed by it.

    with_groups(address, story)


def test_a_claim_to_partitions_of_others_is_not_retained(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        first = await settled(groups, "claims", session_timeout_ms=SHORT_MS)
        stranger = groups.consumer("claims", "ships")
        for place, each in first.owned.items():
            stranger.registration.owned.add(topic=place[0], partition=place[1], generation=each.generation)
        assert list((await stranger.register()).retained) == []
        await stranger.until_owns(("ships", 0))
        await is_undisturbed(first)

    with_groups(address, story)


# ---- streams


def test_a_stream_that_begins_with_anything_but_a_registration(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        consumer = groups.consumer("mute", "flights")
        for message in (
            pb.RegisterConsumerRequest(),
            pb.RegisterConsumerRequest(ping=pb.PingAnswer(), sequence=1, coordinator_epoch=1),
            pb.RegisterConsumerRequest(goodbye=pb.ConsumerGoodbye()),
        ):
            assert (await groups.first_words(message)).reason in ("INVALID_REQUEST", "ANSWER_OUT_OF_TURN")
        await consumer.register()

    with_groups(address, story)


def test_bytes_that_are_no_message(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        for noise in (b"\xff" * 50, b"\x22\x7f", bytes(1_000)):
            assert (await groups.first_words(noise)).is_typed_error
        await settled(groups, "after-noise")

    with_groups(address, story)


def test_a_second_registration_on_a_stream(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        consumer = await settled(groups, "two-faced")
        await consumer.say(pb.RegisterConsumerRequest(registration=consumer.registration))
        assert (await consumer.ended()).reason in ("INVALID_REQUEST", "ANSWER_OUT_OF_TURN")

    with_groups(address, story)


TURNS = {
    "an order that was never given": {"sequence": 1_000},
    "no order": {"sequence": 0},
    "an order before the first": {"sequence": -5},
    "an order of another coordinator": {"coordinator_epoch": 1_000},
    "an order of no coordinator": {"coordinator_epoch": 0},
}


@pytest.mark.parametrize("kind", ["ping", "start_fetcher"])
def test_an_answer_out_of_turn_ends_the_stream_as_if_it_had_broken(address: str, kind: str) -> None:
    async def answers(groups: RawGroups, turn: str) -> None:
        group = f"turn-{kind}-{list(TURNS).index(turn)}"
        consumer = groups.consumer(group, "flights", session_timeout_ms=GIVEN_UP_MS)
        consumer.manners[kind] = Manner.HOLD
        await consumer.register()
        order = await consumer.until_told(kind)
        await consumer.answer(order, **TURNS[turn])
        ending = await consumer.ended()
        assert ending.reason == "ANSWER_OUT_OF_TURN", (turn, ending)
        assert group in ending.message
        consumer.manners.clear()
        consumer.register_again_as()
        await consumer.register()
        await consumer.until_owns(("flights", 0), ("flights", 1))

    async def story(groups: RawGroups) -> None:
        async with asyncio.TaskGroup() as side_by_side:
            for turn in TURNS:
                side_by_side.create_task(answers(groups, turn))

    with_groups(address, story)


def test_an_answer_of_the_wrong_kind(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        consumer = groups.consumer("wrong-kind", "flights")
        consumer.manners["start_fetcher"] = Manner.HOLD
        await consumer.register()
        order = await consumer.until_told("start_fetcher")
        await consumer.say(
            pb.RegisterConsumerRequest(
                coordinator_epoch=order.coordinator_epoch,
                generation=order.generation,
                sequence=order.sequence,
                stop_fetcher=pb.StopFetcherAnswer(),
            )
        )
        assert (await consumer.ended()).reason == "ANSWER_OUT_OF_TURN"

    with_groups(address, story)


def test_an_answer_that_comes_twice_changes_nothing(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        consumer = await settled(groups, "stutters", session_timeout_ms=SHORT_MS)
        for order in list(consumer.orders):
            await consumer.answer(order)
        await is_undisturbed(consumer)

    with_groups(address, story)


def test_a_position_that_is_no_offset_ends_the_stream(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        consumer = await settled(groups, "below-zero", session_timeout_ms=SHORT_MS, auto_commit=True)
        order = await consumer.until_told("ping")
        (place, first), *_ = consumer.owned.items()
        wrong = pb.ConsumedPosition(
            topic=place[0], partition=place[1], generation=first.generation, offset=-3, leader_epoch=-1
        )
        await consumer.say(
            pb.RegisterConsumerRequest(
                coordinator_epoch=order.coordinator_epoch,
                sequence=order.sequence,
                ping=pb.PingAnswer(positions=[wrong]),
            )
        )
        assert (await consumer.ended()).reason == "INVALID_REQUEST"

    with_groups(address, story)


def test_a_consumer_that_never_reads_its_stream_is_dead_after_its_session_timeout(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        deaf = groups.consumer("deaf", "flights", session_timeout_ms=GIVEN_UP_MS)
        await deaf.open(reads=False)
        await groups.until_group("deaf", "it is a member", lambda group: len(group.members) == 1)
        listens = groups.consumer("deaf", "flights")
        await listens.register()
        await listens.until_owns(("flights", 0), ("flights", 1))
        ending = await deaf.ended()
        assert ending.reason == "SESSION_TIMED_OUT", ending
        described = await groups.describe("deaf")
        assert len(described.members) == 1

    with_groups(address, story)


# ---- commits


def test_commits_by_who_does_not_own_the_partition(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        owner = await settled(groups, "owned")
        assert owner.welcome is not None
        place = ("flights", 0)
        member_id, generation = owner.welcome.member_id, owner.owned[place].generation

        async def commit(offset: int, **fields: Any) -> str:
            return await groups.commit("owned", place, offset, **fields)

        assert await commit(3, member_id=member_id, generation=generation) == "OK"
        assert await commit(4, member_id="a-stranger", generation=generation) == "UNKNOWN_MEMBER"
        assert await commit(4) == "UNKNOWN_MEMBER", "who is no member commits while there are members"
        for other in (generation - 1, generation + 1, 0, -1):
            assert await commit(4, member_id=member_id, generation=other) == "FENCED_GENERATION"
        assert await commit(2, member_id=member_id, generation=generation) == "COMMIT_GOES_BACK"
        assert await groups.committed("owned") == {place: 3, ("flights", 1): 0}
        assert await commit(2, member_id=member_id, generation=generation, reset=True) == "OK"
        await owner.leave()
        assert await commit(4, member_id=member_id, generation=generation) == "UNKNOWN_MEMBER"
        assert await groups.committed("owned") == {place: 2, ("flights", 1): 0}

    with_groups(address, story)


def test_offsets_that_cannot_be(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        member = await settled(groups, "offsets")
        assert member.welcome is not None
        place = ("flights", 0)
        fence = {"member_id": member.welcome.member_id, "generation": member.owned[place].generation}

        async def commit(offset: int, where: tuple[str, int] = place, **fields: Any) -> str:
            return await groups.commit("offsets", where, offset, **{**fence, **fields})

        assert await commit(-1) == "INVALID_REQUEST"
        assert await commit(-(2**63)) == "INVALID_REQUEST"
        assert await commit(1, leader_epoch=-2) == "INVALID_REQUEST"
        assert await commit(1, metadata="m" * 4_097) == "INVALID_REQUEST"
        assert await commit(1, ("no-such-topic", 0)) == "UNKNOWN_TOPIC"
        assert await commit(1, ("flights", 2)) == "UNKNOWN_PARTITION"
        assert await commit(1, ("flights", -1)) == "UNKNOWN_PARTITION"
        assert await groups.committed("offsets") == {place: 0, ("flights", 1): 0}

    with_groups(address, story)


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_reset_beyond_the_end(address: str, validate_only: bool) -> None:
    async def story(groups: RawGroups) -> None:
        async def reset(offset: int, where: tuple[str, int] = ("flights", 0)) -> str:
            asked = pb.OffsetCommit(topic=where[0], partition=where[1], offset=offset, leader_epoch=-1)
            answer = await groups.ask(
                "ResetOffsets",
                pb.ResetOffsetsRequest(group="beyond", offsets=[asked], validate_only=validate_only),
            )
            return answer.reason if isinstance(answer, Ending) else name_of(answer.offsets[0].error_code)

        assert await reset(-1) == "INVALID_REQUEST"
        assert await reset(RECORDS + 1) == "OFFSET_OUT_OF_RANGE"
        assert await reset(2**63 - 1) == "OFFSET_OUT_OF_RANGE"
        assert await reset(1, ("no-such-topic", 0)) == "UNKNOWN_TOPIC"
        assert await reset(1, ("flights", 2)) == "UNKNOWN_PARTITION"
        assert await reset(RECORDS) == "OK", "the end itself is where the next record will be"

    with_groups(address, story)


def test_a_commit_of_who_is_no_member_beyond_the_end(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        place = ("flights", 0)
        for offset in (RECORDS + 1, 2**63 - 1):
            assert await groups.commit("strangers", place, offset) == "OFFSET_OUT_OF_RANGE"
        for offset in (1, RECORDS):
            assert await groups.commit("strangers", place, offset) == "OK"

    with_groups(address, story)


def test_one_wrong_offset_spoils_no_other(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        member = await settled(groups, "mixed")
        assert member.welcome is not None
        request = pb.CommitOffsetsRequest(group="mixed", member_id=member.welcome.member_id)
        for partition, offset in ((0, 3), (1, 4)):
            generation = member.owned["flights", partition].generation - (partition == 0)
            request.offsets.add(
                topic="flights", partition=partition, generation=generation, offset=offset, leader_epoch=-1
            )
        answer = await groups.ask("CommitOffsets", request)
        assert isinstance(answer, pb.CommitOffsetsResponse)
        assert [bool(each.error_message) for each in answer.offsets] == [True, False]
        assert (await groups.committed("mixed"))["flights", 1] == 4

    with_groups(address, story)


def test_requests_that_make_no_sense(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        commit = pb.OffsetCommit(topic="flights", offset=1, leader_epoch=-1)
        many = [pb.OffsetCommit(topic="flights", partition=n, offset=1) for n in range(10_001)]
        for method, request, reason in (
            ("CommitOffsets", pb.CommitOffsetsRequest(group="a/b", offsets=[commit]), "INVALID_GROUP_NAME"),
            ("CommitOffsets", pb.CommitOffsetsRequest(group="g", offsets=[commit] * 2), "INVALID_REQUEST"),
            ("CommitOffsets", pb.CommitOffsetsRequest(group="g", offsets=many), "LIMIT_EXCEEDED"),
            ("ResetOffsets", pb.ResetOffsetsRequest(group="", offsets=[commit]), "INVALID_GROUP_NAME"),
            ("DescribeGroup", pb.DescribeGroupRequest(group="nobody"), "UNKNOWN_GROUP"),
            ("DeleteGroup", pb.DeleteGroupRequest(group="nobody"), "UNKNOWN_GROUP"),
        ):
            answer = await groups.ask(method, request)
            assert isinstance(answer, Ending), (method, answer)
            assert (answer.reason, answer.is_typed_error) == (reason, True), (method, answer)

    with_groups(address, story)


def test_a_group_with_members_is_neither_reset_nor_deleted(address: str) -> None:
    async def story(groups: RawGroups) -> None:
        await settled(groups, "busy")
        commit = pb.OffsetCommit(topic="flights", offset=1, leader_epoch=-1)
        for method, request in (
            ("ResetOffsets", pb.ResetOffsetsRequest(group="busy", offsets=[commit])),
            ("DeleteGroup", pb.DeleteGroupRequest(group="busy")),
        ):
            answer = await groups.ask(method, request)
            assert isinstance(answer, Ending), method
            assert answer.reason == "GROUP_NOT_EMPTY"

    with_groups(address, story)


# ---- too many


async def outcome(consumer: RawConsumer) -> str:
    """What became of a registration: "member", or why it was refused."""
    try:
        await consumer.until("it is registered", lambda: consumer.welcome is not None, CROWD_PATIENCE_S)
    except Ended:
        assert consumer.ending is not None
        return consumer.ending.reason or f"{consumer.ending.status}: {consumer.ending.message}"
    return "member"


def test_ten_thousand_registrations_at_once_are_members_or_told_so(
    cluster: LocalCluster, address: str
) -> None:
    """Of one group, from a few connections; a consumer of another group is served all the while. It is a
    process of its own: in this one its answers would wait behind the ten thousand tasks of the crowd."""

    async def story(groups: RawGroups) -> None:
        connections = [groups.connection() for _ in range(10)]
        await asyncio.gather(*(each.channel_ready() for each in connections))
        crowd = [
            groups.consumer(
                "crowd",
                "ships",
                session_timeout_ms=CROWD_SESSION_MS,
                channel=connections[number % len(connections)],
            )
            for number in range(AT_ONCE)
        ]
        await asyncio.gather(*(consumer.open() for consumer in crowd))
        became = Counter(await asyncio.gather(*map(outcome, crowd)))
        assert became == {"member": AT_ONCE}
        described = await groups.until_group(
            "crowd", "somebody reads", lambda group: any(member.partitions for member in group.members)
        )
        assert len(described.members) == AT_ONCE

    with (
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as producer,
        GroupProcess(cluster.bootstrap, "ferries", "calm", session_timeout_ms=CALM_MS) as calm,
    ):
        producer.send("ferries", b"1").result()
        wait_until("the calm one reads", lambda: calm.numbers == [1], CROWD_PATIENCE_S)
        before = admin.describe_group("calm")
        with_groups(address, story, timeout_s=CROWD_PATIENCE_S)
        producer.send("ferries", b"2").result()
        wait_until("the calm one reads on", lambda: calm.numbers == [1, 2], CROWD_PATIENCE_S)
        after = admin.describe_group("calm")
        assert after.generation == before.generation, after.reason
        # Those of a member that is declared dead are gone before the next generation begins.
        assert after.owners == before.owners


def test_three_thousand_groups_that_begin_at_once_are_all_served(address: str) -> None:
    """Where their partition starts is asked of brokers for all of them together."""

    async def story(groups: RawGroups) -> None:
        connections = [groups.connection() for _ in range(10)]
        await asyncio.gather(*(each.channel_ready() for each in connections))
        crowd = [
            groups.consumer(
                f"lonely-{number}",
                "ships",
                session_timeout_ms=CROWD_SESSION_MS,
                channel=connections[number % 10],
            )
            for number in range(GROUPS_AT_ONCE)
        ]
        await asyncio.gather(*(consumer.open() for consumer in crowd))
        became = Counter(await asyncio.gather(*map(outcome, crowd)))
        assert became == {"member": GROUPS_AT_ONCE}
        await asyncio.gather(*(consumer.until_owns(("ships", 0)) for consumer in crowd))

    with_groups(address, story, timeout_s=CROWD_PATIENCE_S)


def test_consumers_and_groups_beyond_the_limit_are_refused_until_there_is_room(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with LocalCluster(
        tmp_path_factory.mktemp("few"),
        brokers=1,
        controllers=1,
        coordinators=1,
        coordinator_arguments=["--consumers-max", "3", "--groups-max", "2"],
    ) as few:

        async def story(groups: RawGroups) -> None:
            members = [groups.consumer("few", "flights") for _ in range(3)]
            for member in members:
                await member.register()
            for _ in range(2):
                ending = await refused(groups.consumer("few", "flights"))
                assert ending.reason == "OVERLOADED"
            assert (await members[0].leave()).status is grpc.StatusCode.OK
            await groups.consumer("second", "flights").register()
            await members[1].leave()
            assert (await refused(groups.consumer("third", "flights"))).reason == "LIMIT_EXCEEDED"
            assert await groups.commit("third", ("flights", 0), 0) == "LIMIT_EXCEEDED"

        with_groups(few.address_of(few.active_coordinator()), story)
