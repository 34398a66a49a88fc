"""The options of reads, with the names and the meaning of Spark's Kafka source.

Precedence: startingTimestamp before startingOffsetsByTimestamp before startingOffsets; the same for the end.
Beyond Kafka's: an option that means nothing for the kind of query is refused, not ignored; `groupId` names
the consumer group for which a stream commits its positions (it never shares partitions with that group's
members); `pushdown` lets filters narrow what a batch reads.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hightide.records import TopicPartition

from hightide_spark.core.cluster_options import CLUSTER_OPTIONS, Cluster, cluster_of
from hightide_spark.core.kafka_options import foreign_options
from hightide_spark.core.option_table import (
    Option,
    OptionTable,
    OptionValues,
    boolean,
    duration_ms,
    integer,
    one_of,
    text,
)
from hightide_spark.core.ranges import TASKS_MAX
from hightide_spark.core.start_and_end import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimes,
    Bound,
    Everywhere,
    contradiction,
)
from hightide_spark.core.topic_pattern import checked_pattern, matches
from hightide_spark.errors import ContradictingOptionsError, InvalidOptionError, MissingOptionError

_COUNT_MAX: Final = (1 << 63) - 1
_PARTITION_MAX: Final = (1 << 31) - 1
_TIME_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999, the latest that brokers take
# Today's time in seconds; in milliseconds, such numbers are all before March 1973.
_SECONDS: Final = range(10**9, 10**11)
# The size of a fetch, and the least and the most: small ones are slow, and what is read ahead is in memory.
FETCH_BYTES: Final = 4 << 20
FETCH_BYTES_MIN: Final = 64 << 10
FETCH_BYTES_MAX: Final = 16 << 20
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def _topic(name: str) -> str:
    if not _TOPIC.fullmatch(name):
        raise ValueError(f"{name!r} is no topic name, which is 1 to 249 characters of [a-zA-Z0-9._-]")
    return name


def _topics(value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_topic(name.strip()) for name in value.split(",")))


def _pattern(value: str) -> str:
    return checked_pattern(value.strip())


def _once_each(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, each in members:
        if name in found:
            raise ValueError(f"it names {name!r} twice")
        found[name] = each
    return found


def _json_object(value: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(value, object_pairs_hook=_once_each)
    except (json.JSONDecodeError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict) or not parsed:
        raise ValueError(f"it is JSON such as {example}")
    for topic in parsed:
        _topic(topic)
    return parsed


def _partition(value: Any) -> int:
    if type(value) is int and 0 <= value <= _PARTITION_MAX:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and int(value) <= _PARTITION_MAX:
        return int(value)
    raise ValueError(f"{value!r} is no partition, which is a number from 0 on")


def _assignment(value: str) -> Mapping[str, frozenset[int]]:
    example = '{"flights":[0,1]}'
    assigned = {}
    for topic, numbers in _json_object(value, example).items():
        if not isinstance(numbers, list) or not numbers:
            raise ValueError(f"it is JSON such as {example}")
        assigned[topic] = frozenset(_partition(number) for number in numbers)
    return assigned


def _by_partition(value: str, least: int, most: int, example: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _json_object(value, example).items():
        if not isinstance(numbers, dict) or not numbers:
            raise ValueError(f"it is JSON such as {example}")
        for number, each in numbers.items():
            if type(each) is not int or not least <= each <= most:
                raise ValueError(
                    f"of {topic}-{number} it says {each!r}; that is a whole number from {least} to {most}"
                )
            partition = TopicPartition(topic, _partition(number))
            if partition in found:
                raise ValueError(f"it names {partition} twice")
            found[partition] = each
    return found


def _offsets(name: str) -> Option[Bound | None]:
    def parse(value: str) -> Bound:
        if value.strip().lower() == "earliest":
            return Everywhere(name, "earliest")
        if value.strip().lower() == "latest":
            return Everywhere(name, "latest")
        try:
            offsets = _by_partition(value, EARLIEST, _COUNT_MAX, '{"flights":{"0":23,"1":-2}}')
        except ValueError as error:
            raise ValueError(
                f"it may be earliest, latest, or an offset for each partition: {error}"
            ) from error
        return AtOffsets(name, offsets)

    return Option(name, parse, None)


def _times(name: str) -> Option[Bound | None]:
    def parse(value: str) -> Bound:
        times_ms = _by_partition(value, 0, _TIME_MS_MAX, '{"flights":{"0":1577836800000}} in milliseconds')
        return AtTimes(name, {partition: _time_us(time_ms) for partition, time_ms in times_ms.items()})

    return Option(name, parse, None)


def _time(name: str) -> Option[Bound | None]:
    time_ms = integer(0, _TIME_MS_MAX)
    return Option(name, lambda value: Everywhere(name, _time_us(time_ms(value))), None)


def _time_us(time_ms: int) -> int:
    """Microseconds of milliseconds. Raises ValueError for what is rather seconds: it would be a time before
    all records, and a job would read all of them."""
    if time_ms in _SECONDS:
        raise ValueError(f"times are in milliseconds; if {time_ms} are seconds, write {1000 * time_ms}")
    return 1000 * time_ms


def _count(name: str, most: int = _COUNT_MAX) -> Option[int | None]:
    parse: Callable[[str], int] = integer(1, most)
    return Option(name, parse, None)


SUBSCRIBE: Final[Option[tuple[str, ...] | None]] = Option("subscribe", _topics, None)
SUBSCRIBE_PATTERN: Final[Option[str | None]] = Option("subscribePattern", _pattern, None)
ASSIGN: Final[Option[Mapping[str, frozenset[int]] | None]] = Option("assign", _assignment, None)
STARTS: Final = (
    _time("startingTimestamp"),
    _times("startingOffsetsByTimestamp"),
    _offsets("startingOffsets"),
)
ENDS: Final = (_time("endingTimestamp"), _times("endingOffsetsByTimestamp"), _offsets("endingOffsets"))
LATE: Final = Option("startingOffsetsByTimestampStrategy", one_of("error", "latest"), "error")
FAIL_ON_DATA_LOSS: Final = Option("failOnDataLoss", boolean, True)
IGNORE_CORRUPT_BATCHES: Final = Option("ignoreCorruptBatches", boolean, False)
INCLUDE_HEADERS: Final = Option("includeHeaders", boolean, False)
MIN_PARTITIONS: Final = _count("minPartitions", TASKS_MAX)
MAX_RECORDS_PER_PARTITION: Final = _count("maxRecordsPerPartition")
PUSHDOWN: Final = Option("pushdown", boolean, False)
MAX_OFFSETS_PER_TRIGGER: Final = _count("maxOffsetsPerTrigger")
MIN_OFFSETS_PER_TRIGGER: Final = _count("minOffsetsPerTrigger")
MAX_TRIGGER_DELAY: Final = Option("maxTriggerDelay", duration_ms(0, 365 * 86_400_000), 15 * 60_000)
GROUP_ID: Final[Option[str | None]] = Option("groupId", text, None)

# One fetch has records of one partition, so that these two say the same here.
FETCH_MAX_BYTES: Final = Option("kafka.fetch.max.bytes", integer(0, (1 << 31) - 1), FETCH_BYTES)
PARTITION_FETCH_BYTES: Final = Option(
    "kafka.max.partition.fetch.bytes", integer(0, (1 << 31) - 1), FETCH_BYTES
)

_WHICH: Final = (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)
_BOTH: Final = (
    *CLUSTER_OPTIONS, *_WHICH, *STARTS, LATE, FAIL_ON_DATA_LOSS, IGNORE_CORRUPT_BATCHES, INCLUDE_HEADERS,
    MIN_PARTITIONS, MAX_RECORDS_PER_PARTITION, FETCH_MAX_BYTES, PARTITION_FETCH_BYTES,
)  # fmt: skip
_BATCH_ONLY: Final = (*ENDS, PUSHDOWN)
LIMITS: Final = (MAX_OFFSETS_PER_TRIGGER, MIN_OFFSETS_PER_TRIGGER, MAX_TRIGGER_DELAY)
_STREAM_ONLY: Final = (*LIMITS, GROUP_ID)

_INSTEAD: Final = {
    "topic": "a read names its topics in subscribe, subscribePattern or assign",
    "path": "a read names its topics in subscribe, subscribePattern or assign, and load() takes no path",
}
_FOREIGN: Final = foreign_options("reads")
_ANY_READ: Final = OptionTable(
    "a read from hightide", (*_BOTH, *_BATCH_ONLY, *_STREAM_ONLY), instead=_INSTEAD, foreign=_FOREIGN
)
_BATCH: Final = OptionTable(
    "a batch read from hightide",
    (*_BOTH, *_BATCH_ONLY),
    instead=_INSTEAD
    | dict.fromkeys((option.name for option in _STREAM_ONLY), "it is for streams; leave it out"),
    foreign=_FOREIGN,
)
_STREAM: Final = OptionTable(
    "a stream from hightide",
    (*_BOTH, *_STREAM_ONLY),
    instead=_INSTEAD
    | dict.fromkeys(
        (option.name for option in ENDS), "a stream has no end; read a batch, or use Trigger.AvailableNow"
    )
    | {PUSHDOWN.name: "Spark pushes no filters into streams; leave it out"},
    foreign=_FOREIGN,
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """The partitions to read; exactly one of the three is given. A pattern must match the whole name."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: Mapping[str, frozenset[int]] | None = None

    def names(self) -> tuple[str, ...] | None:
        """The topics by name; None if a pattern chooses among all."""
        return (
            self.topics
            if self.topics is not None
            else None
            if self.assigned is None
            else tuple(self.assigned)
        )

    def selects(self, topic: str, partition: int) -> bool:
        """Whether this partition is selected."""
        if self.topics is not None:
            return topic in self.topics
        if self.assigned is not None:
            return partition in self.assigned.get(topic, ())
        assert self.pattern is not None, "one of the three is given"
        return matches(self.pattern, topic)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The common options of batches and streams. `late` is the treatment of a start after the last record.
    `warnings` say which options of Kafka are ignored, and why."""

    cluster: Cluster
    subscription: Subscription
    start: Bound
    late: str
    fail_on_data_loss: bool
    ignore_corrupt_batches: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    fetch_max_bytes: int = FETCH_BYTES
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The options of a batch read."""

    read: ReadOptions
    end: Bound
    pushdown: bool


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a stream. `limits` are the names of those that were given to limit its micro-batches."""

    read: ReadOptions
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    group_id: str | None
    limits: tuple[str, ...] = ()


def includes_headers(given: Mapping[str, str]) -> bool:
    """Whether the user wants headers if no columns are named. Refuses options that no read can take."""
    values = _ANY_READ.read(given)
    _subscription(values)
    return values[INCLUDE_HEADERS]


def batch_options(given: Mapping[str, str]) -> BatchOptions:
    """The options of a batch read. Raises an OptionError of the matching kind."""
    values = _BATCH.read(given)
    start = _bound(values, STARTS, "earliest")
    end = _bound(values, ENDS, "latest")
    _refuse(start, "latest", LATEST, "start at the latest offset, where there is nothing to read")
    _refuse(end, "earliest", EARLIEST, "end at the earliest offset, before there is anything to read")
    wrong = contradiction(start, end)
    if wrong is not None:
        raise ContradictingOptionsError(wrong)
    return BatchOptions(_read_options(values, start), end, values[PUSHDOWN])


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """The options of a stream. Raises an OptionError of the matching kind."""
    values = _STREAM.read(given)
    least, most = values[MIN_OFFSETS_PER_TRIGGER], values[MAX_OFFSETS_PER_TRIGGER]
    if least is not None and most is not None and least > most:
        raise ContradictingOptionsError(
            f"option {MIN_OFFSETS_PER_TRIGGER.name} is {least}, which is more than "
            f"{MAX_OFFSETS_PER_TRIGGER.name}, {most}"
        )
    return StreamOptions(
        _read_options(values, _bound(values, STARTS, "latest")),
        most,
        least,
        values[MAX_TRIGGER_DELAY],
        values[GROUP_ID],
        tuple(option.name for option in LIMITS if values.is_given(option)),
    )


def _read_options(values: OptionValues, start: Bound) -> ReadOptions:
    return ReadOptions(
        cluster_of(values),
        _subscription(values),
        start,
        values[LATE],
        values[FAIL_ON_DATA_LOSS],
        values[IGNORE_CORRUPT_BATCHES],
        values[MIN_PARTITIONS],
        values[MAX_RECORDS_PER_PARTITION],
        _fetch_max_bytes(values),
        values.warnings,
    )


def _fetch_max_bytes(values: OptionValues) -> int:
    given = [values[option] for option in (FETCH_MAX_BYTES, PARTITION_FETCH_BYTES) if values.is_given(option)]
    return min(max(min(given, default=FETCH_BYTES), FETCH_BYTES_MIN), FETCH_BYTES_MAX)


def _subscription(values: OptionValues) -> Subscription:
    given = [option.name for option in _WHICH if values.is_given(option)]
    if not given:
        raise MissingOptionError(
            "a read from hightide needs one of the options subscribe, subscribePattern, assign"
        )
    if len(given) > 1:
        raise ContradictingOptionsError(f"options {' and '.join(given)} exclude each other; give one of them")
    return Subscription(values[SUBSCRIBE], values[SUBSCRIBE_PATTERN], values[ASSIGN])


def _bound(values: OptionValues, options: tuple[Option[Bound | None], ...], default: Any) -> Bound:
    """The option that takes precedence."""
    for option in options:
        bound = values[option]
        if bound is not None:
            return bound
    return Everywhere(options[-1].name, default)


def _refuse(bound: Bound, word: str, offset: int, what: str) -> None:
    refused = isinstance(bound, Everywhere) and bound.when == word
    if isinstance(bound, AtOffsets):
        named = next((str(each) for each, at in sorted(bound.offsets.items()) if at == offset), None)
        if named is not None:
            raise InvalidOptionError(f"option {bound.option} says {offset} of {named}: a batch cannot {what}")
    if refused:
        raise InvalidOptionError(f"option {bound.option} is {word}: a batch cannot {what}")
