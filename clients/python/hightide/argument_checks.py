"""Checks of the arguments of clients, before any request is sent to the cluster."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from hightide.errors import InvalidArgumentError
from hightide.records import TopicPartition

T = TypeVar("T")

# The controller accepts this many partitions in one request (controller_service.proto).
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


def checked_name(what: str, name: Any) -> str:
    """The name of a topic or header that a request can carry. What cannot be sent would otherwise fail on the
    client's own thread, and harm all else that it does. Raises InvalidArgumentError."""
    try:
        # Lone surrogates come from JSON and from names of files.
        str.encode(name)
    except (TypeError, UnicodeEncodeError):
        raise InvalidArgumentError(
            f"the name of a {what} is text that UTF-8 can hold, not {name!r}"
        ) from None
    return str(name)


def checked_count(what: str, number: int) -> int:
    """A number that a request can carry; the controller checks whether it makes sense. Raises
    InvalidArgumentError."""
    if not -_INT32_MAX <= number <= _INT32_MAX:
        raise InvalidArgumentError(f"{what} is {number}; no topic is that large")
    return number


def checked_replicas(replicas: Iterable[int], where: str) -> list[int]:
    """Broker ids that a request can carry. Raises InvalidArgumentError."""
    brokers = list(replicas)
    for broker in brokers:
        if not -_INT32_MAX <= broker <= _INT32_MAX:
            raise InvalidArgumentError(f"{where}: {broker} is no broker id")
    return brokers


def checked_shards(shards: Iterable[int]) -> list[int]:
    """The shards of groups that a request can carry, without repetition; the coordinator checks whether there
    are such. Raises InvalidArgumentError."""
    checked = list(dict.fromkeys(shards))
    for shard in checked:
        if not 0 <= shard <= _INT32_MAX:
            raise InvalidArgumentError(f"{shard} is no shard of groups; they run from 0")
    return checked


def checked_offset(partition: TopicPartition, offset: int, leader_epoch: int = -1) -> int:
    """An offset of a partition that a request can carry. Raises InvalidArgumentError."""
    if not 0 <= offset <= _INT64_MAX:
        raise InvalidArgumentError(f"{offset} is no offset of {partition}; they run from 0")
    if not -1 <= leader_epoch <= _INT32_MAX:
        raise InvalidArgumentError(
            f"offset {offset} of {partition} has the leader epoch {leader_epoch}; -1 is for none"
        )
    return offset


def checked_partitions(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The partitions without repetition, in the order given. Raises InvalidArgumentError."""
    checked = list(dict.fromkeys(partitions))
    for each in checked:
        if not 0 <= each.partition <= _INT32_MAX:
            raise InvalidArgumentError(
                f"topic {each.topic} has no partition {each.partition}; they run from 0"
            )
    return checked


def checked_throttle(bytes_per_s: int) -> int:
    """A speed limit in bytes a second; 0: none. Raises InvalidArgumentError."""
    if not 0 <= bytes_per_s <= _INT64_MAX:
        raise InvalidArgumentError(
            f"the speed limit is {bytes_per_s} bytes per second; it is at least 0, and 0 means no limit"
        )
    return bytes_per_s


def checked_settings(configs: Mapping[str, str], reset: Iterable[str]) -> list[str]:
    """The settings to reset. Raises InvalidArgumentError if no change is asked for, or a setting is both set
    and reset."""
    names = list(dict.fromkeys(reset))
    if not configs and not names:
        raise InvalidArgumentError("no setting is given; name one to set or to reset")
    both = sorted(set(configs).intersection(names))
    if both:
        raise InvalidArgumentError(f"{', '.join(both)}: set it or reset it, not both")
    return names


def pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut the items into pieces that one request can carry."""
    for start in range(0, len(items), PARTITIONS_PER_REQUEST_MAX):
        yield items[start : start + PARTITIONS_PER_REQUEST_MAX]
