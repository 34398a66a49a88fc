"""Messages of a consumer become events, effects become messages, and nothing is lost on the way."""

from typing import Any

import pytest
from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.errors_pb2 import ErrorCode
from hightide_coordinator.contract import convert
from hightide_coordinator.contract.convert_requests import cursor_in, described_out, page_out
from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.state.descriptions import GroupDescription, MemberDescription, OffsetPage
from hightide_coordinator.core.state.group import GroupState
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import (
    ConsumerPosition,
    OffsetReset,
    OwnedPartition,
    StoredOffset,
    TopicFilter,
)
from hightide_coordinator.core.values.topic_partition import TopicPartition
from hightide_runtime.errors import CATALOGUE, ServiceError
from hypothesis import given
from hypothesis import strategies as st

FLIGHTS_3 = TopicPartition("flights", 3)


def registration(**fields: Any) -> pb.RegisterConsumerRequest:
    return pb.RegisterConsumerRequest(registration=pb.ConsumerRegistration(group="g", **fields))


@given(
    epoch=st.integers(0, 2**31 - 1),
    generation=st.integers(0, 2**31 - 1),
    sequence=st.integers(1, 2**63 - 1),
    retry_count=st.integers(0, 2**31 - 1),
)
def test_a_spliced_ping_is_byte_for_byte_what_protobuf_writes(
    epoch: int, generation: int, sequence: int, retry_count: int
) -> None:
    spliced = convert.PingTemplate(epoch, generation).ping(sequence, retry_count)
    message = pb.RegisterConsumerResponse(
        coordinator_epoch=epoch,
        generation=generation,
        sequence=sequence,
        ping=pb.Ping(retry_count=retry_count),
    )
    assert spliced == message.SerializeToString()


@pytest.mark.parametrize("refusal", Refusal)
def test_each_refusal_of_the_core_has_its_error(refusal: Refusal) -> None:
    assert CATALOGUE[convert.ERROR_CODES[refusal]] is not None


def test_a_registration_carries_everything_that_a_consumer_says_of_itself() -> None:
    message = registration(
        consumer_id="c",
        member_id="m",
        instance_id="i",
        topics=[pb.TopicStreams(topic="flights", streams=3), pb.TopicStreams(topic="gates")],
        auto_commit=True,
        offset_reset=pb.OFFSET_RESET_LARGEST,
        session_timeout_ms=9_000,
        assignor="range",
        owned=[pb.OwnedPartition(topic="flights", partition=3, generation=7)],
    )
    message.coordinator_epoch = 5
    found = convert.registration_in(message, "127.0.0.1:1")
    assert (found.group, found.consumer_id, found.member_id, found.instance_id) == ("g", "c", "m", "i")
    assert dict(found.topics) == {"flights": 3, "gates": 1}
    assert (found.offset_reset, found.auto_commit, found.assignor) == (OffsetReset.LARGEST, True, "range")
    assert found.owned == (OwnedPartition(FLIGHTS_3, 7),)
    assert (found.seen_coordinator_epoch, found.session_timeout_ms) == (5, 9_000)


def test_a_pattern_has_one_stream_unless_said() -> None:
    assert convert.registration_in(registration(pattern="fl.*"), "").pattern_streams == 1
    told = convert.registration_in(registration(pattern="fl.*", exclude=["b", "a", "b"]), "")
    assert told.filter == TopicFilter("fl.*", ("a", "b")), "equal ones are matched once"


@pytest.mark.parametrize(
    "message",
    [
        pb.RegisterConsumerRequest(),
        pb.RegisterConsumerRequest(ping=pb.PingAnswer()),
        pb.RegisterConsumerRequest(goodbye=pb.ConsumerGoodbye()),
        registration(offset_reset=77),
        registration(topics=[pb.TopicStreams(topic="flights"), pb.TopicStreams(topic="flights")]),
    ],
)
def test_what_is_no_registration_is_refused_as_an_invalid_request(
    message: pb.RegisterConsumerRequest,
) -> None:
    with pytest.raises(ServiceError) as raised:
        convert.registration_in(message, "")
    assert raised.value.code == ErrorCode.ERROR_CODE_INVALID_REQUEST


def test_answers_keep_what_fences_them_and_their_positions() -> None:
    position = pb.ConsumedPosition(topic="flights", partition=3, generation=7, offset=42, leader_epoch=2)
    expected = (ConsumerPosition(FLIGHTS_3, 7, 42, 2),)
    fence: dict[str, Any] = {"coordinator_epoch": 5, "generation": 8, "sequence": 11}
    ping = pb.RegisterConsumerRequest(**fence, ping=pb.PingAnswer(positions=[position]))
    assert convert.answer_in(ping, 1) == ev.PingAnswered(1, 11, 5, 8, expected)
    stop = pb.RegisterConsumerRequest(**fence, stop_fetcher=pb.StopFetcherAnswer(positions=[position]))
    assert convert.answer_in(stop, 1) == ev.FetchersStopped(1, 11, 5, 8, expected)
    start = pb.RegisterConsumerRequest(**fence, start_fetcher=pb.StartFetcherAnswer())
    assert convert.answer_in(start, 1) == ev.FetchersStarted(1, 11, 5, 8)
    goodbye = pb.RegisterConsumerRequest(goodbye=pb.ConsumerGoodbye(positions=[position]))
    assert convert.answer_in(goodbye, 1) == ev.ConsumerLeft(1, expected)


@pytest.mark.parametrize("message", [registration(), pb.RegisterConsumerRequest(sequence=3)])
def test_a_second_registration_and_a_message_that_says_nothing_are_refused(
    message: pb.RegisterConsumerRequest,
) -> None:
    with pytest.raises(ServiceError) as raised:
        convert.answer_in(message, 1)
    assert raised.value.code == ErrorCode.ERROR_CODE_INVALID_REQUEST


def test_a_start_fetcher_groups_its_partitions_by_stream() -> None:
    starts = tuple(
        ef.StartPartition(TopicPartition("flights", number), b"i" * 16, number % 2, 9, 100 + number, 4)
        for number in range(3)
    )
    effect = ef.SendStartFetcher(1, 5, 9, 12, starts, (ev.Endpoint(1, "host", 9092),))
    message = pb.RegisterConsumerResponse.FromString(convert.start_fetcher_out(effect))
    assert (message.coordinator_epoch, message.generation, message.sequence) == (5, 9, 12)
    assert [(s.stream, [p.partition for p in s.partitions]) for s in message.start_fetcher.streams] == [
        (0, [0, 2]),
        (1, [1]),
    ]
    first = message.start_fetcher.streams[0].partitions[0]
    assert (first.topic_id, first.generation, first.offset, first.leader_epoch) == (b"i" * 16, 9, 100, 4)
    assert message.start_fetcher.brokers[0].port == 9092


@pytest.mark.parametrize(
    ("peer", "people_write"),
    [("ipv4:127.0.0.1:4711", "127.0.0.1:4711"), ("ipv6:%5B::1%5D:4711", "[::1]:4711"), ("odd", "odd")],
)
def test_a_peer_is_shown_as_people_write_addresses(peer: str, people_write: str) -> None:
    assert convert.peer_in(peer) == people_write


def test_a_group_is_described_with_its_members_and_offsets() -> None:
    member = MemberDescription(
        "c", "i", "host:1", 9_000, True, {"flights": 2}, "", (OwnedPartition(FLIGHTS_3, 7),), ("x",)
    )
    description = GroupDescription(
        group="g",
        state=GroupState.STABLE,
        reason="consumer c joined",
        generation=7,
        assignor="sticky",
        members=(member,),
        offsets={FLIGHTS_3: StoredOffset(42, 2, b"i" * 16, "note")},
        topics=("flights",),
        coordinator_epoch=5,
        rebalance_count=1,
        last_rebalance_ms=12,
    )
    told = described_out(description, ev.Endpoint(2, "host", 9292))
    assert (told.state, told.coordinator.id, told.generation) == (pb.GROUP_STATE_STABLE, 2, 7)
    assert told.members[0].partitions[0].generation == 7
    assert told.members[0].exclude == ["x"]
    assert (told.offsets[0].offset, told.offsets[0].metadata) == (42, ""), "FetchOffsets tells the metadata"


def test_the_next_page_begins_at_the_cursor_that_the_page_before_it_told() -> None:
    page = page_out(OffsetPage({FLIGHTS_3: StoredOffset(42, 3, b"i" * 16, "mine")}, FLIGHTS_3))
    assert cursor_in(pb.FetchOffsetsRequest(cursor=page.next_cursor)) == FLIGHTS_3
    assert cursor_in(pb.FetchOffsetsRequest()) is None
    assert not page_out(OffsetPage({})).HasField("next_cursor")
