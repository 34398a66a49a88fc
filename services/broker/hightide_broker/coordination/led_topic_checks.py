"""What is wrong with a request about a topic of a cluster without a controller. Each raises ServiceError."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError
from hightide_runtime.topics.assignment import assign
from hightide_runtime.topics.topic_configs import config_fault, unknown_setting
from hightide_runtime.znodes.topic_names import is_legal_topic_name

PARTITIONS_PER_TOPIC_MAX: Final = 10_000
Assignment = tuple[tuple[int, ...], ...]


def check_name(topic: str) -> None:
    """A name that a topic can have: what is read of ZooKeeper is below it."""
    if not is_legal_topic_name(topic):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_TOPIC_NAME,
            f"topic name {topic[:260]!r} is not 1 to 249 characters of [a-zA-Z0-9._-], or is '.' or '..'",
        )


def check_topic_id(topic: str, found: bytes, wanted: bytes) -> None:
    """The topic that is meant, if one is meant by its id."""
    if len(wanted) not in (0, 16):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"a topic id has 16 bytes, and this one has {len(wanted):,}; leave it out to name the topic by "
            "its name alone",
        )
    if wanted not in (b"", found):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INCONSISTENT_TOPIC_ID,
            f"topic {topic!r} has id {found.hex()}, and not {wanted.hex()}: another topic has this name now; "
            "if you mean that one, repeat the request with its id, or without an id",
        )


def assignment_of_new(
    request: controller_pb2.CreateTopicRequest, alive: Sequence[int], start: int
) -> Assignment:
    """The replicas of each partition of a new topic: those that are asked for, or balanced ones."""
    asked = tuple(tuple(each.replicas) for each in request.assignment)
    count, factor = request.partition_count, request.replication_factor
    if not asked:
        if not 1 <= count <= PARTITIONS_PER_TOPIC_MAX:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_PARTITION_COUNT,
                f"{count} partitions; a topic has 1 to {PARTITIONS_PER_TOPIC_MAX:,}",
            )
        if not 1 <= factor <= len(alive):
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_REPLICATION_FACTOR,
                f"replication factor {factor}; it is at least 1 and at most the number of live brokers, now "
                f"{len(alive)}",
            )
        return assign(alive, count, factor, start % len(alive))
    if len(asked) > PARTITIONS_PER_TOPIC_MAX:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_PARTITION_COUNT,
            f"{len(asked)} partitions; a topic has 1 to {PARTITIONS_PER_TOPIC_MAX:,}",
        )
    if count not in (0, len(asked)) or (factor and any(len(each) != factor for each in asked)):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"partition_count {count} or replication_factor {factor} contradicts the assignment of "
            f"{len(asked)} partitions; leave them out",
        )
    check_assignment(asked, alive)
    return asked


def assignment_of_growth(
    request: controller_pb2.AddPartitionsRequest,
    count: int,
    replication_factor: int,
    alive: Sequence[int],
    start: int,
) -> Assignment:
    """The replicas of each partition that a topic of `count` partitions gets."""
    asked = tuple(tuple(each.replicas) for each in request.assignment)
    added = request.partition_count - count
    if not count < request.partition_count <= PARTITIONS_PER_TOPIC_MAX:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_PARTITION_COUNT,
            f"topic {request.topic!r} has {count} partitions and cannot be grown to "
            f"{request.partition_count}; the new number is larger, and at most {PARTITIONS_PER_TOPIC_MAX:,}",
        )
    if asked and len(asked) != added:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_ASSIGNMENT,
            f"the assignment is of {len(asked)} partitions, but {added} are new: {count} to "
            f"{request.partition_count - 1}",
        )
    if asked:
        check_assignment(asked, alive, first=count)
        return asked
    if replication_factor > len(alive):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REPLICATION_FACTOR,
            f"partitions of {request.topic!r} have {replication_factor} replicas, but only {len(alive)} "
            "brokers are alive to be given new ones",
        )
    return assign(alive, added, replication_factor, start % len(alive))


def check_shrink(topic: str, count: int, partition_count: int) -> None:
    """A number of partitions to which a topic of `count` can be shrunk."""
    if not 1 <= partition_count < count:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_PARTITION_COUNT,
            f"topic {topic!r} has {count} partitions and cannot be shrunk to {partition_count}; the new "
            "number is smaller, and at least 1: partition 0 is deleted only with the topic",
        )


def check_assignment(assignment: Assignment, alive: Collection[int], first: int = 0) -> None:
    """Partitions from number `first` on, each with different brokers that are alive."""
    for partition, replicas in enumerate(assignment, first):
        fault = ""
        if not replicas:
            fault = f"partition {partition} is assigned to no broker"
        elif len(set(replicas)) != len(replicas):
            fault = f"partition {partition} names a broker twice: {list(replicas)}"
        elif not set(replicas) <= set(alive):
            known = ", ".join(map(str, sorted(alive)))
            fault = f"partition {partition} names one of {list(replicas)} that is not alive; alive: {known}"
        if fault:
            raise ServiceError(ErrorCode.ERROR_CODE_INVALID_ASSIGNMENT, fault)


def check_configs(configs: Mapping[str, str], replicas_min: int) -> None:
    """Settings that a topic can have, whose partitions have so many replicas at the least."""
    if (fault := config_fault(configs, replicas_min)) is not None:
        raise ServiceError(ErrorCode.ERROR_CODE_INVALID_CONFIG, fault)


def altered_configs(
    before: Mapping[str, str], to_set: Mapping[str, str], to_reset: Sequence[str], replicas_min: int
) -> dict[str, str]:
    """The settings of a topic after a change."""
    both = sorted(set(to_set) & set(to_reset))
    if both:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_CONFIG,
            f"{both[0]} is to be set and reset in one request; choose one",
        )
    for name in to_reset:
        if (fault := unknown_setting(name)) is not None:
            raise ServiceError(ErrorCode.ERROR_CODE_INVALID_CONFIG, fault)
    after = {name: value for name, value in {**before, **to_set}.items() if name not in to_reset}
    check_configs(after, replicas_min)
    return after
