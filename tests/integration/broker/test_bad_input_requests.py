"""Requests that ask for what cannot be, for too much, or that are no requests at all: every method of every
service."""

import random
import socket
from collections.abc import Callable, Iterator

import grpc
import pytest
from adversary.batches import good_batch, lying_lengths
from adversary.control import ControlPlane
from adversary.methods import MALFORMED, Method, all_methods, plausible
from adversary.raw_client import Answer, RawClient
from adversary.target import BROKER, Target, code_in, fetch_result, offsets_result
from google.protobuf.message import DecodeError, Message
from hightide.v1 import (
    broker_service_pb2 as broker_pb2,
)
from hightide.v1 import (
    replica_service_pb2 as replica_pb2,
)
from hightide_local.cluster import LocalCluster
from hightide_runtime.serving.request_lists import NAMED_BY

pytestmark = pytest.mark.cluster

TOPIC = "bad-requests"
REPLICA = "/hightide.v1.ReplicaService"
METHODS = [method for method in all_methods() if not method.streaming]
HUNDRED_THOUSAND = 100_000


@pytest.fixture(scope="module")
def shared_target(hightide_cluster: LocalCluster) -> Iterator[Target]:
    control = ControlPlane(hightide_cluster.bootstrap)
    control.create_topic(TOPIC)
    control.close()
    target = Target(hightide_cluster.bootstrap, TOPIC)
    yield target
    target.close()


@pytest.fixture
def target(shared_target: Target) -> Iterator[Target]:
    """The partition; after each test nothing may have been appended to it but what the test has counted."""
    yield shared_target
    shared_target.assert_unharmed()


@pytest.fixture(scope="module")
def servers(hightide_cluster: LocalCluster, shared_target: Target) -> Iterator[Callable[[Method], RawClient]]:
    """Who answers a method: the active controller, the coordinator, or the leader of the partition under
    attack."""
    control = ControlPlane(hightide_cluster.bootstrap)
    (coordinator_address,) = hightide_cluster.coordinators.values()
    coordinator = RawClient(coordinator_address)
    named = {
        "hightide.v1.ControllerService": control.client,
        "hightide.v1.CoordinatorService": coordinator,
    }
    yield lambda method: named.get(method.service, shared_target.leader)
    coordinator.close()
    control.close()


# -- bytes that are no request


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.path)
def test_bytes_that_are_no_message_are_an_invalid_request(
    target: Target, servers: Callable[[Method], RawClient], method: Method
) -> None:
    for name, garbage in MALFORMED.items():
        answer = servers(method).send(method.path, garbage)
        assert (answer.is_typed_error, answer.reason) == (True, "INVALID_REQUEST"), (name, answer)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.path)
def test_random_bytes_are_an_invalid_request(
    target: Target, servers: Callable[[Method], RawClient], method: Method
) -> None:
    chance = random.Random(method.path)
    for size in (1, 2, 7, 80, 1000, 20_000):
        garbage = chance.randbytes(size)
        answer = servers(method).send(method.path, garbage)
        if is_message(method, garbage):
            assert answer.ok or answer.is_typed_error, (garbage[:40], answer)
        else:
            assert (answer.is_typed_error, answer.reason) == (True, "INVALID_REQUEST"), answer


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.path)
def test_a_request_cut_off_or_with_flipped_bits_is_never_the_servers_mistake(
    target: Target, servers: Callable[[Method], RawClient], method: Method
) -> None:
    whole = plausible(method.request).SerializeToString()
    chance = random.Random(method.path)
    mutants = [whole, b""] + [whole[:end] for end in chance.sample(range(len(whole) + 1), min(8, len(whole)))]
    for _ in range(25 if whole else 0):
        flipped = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        mutants.append(bytes(flipped))
    for mutant in mutants:
        answer = servers(method).send(method.path, mutant)
        assert answer.ok or answer.is_typed_error, (mutant, answer)


def is_message(method: Method, data: bytes) -> bool:
    try:
        method.request.FromString(data)
    except DecodeError:
        return False
    return True


def test_a_method_that_is_not_there_is_not_implemented(target: Target) -> None:
    for path in (f"{BROKER}/Nothing", "/hightide.v1.Nothing/Produce", "/x", "//"):
        assert target.leader.send(path, b"").status.name == "UNIMPLEMENTED", path


# -- requests that ask for too much


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.path)
def test_a_call_without_a_deadline_is_answered_all_the_same(
    target: Target, servers: Callable[[Method], RawClient], method: Method
) -> None:
    answer = servers(method).send(method.path, plausible(method.request), timeout_s=None)
    assert answer.ok or answer.is_typed_error, answer
    assert answer.reason != "LIMIT_EXCEEDED", answer


def _produce(target: Target) -> tuple[str, Message]:
    each = [
        broker_pb2.ProducePartition(topic_id=target.topic_id, partition=n) for n in range(HUNDRED_THOUSAND)
    ]
    return f"{BROKER}/Produce", broker_pb2.ProduceRequest(
        acks=broker_pb2.ACKS_ALL, timeout_ms=5000, partitions=each
    )


def _fetch(target: Target) -> tuple[str, Message]:
    each = [broker_pb2.FetchPartition(topic_id=target.topic_id, partition=n) for n in range(HUNDRED_THOUSAND)]
    return f"{BROKER}/Fetch", broker_pb2.FetchRequest(max_bytes=1 << 20, partitions=each)


def _list_offsets(target: Target) -> tuple[str, Message]:
    each = [
        broker_pb2.ListOffsetsPartition(topic_id=target.topic_id, partition=n)
        for n in range(HUNDRED_THOUSAND)
    ]
    return f"{BROKER}/ListOffsets", broker_pb2.ListOffsetsRequest(partitions=each)


def _get_metadata(target: Target) -> tuple[str, Message]:
    topics = map(str, range(HUNDRED_THOUSAND))
    return f"{BROKER}/GetMetadata", broker_pb2.GetMetadataRequest(topics=topics)


def _plain_records(target: Target) -> tuple[str, Message]:
    each = [broker_pb2.PlainRecord(value=b"x")] * HUNDRED_THOUSAND
    return f"{BROKER}/ProduceRecords", broker_pb2.ProduceRecordsRequest(topic=TOPIC, records=each)


@pytest.mark.parametrize("ask", [_produce, _fetch, _list_offsets, _get_metadata, _plain_records])
def test_a_request_with_100_000_parts_is_over_the_limit(
    target: Target, ask: Callable[[Target], tuple[str, Message]]
) -> None:
    path, request = ask(target)
    answer = target.leader.send(path, request)
    assert (answer.is_typed_error, answer.reason) == (True, "LIMIT_EXCEEDED"), answer
    assert len(answer.message) < 2000


@pytest.mark.parametrize(
    ("method", "field"),
    [
        pytest.param(method, field.name, id=f"{method.path}.{field.name}")
        for method in METHODS
        for field in method.request.DESCRIPTOR.fields
        if f"{method.request.DESCRIPTOR.name}.{field.name}" in NAMED_BY
    ],
)
def test_a_request_that_names_a_thing_twice_is_refused_and_told_which(
    target: Target, servers: Callable[[Method], RawClient], method: Method, field: str
) -> None:
    request = plausible(method.request)
    entries = getattr(request, field)
    entries.append(entries[0])
    answer = servers(method).send(method.path, request)
    assert (answer.is_typed_error, answer.reason) == (True, "INVALID_REQUEST"), answer
    assert "more than once" in answer.message


@pytest.mark.parametrize("method", ["ReplicaFetch", "EndOffsetForLeaderEpoch"])
def test_a_replica_request_with_100_000_strange_partitions_harms_nobody(target: Target, method: str) -> None:
    """Followers may follow that many, so there may be no limit; each strange one is answered or all are
    refused."""
    if method == "ReplicaFetch":
        request: Message = replica_pb2.ReplicaFetchRequest(
            replica_id=3,
            moved=[
                replica_pb2.ReplicaFetchPartition(topic_id=b"\x09" * 16, partition=n)
                for n in range(HUNDRED_THOUSAND)
            ],
        )
    else:
        request = replica_pb2.EndOffsetForLeaderEpochRequest(
            replica_id=3,
            partitions=[
                replica_pb2.EpochEndPartition(topic_id=b"\x09" * 16, partition=n)
                for n in range(HUNDRED_THOUSAND)
            ],
        )
    answer = target.leader.send(f"{REPLICA}/{method}", request)
    assert answer.ok or answer.is_typed_error, answer


def test_a_deadline_beyond_all_limits_is_refused(target: Target) -> None:
    request = broker_pb2.GetMetadataRequest()
    answer = target.leader.send(f"{BROKER}/GetMetadata", request, timeout_s=24 * 3600)
    assert (answer.is_typed_error, answer.reason) == (True, "LIMIT_EXCEEDED"), answer


def test_hundreds_of_waiting_fetches_that_are_cancelled_leave_nothing_behind(target: Target) -> None:
    request = broker_pb2.FetchRequest(max_wait_ms=30_000, min_bytes=1 << 20, max_bytes=1 << 20)
    request.partitions.add(
        topic_id=target.topic_id, leader_epoch=-1, fetch_offset=target.next_offset, max_bytes=1 << 20
    )
    with grpc.insecure_channel(target.leader.address) as channel:
        fetch: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"{BROKER}/Fetch", request_serializer=None, response_deserializer=None
        )
        for _ in range(3):
            calls = [fetch.future(request.SerializeToString(), timeout=60) for _ in range(200)]
            for call in calls:
                call.cancel()
    target.produce_good()


@pytest.mark.parametrize(
    "sent",
    [b"", b"\0" * 10_000, b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 5_000],
    ids=["nothing", "zeros", "HTTP/1.1", "HTTP/2 and then garbage"],
)
def test_bytes_that_are_no_call_at_all_disturb_nobody(target: Target, sent: bytes) -> None:
    host, port = target.leader.address.split(":")
    connections = [socket.create_connection((host, int(port)), timeout=30) for _ in range(20)]
    for connection in connections:
        connection.sendall(sent)
    target.produce_good()
    for connection in connections:
        connection.close()


# -- reading where nothing can be


@pytest.mark.parametrize("offset", [-1, -2, -(2**63), 1_000_000, 2**63 - 1])
def test_an_offset_that_does_not_exist_is_out_of_range(target: Target, offset: int) -> None:
    answer = target.send_fetch(offset)
    assert code_in(answer, fetch_result) == "OFFSET_OUT_OF_RANGE"
    assert str(offset) in fetch_result(answer).error_message


def test_the_end_itself_is_no_error_but_empty(target: Target) -> None:
    result = fetch_result(target.send_fetch(target.next_offset))
    assert (result.error_code, result.batches) == (0, b"")


@pytest.mark.parametrize("partition", [1, 1_000_000, -1, 2**31 - 1, -(2**31)])
def test_a_partition_that_is_not_there_cannot_be_read(target: Target, partition: int) -> None:
    unknown = {"UNKNOWN_PARTITION", "INVALID_REQUEST"}
    assert code_in(target.send_fetch(0, partition=partition), fetch_result) in unknown
    answer = target.send_list_offsets(broker_pb2.OFFSET_SPEC_LATEST, partition=partition)
    assert code_in(answer, offsets_result) in unknown


def test_a_reader_of_another_epoch_is_told(target: Target) -> None:
    newer = target.leader_epoch + 1
    assert code_in(target.send_fetch(0, leader_epoch=newer), fetch_result) == "UNKNOWN_LEADER_EPOCH"
    answer = target.send_list_offsets(broker_pb2.OFFSET_SPEC_LATEST, leader_epoch=newer)
    assert code_in(answer, offsets_result) == "UNKNOWN_LEADER_EPOCH"


@pytest.mark.parametrize("spec", [0, 9])
def test_which_offset_is_meant_must_be_said(target: Target, spec: int) -> None:
    answer = target.send_list_offsets(broker_pb2.OffsetSpec.ValueType(spec))
    assert code_in(answer, offsets_result) == "INVALID_REQUEST"


@pytest.mark.parametrize(
    ("field", "value"), [("max_bytes", -1), ("max_bytes", 0), ("min_bytes", -1), ("max_wait_ms", -1)]
)
def test_limits_that_make_no_sense_are_refused_or_still_give_one_batch(
    target: Target, field: str, value: int
) -> None:
    fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20} | {field: value}
    answer = target.send_fetch(0, **fields)
    if code_in(answer, fetch_result) == "OK":
        assert fetch_result(answer).batches, "always at least one batch"
    else:
        assert code_in(answer, fetch_result) == "INVALID_REQUEST"


# -- plain records


def produce_records(target: Target, **fields: object) -> Answer:
    request = broker_pb2.ProduceRecordsRequest(
        **({"topic": TOPIC, "records": [broker_pb2.PlainRecord(value=b"v")]} | fields)  # type: ignore[arg-type]
    )
    return target.leader.send(f"{BROKER}/ProduceRecords", request)


PLAIN_PRODUCES: dict[str, tuple[dict[str, object], str]] = {
    "no records": ({"records": []}, "INVALID_REQUEST LIMIT_EXCEEDED"),
    "an unknown topic": ({"topic": "nobody-made-this"}, "UNKNOWN_TOPIC"),
    "a topic that cannot be": ({"topic": "../x"}, "UNKNOWN_TOPIC INVALID_TOPIC_NAME"),
    "no topic": ({"topic": ""}, "UNKNOWN_TOPIC INVALID_TOPIC_NAME INVALID_REQUEST"),
    "an unknown partition": ({"partition": 5}, "UNKNOWN_PARTITION"),
    "a negative partition": ({"partition": -1}, "UNKNOWN_PARTITION INVALID_REQUEST"),
    "unknown acks": ({"acks": 9}, "INVALID_REQUEST"),
    "10,001 records": ({"records": [broker_pb2.PlainRecord(value=b"")] * 10_001}, "LIMIT_EXCEEDED"),
    "a record over the limit": (
        {"records": [broker_pb2.PlainRecord(value=b"x" * (5 << 20))]},
        "BATCH_TOO_LARGE",
    ),
    "a timestamp before 1970": (
        {"records": [broker_pb2.PlainRecord(value=b"v", timestamp_us=-1)]},
        "INVALID_REQUEST INVALID_BATCH",
    ),
    "a timestamp at the end of time": (
        {"records": [broker_pb2.PlainRecord(value=b"v", timestamp_us=2**63 - 1)]},
        "INVALID_REQUEST INVALID_BATCH",
    ),
    "an offset of its own": (
        {"records": [broker_pb2.PlainRecord(value=b"v", offset=5)]},
        "INVALID_REQUEST OK",
    ),
}


@pytest.mark.parametrize("name", PLAIN_PRODUCES)
def test_plain_records_that_cannot_be_are_refused(target: Target, name: str) -> None:
    fields, right_codes = PLAIN_PRODUCES[name]
    answer = produce_records(target, **fields)
    if answer.ok and "OK" in right_codes.split():
        target.next_offset += 1
        return
    assert answer.is_typed_error, answer
    assert answer.reason in right_codes.split(), answer


PLAIN_FETCHES: dict[str, tuple[dict[str, object], str]] = {
    "a negative offset": ({"offset": -1}, "OFFSET_OUT_OF_RANGE"),
    "an offset beyond the end": ({"offset": 10**9}, "OFFSET_OUT_OF_RANGE"),
    "an unknown topic": ({"topic": "nobody-made-this"}, "UNKNOWN_TOPIC"),
    "an unknown partition": ({"partition": 5}, "UNKNOWN_PARTITION"),
    "a negative partition": ({"partition": -1}, "UNKNOWN_PARTITION INVALID_REQUEST"),
    "a negative number of records": ({"max_records": -1}, "INVALID_REQUEST LIMIT_EXCEEDED"),
    "10,001 records": ({"max_records": 10_001}, "INVALID_REQUEST LIMIT_EXCEEDED"),
}


@pytest.mark.parametrize("name", PLAIN_FETCHES)
def test_plain_reads_that_cannot_be_are_refused(target: Target, name: str) -> None:
    fields, right_codes = PLAIN_FETCHES[name]
    request = broker_pb2.FetchRecordsRequest(**({"topic": TOPIC} | fields))  # type: ignore[arg-type]
    answer = target.leader.send(f"{BROKER}/FetchRecords", request)
    assert answer.is_typed_error, answer
    assert answer.reason in right_codes.split(), answer


def test_a_body_that_lies_behind_a_good_seal_harms_no_reader_of_plain_records(target: Target) -> None:
    """The leader looks at the layout of a body, not into its buffers. A reader must survive what it finds
    there."""
    batch = bytearray(good_batch(target.topic_id, 0, [b"a", b"b"]))

    answer = target.send_produce(lying_lengths(batch))
    assert answer.ok, "otherwise this shows nothing"
    poisoned, target.next_offset = target.next_offset, target.next_offset + 2
    read = broker_pb2.FetchRecordsRequest(topic=TOPIC, offset=poisoned)
    answer = target.leader.send(f"{BROKER}/FetchRecords", read)
    assert answer.is_typed_error, answer


def test_metadata_of_a_topic_that_is_not_there_says_so(target: Target) -> None:
    request = broker_pb2.GetMetadataRequest(topics=["nobody-made-this", "../x", "", TOPIC])
    answer = target.leader.send(f"{BROKER}/GetMetadata", request)
    assert answer.ok, answer
    topics = broker_pb2.GetMetadataResponse.FromString(answer.body).topics
    assert [topic.error_code for topic in topics] == [20, 20, 20, 0]
