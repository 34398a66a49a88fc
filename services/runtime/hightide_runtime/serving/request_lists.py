"""The lists in requests: how long each may be, and that none names a thing twice.

A request that names one partition 10,000 times costs its sender some bytes each time, and the server a read
each time. So a list is checked when its request is parsed, before any work is done for what it names.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor
from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.errors import ServiceError

ENTRIES_MAX: Final = 100_000
"""Entries in one list of a request, whatever it is about. Many methods have lower limits of their own."""

_PARTITION: Final = ("topic_id", "partition")
_NAMED_PARTITION: Final = ("topic", "partition")
_ITSELF: Final = ()

NAMED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "ProduceRequest.partitions": _PARTITION,
    "FetchRequest.partitions": _PARTITION,
    "ListOffsetsRequest.partitions": _PARTITION,
    "GetMetadataRequest.topics": _ITSELF,
    "DescribeReplicasRequest.topics": _ITSELF,
    "DescribeProducersRequest.partitions": _PARTITION,
    "DescribeProducersRequest.producer_ids": _ITSELF,
    "DeleteRecordsRequest.partitions": _PARTITION,
    "ReplicaFetchRequest.moved": _PARTITION,
    "ReplicaFetchRequest.forgotten": _PARTITION,
    "EndOffsetForLeaderEpochRequest.partitions": _PARTITION,
    "LeaderAndISRRequest.topics": ("topic_id",),
    "LeaderAndISRRequest.leaders": ("id",),
    "StopReplicaRequest.partitions": _PARTITION,
    "UpdateMetadataRequest.brokers": ("id",),
    # What is told of a topic, and which of its partitions were removed, are two entries.
    "UpdateMetadataRequest.topics": ("topic_id", "error_code"),
    "UpdateMetadataRequest.deleted_topic_ids": _ITSELF,
    "AlterTopicConfigRequest.reset": _ITSELF,
    "ReassignPartitionsRequest.moves": ("partition.topic", "partition.partition"),
    "CancelReassignmentsRequest.partitions": _NAMED_PARTITION,
    "ListReassignmentsRequest.partitions": _NAMED_PARTITION,
    "AlterQuotasRequest.changes": ("principal",),
    "ElectLeadersRequest.partitions": _NAMED_PARTITION,
    "ReportFailedReplicasRequest.replicas": _PARTITION,
    "DescribeTopicsRequest.topics": _ITSELF,
    "CommitOffsetsRequest.offsets": _NAMED_PARTITION,
    "FetchOffsetsRequest.partitions": _NAMED_PARTITION,
    "ResetOffsetsRequest.offsets": _NAMED_PARTITION,
    "DeleteOffsetsRequest.topics": _ITSELF,
    "ResignCoordinatorRequest.shards": _ITSELF,
}
"""By message and field of hightide.v1: the fields by which an entry names something, none where the entry is
the name."""

NAME_NOTHING: Final[Mapping[str, str]] = {
    "ProduceRecordsRequest.records": "equal records are two records",
    "CreateTopicRequest.assignment": "an entry is about the partition of its place in the list",
    "AlterAclsRequest.changes": "a change that is made twice is made once",
    "AddPartitionsRequest.assignment": "an entry is about the partition of its place in the list",
}
"""Lists in which equal entries are right, and why."""


def check_of(service: str, method: str) -> Callable[[Any], None]:
    """The check of the requests of one method, by the full name of its service. Called once, by `serve`.

    A list of which this module knows nothing is a bug of its author: AssertionError, and the server does not
    start. The check takes a message, or what a codec made of one: an object with the same attributes. It
    raises ServiceError (INVALID_REQUEST, LIMIT_EXCEEDED).
    """
    request = descriptor_pool.Default().FindServiceByName(service).methods_by_name[method].input_type
    lists = []
    for field in request.fields:
        name = f"{request.name}.{field.name}"
        if not field.is_repeated or _is_map(field) or name in NAME_NOTHING:
            continue
        assert name in NAMED_BY, f"{name} is a list; say in request_lists.py what names its entries"
        lists.append((field.name, NAMED_BY[name]))

    def check(request: Any) -> None:
        for field, key in lists:
            entries = getattr(request, field)
            if len(entries) > 1:
                _check_list(field, entries, key)

    return check


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _check_list(field: str, entries: Any, key: tuple[str, ...]) -> None:
    if len(entries) > ENTRIES_MAX:
        raise ServiceError(
            ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
            f"{field} has {len(entries)} entries; send at most {ENTRIES_MAX} in one request",
            {"field": field, "entries_max": str(ENTRIES_MAX)},
        )
    names = set(map(attrgetter(*key), entries)) if key else set(entries)
    if len(names) == len(entries):
        return
    seen = set()
    for each in map(attrgetter(*key), entries) if key else entries:
        if each in seen:
            raise _named_twice(field, key, each)
        seen.add(each)


def _named_twice(field: str, key: tuple[str, ...], name: Any) -> ServiceError:
    values = name if len(key) > 1 else (name,)
    told = [value.hex() if isinstance(value, bytes) else str(value) for value in values]
    labels = [each.rpartition(".")[2] + " " for each in key] or [""]
    duplicate = ", ".join(label + value[:249] for label, value in zip(labels, told, strict=True))
    return ServiceError(
        ErrorCode.ERROR_CODE_INVALID_REQUEST,
        f"{field} names {duplicate} more than once; name each once",
        {"field": field, "duplicate": duplicate},
    )
