"""The hand-spliced bulk messages against the generated classes, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hightide.batch import wire
from hightide.batch.errors import MalformedMessage
from hightide.v1 import broker_service_pb2 as broker
from hightide.v1 import replica_service_pb2 as replica
from hypothesis import given
from hypothesis import strategies as st

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL_BYTES = st.binary(max_size=20)
PIECES = st.lists(st.binary(max_size=300), max_size=3)

PRODUCE_PARTITIONS = st.builds(wire.ProducePartition, SMALL_BYTES, INT32, INT32, PIECES)
PRODUCE_REQUESTS = st.builds(
    wire.ProduceRequest, INT32, INT32, st.lists(PRODUCE_PARTITIONS, max_size=4).map(tuple)
)
FETCH_RESULTS = st.builds(
    wire.FetchPartitionResult,
    SMALL_BYTES,
    INT32,
    INT32,
    st.text(max_size=20),
    INT64,
    INT64,
    INT32,
    INT32,
    PIECES,
    INT64,
    INT32,
)
FETCH_RESPONSES = st.builds(wire.FetchResponse, st.lists(FETCH_RESULTS, max_size=4).map(tuple), INT32)
REPLICA_RESULTS = st.builds(
    wire.ReplicaFetchPartitionResult, SMALL_BYTES, INT32, INT32, INT32, INT64, INT64, PIECES
)
REPLICA_RESPONSES = st.builds(
    wire.ReplicaFetchResponse, INT64, st.lists(REPLICA_RESULTS, max_size=4).map(tuple)
)

CODECS: dict[str, tuple[Any, Callable[[bytes], Any], Callable[[Any], bytes], type]] = {
    "ProduceRequest": (
        PRODUCE_REQUESTS,
        wire.parse_produce_request,
        wire.serialise_produce_request,
        broker.ProduceRequest,
    ),
    "FetchResponse": (
        FETCH_RESPONSES,
        wire.parse_fetch_response,
        wire.serialise_fetch_response,
        broker.FetchResponse,
    ),
    "ReplicaFetchResponse": (
        REPLICA_RESPONSES,
        wire.parse_replica_fetch_response,
        wire.serialise_replica_fetch_response,
        replica.ReplicaFetchResponse,
    ),
}
every_message = pytest.mark.parametrize("name", sorted(CODECS))


def as_plain(message: Any) -> Any:
    """Names and values of a message of either kind, so that the two can be compared."""
    if hasattr(message, "DESCRIPTOR"):
        names = [field.name for field in message.DESCRIPTOR.fields]
    elif hasattr(message, "__dataclass_fields__"):
        names = list(message.__dataclass_fields__)
    elif isinstance(message, memoryview):
        return bytes(message)
    elif isinstance(message, list | tuple) and all(isinstance(piece, bytes) for piece in message) and message:
        return b"".join(message)
    else:
        return message
    plain: dict[str, Any] = {}
    for name in names:
        value = getattr(message, name)
        if name == "partitions":
            plain[name] = [as_plain(item) for item in value]
        elif name == "batches":
            plain[name] = b"".join([value] if isinstance(value, bytes | memoryview) else value)
        else:
            plain[name] = value
    return plain


@every_message
@given(data=st.data())
def test_what_is_written_is_what_protobuf_writes(name: str, data: st.DataObject) -> None:
    strategy, _, serialise, pb2_class = CODECS[name]
    message = data.draw(strategy)
    written = serialise(message)
    theirs = pb2_class()
    theirs.ParseFromString(written)
    assert as_plain(theirs) == as_plain(message)
    assert theirs.SerializeToString(deterministic=True) == written


@every_message
@given(data=st.data())
def test_what_protobuf_writes_is_read_the_same(name: str, data: st.DataObject) -> None:
    strategy, parse, serialise, _ = CODECS[name]
    message = data.draw(strategy)
    assert as_plain(parse(serialise(message))) == as_plain(message)


def assert_read_alike(name: str, message: bytes) -> None:
    _, parse, _, pb2_class = CODECS[name]
    theirs = pb2_class()
    try:
        theirs.ParseFromString(message)
    except DecodeError:
        with pytest.raises(MalformedMessage):
            parse(message)
    else:
        assert as_plain(parse(message)) == as_plain(theirs)


@every_message
@given(data=st.data())
def test_damaged_messages_are_accepted_and_refused_as_by_protobuf(name: str, data: st.DataObject) -> None:
    strategy, _, serialise, _ = CODECS[name]
    written = bytearray(serialise(data.draw(strategy)))
    for _ in range(data.draw(st.integers(1, 3))):
        if not written:
            break
        at = data.draw(st.integers(0, len(written) - 1))
        match data.draw(st.sampled_from(["set", "cut", "insert"])):
            case "set":
                written[at] = data.draw(st.integers(0, 255))
            case "cut":
                del written[at:]
            case _:
                written[at:at] = data.draw(st.binary(min_size=1, max_size=12))
    assert_read_alike(name, bytes(written))


@every_message
@given(message=st.binary(max_size=60))
def test_random_bytes_are_accepted_and_refused_as_by_protobuf(name: str, message: bytes) -> None:
    assert_read_alike(name, message)


@every_message
@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"\x00\x01", id="field number 0"),
        pytest.param(b"\xb8\x3e\x05", id="unknown number"),
        pytest.param(b"\xba\x3e\x02hi", id="unknown bytes"),
        pytest.param(b"\xbb\x3e\x08\x01\xbc\x3e", id="unknown group"),
        pytest.param(b"\xbb\x3e\x08\x01\xc4\x3e", id="group that ends as another"),
        pytest.param(b"\xbb\x3e" * 101 + b"\xbc\x3e" * 101, id="groups nested too deep"),
        pytest.param(b"\xbb\x3e" * 100 + b"\xbc\x3e" * 100, id="groups nested deep"),
        pytest.param(
            b"\x0a\x90\x03" + b"\xbb\x3e" * 100 + b"\xbc\x3e" * 100,
            id="groups nested too deep in a partition",
        ),
        pytest.param(
            b"\x0a\x8c\x03" + b"\xbb\x3e" * 99 + b"\xbc\x3e" * 99, id="groups nested deep in a partition"
        ),
        pytest.param(b"\xbc\x3e", id="end of no group"),
        pytest.param(b"\xbd\x3e\x00\x00\x00\x00", id="unknown fixed32"),
        pytest.param(b"\xbd\x3e\x00\x00\x00", id="torn fixed32"),
        pytest.param(b"\xb9\x3e" + b"\x00" * 8, id="unknown fixed64"),
        pytest.param(b"\x0e\x00", id="wire type 6"),
        pytest.param(b"\x08" + b"\xff" * 9 + b"\x7f", id="number of 70 bits"),
        pytest.param(b"\x08" + b"\xff" * 10 + b"\x01", id="number of 11 bytes"),
        pytest.param(b"\x88\x80\x80\x80\x00\x05", id="tag longer than needed"),
        pytest.param(b"\x88\x80\x80\x80\x80\x00\x05", id="tag of 6 bytes"),
        pytest.param(b"\x1a\xff\xff\xff\xff\x7f", id="size over 2 GiB"),
        pytest.param(b"\x1a\x80\x80\x80\x80\x00", id="size longer than needed"),
        pytest.param(b"\x0d\x00\x00\x00\x00", id="known field of another type"),
    ],
)
def test_corners_of_the_format_are_accepted_and_refused_as_by_protobuf(name: str, message: bytes) -> None:
    assert_read_alike(name, message)


def test_batches_are_views_over_the_received_message() -> None:
    pieces: wire.Buffers = [b"abc", memoryview(b"def")]
    request = wire.ProduceRequest(3, 1000, (wire.ProducePartition(b"t" * 16, 0, -1, pieces),))
    message = wire.serialise_produce_request(request)
    (partition,) = wire.parse_produce_request(message).partitions
    assert partition.batches.obj is message
    assert bytes(partition.batches) == b"abcdef"


def test_more_partitions_than_any_cluster_has_are_refused() -> None:
    with pytest.raises(MalformedMessage):
        wire.parse_fetch_response(b"\x0a\x00" * (wire.PARTITIONS_MAX + 1))
