"""The lists in requests: none names a thing twice, and none is without an end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from adversary.methods import Method, all_methods, plausible
from hightide.batch.wire import parse_produce_request
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.request_lists import ENTRIES_MAX, NAME_NOTHING, NAMED_BY, check_of

UNARY = [method for method in all_methods() if not method.streaming]

CONVERTER = "the broker's converter refuses a partition that is decided about twice, and brokers named twice"
ASSIGNMENT = "the controller's core refuses it as an invalid assignment, which names the partition"
CONSUMER = "the coordinator's converter refuses a topic that is named twice; it parses this stream itself"
POSITIONS = "the coordinator's core keeps one position for each partition"
LISTS_IN_LISTS = {
    "LeaderAndISRTopic.partitions": CONVERTER,
    "LeaderAndISRPartition.isr": CONVERTER,
    "LeaderAndISRPartition.replicas": CONVERTER,
    "LeaderAndISRPartition.eligible": CONVERTER,
    "LeaderAndISRPartition.recovered": CONVERTER,
    "LeaderAndISRPartition.adding_replicas": "it is only asked whether a broker is among them",
    "TopicMetadata.partitions": CONVERTER,
    "PartitionMetadata.replicas": "told to clients as it is; the controller made it",
    "PartitionMetadata.isr": "told to clients as it is; the controller made it",
    "ReplicaAssignment.replicas": ASSIGNMENT,
    "PartitionMove.replicas": ASSIGNMENT,
    "PlainRecord.headers": "a record may have two headers of one key",
    "ConsumerRegistration.topics": CONSUMER,
    "ConsumerRegistration.exclude": "the coordinator's converter takes each expression once",
    "ConsumerRegistration.owned": "the coordinator's core takes them as a set",
    "PingAnswer.positions": POSITIONS,
    "StopFetcherAnswer.positions": POSITIONS,
    "ConsumerGoodbye.positions": POSITIONS,
    "QuotaChange.reset": "it is taken as a set",
}
"""Lists that are no field of a request, and who looks at them."""


def lists_in(message: Any, depth: int = 0) -> Iterator[tuple[int, str]]:
    """The lists of a message and of those in it, with their depth; maps have each key once by themselves."""
    for field in message.fields:
        nested = field.message_type
        if nested is not None and nested.GetOptions().map_entry:
            continue
        if field.is_repeated:
            yield depth, f"{message.name}.{field.name}"
        if nested is not None and depth < 5:
            yield from lists_in(nested, depth + 1)


def test_every_list_of_a_request_refuses_duplicates_or_is_excused_with_a_reason() -> None:
    of_requests: set[str] = set()
    in_lists: set[str] = set()
    for method in all_methods():
        for depth, name in lists_in(method.request.DESCRIPTOR):
            (in_lists if depth else of_requests).add(name)
    assert of_requests == {*NAMED_BY, *NAME_NOTHING}
    assert in_lists == set(LISTS_IN_LISTS)


def check(method: Method, request: Any) -> None:
    service, name = method.path.lstrip("/").split("/")
    check_of(service, name)(request)


EACH_LIST = [
    pytest.param(method, field.name, id=f"{method.path}.{field.name}")
    for method in UNARY
    for field in method.request.DESCRIPTOR.fields
    if f"{method.request.DESCRIPTOR.name}.{field.name}" in NAMED_BY
]


@pytest.mark.parametrize(("method", "field"), EACH_LIST)
def test_a_request_that_names_a_thing_twice_is_told_which(method: Method, field: str) -> None:
    request = plausible(method.request)
    check(method, request)
    entries = getattr(request, field)
    entries.append(entries[0])
    with pytest.raises(ServiceError, match=f"^INVALID_REQUEST: {field} names .+ more than once") as refused:
        check(method, request)
    assert refused.value.metadata["field"] == field
    assert refused.value.metadata["duplicate"] in refused.value.message


@pytest.mark.parametrize(("method", "field"), EACH_LIST)
def test_a_list_without_an_end_is_refused_before_anything_is_made_of_it(method: Method, field: str) -> None:
    request = plausible(method.request)
    entries = getattr(request, field)
    entries.extend([entries[0]] * ENTRIES_MAX)
    with pytest.raises(ServiceError, match=f"^LIMIT_EXCEEDED: {field} has {ENTRIES_MAX + 1} entries"):
        check(method, request)


def method_named(path: str) -> Method:
    (found,) = [method for method in UNARY if method.path == path]
    return found


def test_what_a_codec_makes_of_a_request_is_checked_alike() -> None:
    one = broker_pb2.ProducePartition(topic_id=bytes(16), partition=3, batches=b"x")
    request = parse_produce_request(broker_pb2.ProduceRequest(partitions=[one, one]).SerializeToString())
    with pytest.raises(ServiceError, match=f"partitions names topic_id {bytes(16).hex()}, partition 3 more"):
        check(method_named("/hightide.v1.BrokerService/Produce"), request)


def test_a_partition_is_named_twice_whatever_else_is_said_of_it() -> None:
    partition = controller_pb2.PartitionName(topic="flights", partition=1)
    moves = [controller_pb2.PartitionMove(partition=partition, replicas=[each]) for each in (1, 2)]
    with pytest.raises(ServiceError, match="moves names topic flights, partition 1 more than once"):
        check(
            method_named("/hightide.v1.ControllerService/ReassignPartitions"),
            controller_pb2.ReassignPartitionsRequest(moves=moves),
        )


def test_different_things_of_one_request_pass() -> None:
    partitions = [
        broker_pb2.FetchPartition(topic_id=bytes([topic]) * 16, partition=partition)
        for topic in range(3)
        for partition in range(3)
    ]
    check(method_named("/hightide.v1.BrokerService/Fetch"), broker_pb2.FetchRequest(partitions=partitions))
