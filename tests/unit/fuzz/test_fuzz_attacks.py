"""What `make soak` attacks clusters with: the same for a seed, and with nothing left out."""

from __future__ import annotations

import ssl
import struct
from collections import Counter
from random import Random
from typing import Any

import pytest
from adversary.methods import Method, all_methods
from fuzz.bodies import batch
from fuzz.frames import ATTACKS, PREFACE, literal, request_headers
from fuzz.live_cluster import ALWAYS
from fuzz.messages import LiveIds, MessageMaker, is_too_dear
from fuzz.plan import AttackPlan, Port
from google.protobuf.message import DecodeError
from hightide.batch.body import decode
from hightide.batch.errors import BatchError
from hightide.batch.header import check_from_producer
from hightide.v1 import controller_service_pb2 as controller_pb2

TOPIC_ID = b"\7" * 16
LIVE = LiveIds({"topic": ["fuzz-0"], "topic_id": [TOPIC_ID], "controller_epoch": [3]})
METHODS = all_methods()


def fields_set(message: Any) -> set[str]:
    found = set()
    for field, value in message.ListFields():
        found.add(field.full_name)
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in value if field.is_repeated else [value]:
                found |= fields_set(each)
    return found


def fields_of(descriptor: Any) -> set[str]:
    found = set()
    for field in descriptor.fields:
        found.add(field.full_name)
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            found |= fields_of(field.message_type)
    return found


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.path)
def test_each_field_of_each_request_is_attacked(method: Method) -> None:
    maker = MessageMaker(Random(1), LIVE)
    seen: set[str] = set()
    for _ in range(150):
        seen |= fields_set(maker.message(method.request))
    assert seen == fields_of(method.request.DESCRIPTOR)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.path)
def test_what_every_cluster_has_fits_each_field_of_its_name(method: Method) -> None:
    maker = MessageMaker(Random(1), LiveIds(ALWAYS))
    for _ in range(50):
        maker.message(method.request)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.path)
def test_a_seed_gives_the_same_requests_again(method: Method) -> None:
    first, second = (MessageMaker(Random(7), LIVE) for _ in range(2))
    made = [first.request(method.request) for _ in range(50)]
    assert made == [second.request(method.request) for _ in range(50)]


def test_most_requests_are_messages_and_many_are_not() -> None:
    maker, counts = MessageMaker(Random(1), LIVE), Counter[bool]()
    (produce,) = [each for each in METHODS if each.path.endswith("/Produce")]
    for _ in range(400):
        sent = maker.request(produce.request)
        try:
            produce.request.FromString(sent)
        except DecodeError:
            counts[False] += 1
        else:
            counts[True] += 1
    assert counts[True] > counts[False] > 20


def test_what_is_named_is_mostly_there() -> None:
    maker = MessageMaker(Random(1), LIVE)
    named: Counter[str] = Counter()
    for _ in range(200):
        message: Any = maker.message(controller_pb2.DeleteTopicRequest)
        named[message.topic] += 1
    assert named["fuzz-0"] > 100


def test_each_name_of_something_alive_is_that_of_a_field() -> None:
    """Otherwise a field that was renamed would be attacked with nonsense only."""
    known = {name.rpartition(".")[2] for each in METHODS for name in fields_of(each.request.DESCRIPTOR)}
    assert set(ALWAYS) <= known


@pytest.mark.parametrize(
    ("partitions", "dear"), [(8, False), (9, True), (100_000, True), (2**31 - 1, False), (-1, False)]
)
def test_no_request_makes_thousands_of_partitions(partitions: int, dear: bool) -> None:
    request = controller_pb2.CreateTopicRequest(partition_count=partitions)
    assert is_too_dear(type(request), request.SerializeToString()) is dear


def test_of_batches_that_lie_some_are_refused_and_some_are_taken_and_of_these_some_cannot_be_read() -> None:
    chance, counts = Random(3), Counter[str]()
    for _ in range(1_500):
        made = batch(chance, TOPIC_ID, 0)
        try:
            check_from_producer(made, TOPIC_ID, 0, 1 << 20)
        except BatchError as error:
            counts[f"refused: {type(error).__name__}"] += 1
            continue
        try:
            decode(made)
        except BatchError:
            counts["taken and unreadable"] += 1
        else:
            counts["taken and read"] += 1
    assert counts["taken and read"] > 100
    assert counts["taken and unreadable"] > 10
    assert {"refused: CorruptBatch", "refused: InvalidBatch", "refused: UnsupportedMagic"} <= set(counts)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_a_connection_is_bounded_and_the_same_for_the_same_seed(name: str) -> None:
    for seed in range(10):
        sent = list(ATTACKS[name](Random(seed)))
        assert sum(map(len, sent)) < 1_000_000
        assert sent == list(ATTACKS[name](Random(seed)))


def frames_in(sent: bytes) -> list[tuple[int, int]]:
    """The kind and the stream of each frame behind the preface."""
    assert sent.startswith(PREFACE)
    at, found = len(PREFACE), []
    while at < len(sent):
        length = int.from_bytes(sent[at : at + 3], "big")
        found.append((sent[at + 3], struct.unpack_from(">I", sent, at + 5)[0]))
        at += 9 + length
    assert at == len(sent)
    return found


NO_FRAMES = {
    *(
        "random bytes",
        "preface, random bytes",
        "wrong frame lengths",
        "HTTP/1",
        "half a TLS hello",
        "nothing",
    ),
}


@pytest.mark.parametrize("name", sorted(set(ATTACKS) - NO_FRAMES))
def test_an_attack_by_frames_is_made_of_frames(name: str) -> None:
    """Otherwise a server would end the connection at the first one, and the rest would attack nothing."""
    assert len(frames_in(b"".join(ATTACKS[name](Random(1))))) > 1


def test_half_a_tls_hello_begins_as_tls_does() -> None:
    received = ssl.MemoryBIO()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_bio(received, ssl.MemoryBIO(), server_side=True)
    (hello,) = ATTACKS["half a TLS hello"](Random(4))
    received.write(hello[:4])
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()


def test_header_fields_are_spelt_as_hpack_says() -> None:
    assert literal(b"te", b"trailers") == b"\0\2te\x08trailers"
    assert literal(b"x", b"y" * 300).startswith(b"\0\1x\x7f\xad\x01y")
    assert b"/hightide.v1.X/Y" in request_headers(b"/hightide.v1.X/Y")


def test_a_plan_travels_to_the_attackers_as_a_line() -> None:
    ports = (Port("broker-1", "h", 1), Port("broker-1", "h", 2, "scrape"))
    plan = AttackPlan(1, 2.5, "h:1", ports, ("a", "b", "c"), may_command=True, zookeeper="")
    assert "\n" not in plan.encode()
    assert AttackPlan.decode(plan.encode()) == plan
