"""The start and end of a read: the questions to the cluster for each partition, and the meaning of the
answers.

Theory of operation. The options are reduced to one `Bound` for the start and one for the end. `questions`
returns the questions for it; the shell asks them in a few calls; `resolve` turns the answers into offsets.
Bounds that are not possible are returned as errors, beside the offsets with which a read that tolerates
losses goes on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from hightide.records import TopicPartition

from hightide_spark.errors import (
    InvalidOptionError,
    NoRecordSoLateError,
    RecordsDeletedError,
    SparkConnectorError,
)

# The values of Kafka's options.
LATEST: Final = -1
EARLIEST: Final = -2

# The questions about a partition: its first offset, its next one, or the first at or after a time in us.
When: TypeAlias = Literal["earliest", "latest"] | int
Answers: TypeAlias = Mapping[tuple[TopicPartition, When], int | None]


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The same bound for every partition. `option` is the option that sets it."""

    option: str
    when: When


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition; LATEST and EARLIEST are allowed."""

    option: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimes:
    """A time in microseconds since 1970 for each partition."""

    option: str
    times_us: Mapping[TopicPartition, int]


Bound: TypeAlias = Everywhere | AtOffsets | AtTimes


@dataclass(frozen=True, slots=True)
class Resolved:
    """An offset for each partition. `errors` name those that differ from the request."""

    offsets: Mapping[TopicPartition, int]
    errors: tuple[SparkConnectorError, ...] = ()


def questions(bound: Bound, partitions: Iterable[TopicPartition]) -> list[tuple[TopicPartition, When]]:
    """The questions about these partitions, in this order: the end before a time, so that a record that comes
    in between is found by its time or is after the end. Raises InvalidOptionError if the option does not name
    exactly these partitions."""
    every = sorted(partitions)
    match bound:
        case Everywhere(when="earliest" | "latest" as when):
            return [(partition, when) for partition in every]
        case Everywhere(when=when):
            return [(partition, at) for partition in every for at in ("latest", when)]
        case AtTimes(option, times_us):
            _check_named(option, times_us, every)
            return [(partition, at) for partition in every for at in ("latest", times_us[partition])]
        case AtOffsets(option, offsets):
            _check_named(option, offsets, every)
            return [
                (partition, at)
                for partition in every
                for at in _needed(offsets[partition])
            ]  # fmt: skip


def _needed(offset: int) -> tuple[Literal["earliest", "latest"], ...]:
    if offset == LATEST:
        return ("latest",)
    return ("earliest",) if offset == EARLIEST else ("earliest", "latest")


def _check_named(option: str, named: Iterable[TopicPartition], read: Iterable[TopicPartition]) -> None:
    missing = sorted(set(read) - set(named))
    strange = sorted(set(named) - set(read))
    if missing or strange:
        said = [
            f"{', '.join(str(each) for each in some[:5])}{' …' if len(some) > 5 else ''} {what}"
            for some, what in ((missing, "missing in it"), (strange, "named but not read"))
            if some
        ]
        raise InvalidOptionError(
            f"option {option} must name exactly the partitions that are read (-1 is latest, -2 earliest): "
            + "; ".join(said)
        )


def resolve(bound: Bound, partitions: Iterable[TopicPartition], answers: Answers, *, late: str) -> Resolved:
    """The offset of each partition. `late` is the treatment of a time after the last record: "latest", or
    "error", which raises NoRecordSoLateError."""
    found: dict[TopicPartition, int] = {}
    errors: list[SparkConnectorError] = []
    for partition in sorted(partitions):
        match bound:
            case Everywhere(option, when):
                found[partition] = _at(option, partition, when, answers, late)
            case AtTimes(option, times_us):
                found[partition] = _at(option, partition, times_us[partition], answers, late)
            case AtOffsets(option, offsets):
                found[partition], error = _at_offset(option, partition, offsets[partition], answers)
                errors += [error] if error is not None else []
    return Resolved(found, tuple(errors))


def _known(answers: Answers, partition: TopicPartition, when: When) -> int:
    offset = answers[partition, when]
    assert offset is not None, "every log has a first and a next offset"
    return offset


def _at(option: str, partition: TopicPartition, when: When, answers: Answers, late: str) -> int:
    if isinstance(when, str):
        return _known(answers, partition, when)
    offset = answers[partition, when]
    if offset is not None:
        return offset
    if late == "error":
        raise NoRecordSoLateError(
            f"option {option}: {partition} has no record at or after {when // 1000} ms",
            topic=partition.topic,
            partition=partition.partition,
        )
    return _known(answers, partition, "latest")


def _at_offset(
    option: str, partition: TopicPartition, offset: int, answers: Answers
) -> tuple[int, SparkConnectorError | None]:
    if offset == LATEST:
        return _known(answers, partition, "latest"), None
    earliest = _known(answers, partition, "earliest")
    if offset == EARLIEST:
        return earliest, None
    if offset < earliest:
        message = (
            f"option {option} says offset {offset} of {partition}, but its log starts at {earliest}: "
            "retention has deleted what was before"
        )
        return earliest, RecordsDeletedError(message, topic=partition.topic, partition=partition.partition)
    latest = _known(answers, partition, "latest")
    if offset > latest:
        message = f"option {option} says offset {offset} of {partition}, but its log ends at {latest}"
        return latest, InvalidOptionError(message, topic=partition.topic, partition=partition.partition)
    return offset, None


def contradiction(start: Bound, end: Bound) -> str | None:
    """The error if the options alone place a partition's start after its end, or None."""
    pairs: list[tuple[str, int, int]] = []
    match start, end:
        case AtOffsets(offsets=starts), AtOffsets(offsets=ends):
            pairs = [
                (str(each), starts[each], ends[each])
                for each in sorted(starts.keys() & ends.keys())
                if starts[each] >= 0 and ends[each] >= 0
            ]
        case AtTimes(times_us=starts), AtTimes(times_us=ends):
            pairs = [(str(each), starts[each], ends[each]) for each in sorted(starts.keys() & ends.keys())]
        case Everywhere(when=int(first)), Everywhere(when=int(last)):
            pairs = [("every partition", first, last)]
        case _:
            pass  # Only the answers of the cluster can show it.
    wrong = next((name for name, first, last in pairs if first > last), None)
    return f"{wrong} starts at {start.option} behind its end at {end.option}" if wrong else None
