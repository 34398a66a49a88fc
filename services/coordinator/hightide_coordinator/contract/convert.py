"""Conversion between the coordinator's dataclasses and protobuf messages, for the stream of a consumer.

`convert_requests` does it for the other RPCs. No other module knows both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias
from urllib.parse import unquote

from google.protobuf.message import DecodeError
from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1 import metadata_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.listeners import Listener, address_told

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import (
    ConsumerPosition,
    OffsetReset,
    OwnedPartition,
    Registration,
)
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = [
    "ERROR_CODES",
    "Answer",
    "PingTemplate",
    "answer_in",
    "endpoint_out",
    "error_of",
    "message_in",
    "owned_out",
    "peer_in",
    "registered_out",
    "registration_in",
    "start_fetcher_out",
    "stop_fetcher_out",
]

ERROR_CODES: Final[Mapping[Refusal, ErrorCode.ValueType]] = {
    refusal: ErrorCode.Value(f"ERROR_CODE_{refusal.name}") for refusal in Refusal
}

#: The messages of a consumer on its stream after its registration.
Answer: TypeAlias = ev.PingAnswered | ev.FetchersStopped | ev.FetchersStarted | ev.ConsumerLeft

_OFFSET_RESETS: Final[Mapping[int, OffsetReset]] = {
    pb.OFFSET_RESET_UNSPECIFIED: OffsetReset.SMALLEST,
    pb.OFFSET_RESET_SMALLEST: OffsetReset.SMALLEST,
    pb.OFFSET_RESET_LARGEST: OffsetReset.LARGEST,
    pb.OFFSET_RESET_ERROR: OffsetReset.ERROR,
}


def error_of(refusal: Refusal, message: str, metadata: Mapping[str, str]) -> ServiceError:
    """The error that a caller gets for a refusal of the core."""
    return ServiceError(ERROR_CODES[refusal], message, metadata)


# ---- from consumers


def message_in(data: bytes) -> pb.RegisterConsumerRequest:
    """Decode one message of a consumer. Raises ServiceError (INVALID_REQUEST) if the bytes are no message."""
    try:
        return pb.RegisterConsumerRequest.FromString(data)
    except DecodeError as error:
        raise _invalid(f"the {len(data)} bytes are no RegisterConsumerRequest ({error})") from None


def registration_in(message: pb.RegisterConsumerRequest, peer: str) -> Registration:
    """The registration in the first message of a stream. Raises ServiceError if it is no registration, or
    contradicts itself. The core checks limits, and everything that depends on the group.
    """
    if message.WhichOneof("message") != "registration":
        content = message.WhichOneof("message") or "nothing"
        raise _invalid(f"the first message of a consumer is its registration, and this one says {content}")
    registration = message.registration
    reset = _OFFSET_RESETS.get(registration.offset_reset)
    if reset is None:
        raise _invalid(f"offset_reset {registration.offset_reset} is unknown; use smallest, largest or error")
    topics = {wanted.topic: wanted.streams or 1 for wanted in registration.topics}
    if len(topics) != len(registration.topics):
        raise _invalid(f"group {registration.group!r}: the registration names a topic twice; name each once")
    return Registration(
        group=registration.group,
        consumer_id=registration.consumer_id,
        member_id=registration.member_id,
        instance_id=registration.instance_id,
        topics=topics,
        pattern=registration.pattern,
        exclude=tuple(sorted(set(registration.exclude))),
        pattern_streams=registration.pattern_streams or 1,
        auto_commit=registration.auto_commit,
        offset_reset=reset,
        session_timeout_ms=registration.session_timeout_ms,
        assignor=registration.assignor,
        owned=tuple(
            OwnedPartition(TopicPartition(owned.topic, owned.partition), owned.generation)
            for owned in registration.owned
        ),
        seen_coordinator_epoch=message.coordinator_epoch,
        peer=peer,
    )


def answer_in(message: pb.RegisterConsumerRequest, connection_id: int) -> Answer:
    """A later message of a stream. Raises ServiceError if it is a second registration, or empty."""
    fence = (connection_id, message.sequence, message.coordinator_epoch, message.generation)
    match message.WhichOneof("message"):
        case "ping":
            return ev.PingAnswered(*fence, _positions_in(message.ping.positions))
        case "stop_fetcher":
            return ev.FetchersStopped(*fence, _positions_in(message.stop_fetcher.positions))
        case "start_fetcher":
            return ev.FetchersStarted(*fence)
        case "goodbye":
            return ev.ConsumerLeft(connection_id, _positions_in(message.goodbye.positions))
        case "registration":
            raise _invalid("this stream carries a registered consumer; open another one to register again")
        case _:
            raise _invalid("a message without content answers nothing")


def _positions_in(positions: Iterable[pb.ConsumedPosition]) -> tuple[ConsumerPosition, ...]:
    return tuple(
        ConsumerPosition(
            TopicPartition(each.topic, each.partition), each.generation, each.offset, each.leader_epoch
        )
        for each in positions
    )


def peer_in(peer: str) -> str:
    """The address of the other end for people, from gRPC's name for it, such as "ipv4:127.0.0.1:4711"."""
    return unquote(peer.partition(":")[2]) or peer


def _invalid(sentence: str) -> ServiceError:
    return ServiceError(ErrorCode.ERROR_CODE_INVALID_REQUEST, sentence)


# ---- to consumers


def registered_out(effect: ef.SendRegistered) -> bytes:
    """The answer to a registration."""
    return _response(
        effect,
        0,
        registered=pb.ConsumerRegistered(
            member_id=effect.member_id,
            consumer_id=effect.consumer_id,
            ping_interval_ms=effect.ping_interval_ms,
            answer_timeout_ms=effect.answer_timeout_ms,
            retained=owned_out(effect.retained),
        ),
    )


def stop_fetcher_out(effect: ef.SendStopFetcher, traceparent: str = "") -> bytes:
    """The order to stop some partitions, with the trace of its rebalance."""
    order = pb.StopFetcher(partitions=owned_out(effect.partitions))
    return _response(effect, effect.sequence, traceparent, stop_fetcher=order)


def start_fetcher_out(
    effect: ef.SendStartFetcher, listener: Listener = Listener.INTERNAL, traceparent: str = ""
) -> bytes:
    """The order to read more partitions, by stream, for a consumer that came in through this listener; with
    the trace of its rebalance."""
    streams: dict[int, list[pb.StartPartition]] = {}
    for start in effect.partitions:
        streams.setdefault(start.stream, []).append(
            pb.StartPartition(
                topic=start.name.topic,
                topic_id=start.topic_id,
                partition=start.name.partition,
                generation=start.generation,
                offset=start.offset,
                leader_epoch=start.leader_epoch,
            )
        )
    order = pb.StartFetcher(
        streams=[pb.ConsumerStream(stream=stream, partitions=streams[stream]) for stream in sorted(streams)],
        brokers=[endpoint_out(broker, listener) for broker in effect.brokers],
    )
    return _response(effect, effect.sequence, traceparent, start_fetcher=order)


def owned_out(partitions: Iterable[OwnedPartition]) -> list[pb.OwnedPartition]:
    """Partitions with the generation in which their owner got them."""
    return [
        pb.OwnedPartition(topic=each.name.topic, partition=each.name.partition, generation=each.generation)
        for each in partitions
    ]


def endpoint_out(endpoint: ev.Endpoint, listener: Listener | None = None) -> metadata_pb2.Endpoint:
    """A broker or coordinator, with its address for clients that came in through this listener, or through
    the current one."""
    address = address_told(endpoint, listener)
    return metadata_pb2.Endpoint(id=endpoint.id, host=address.host, port=address.port)


def _response(
    effect: ef.SendRegistered | ef.SendStopFetcher | ef.SendStartFetcher,
    sequence: int,
    traceparent: str = "",
    *,
    registered: pb.ConsumerRegistered | None = None,
    stop_fetcher: pb.StopFetcher | None = None,
    start_fetcher: pb.StartFetcher | None = None,
) -> bytes:
    return pb.RegisterConsumerResponse(
        coordinator_epoch=effect.coordinator_epoch,
        generation=effect.generation,
        sequence=sequence,
        registered=registered,
        stop_fetcher=stop_fetcher,
        start_fetcher=start_fetcher,
        traceparent=traceparent,
    ).SerializeToString()


class PingTemplate:
    """Makes the Pings of one group at one moment, which differ only in their sequence. It joins bytes, with
    the same result as protobuf. This is worth it because most messages of a coordinator are Pings, and most
    Pings have retry 0."""

    __slots__ = ("_head",)

    def __init__(self, coordinator_epoch: int, generation: int) -> None:
        head = pb.RegisterConsumerResponse(coordinator_epoch=coordinator_epoch, generation=generation)
        self._head = head.SerializeToString() + _SEQUENCE_TAG

    def ping(self, sequence: int, retry_count: int) -> bytes:
        """One Ping; `sequence` is at least 1."""
        tail = _FIRST_PING if retry_count == 0 else _retried(retry_count)
        return self._head + _varint(sequence) + tail


#: The tags of field 3 (a varint) and field 5 (a message).
_SEQUENCE_TAG: Final = b"\x18"
_PING_TAG: Final = b"\x2a"
_FIRST_PING: Final = _PING_TAG + b"\x00"


def _retried(retry_count: int) -> bytes:
    body = pb.Ping(retry_count=retry_count).SerializeToString()
    return _PING_TAG + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    assert value > 0, value
    if value < 0x80:
        return value.to_bytes(1, "little")
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
