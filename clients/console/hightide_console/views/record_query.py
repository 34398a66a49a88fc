"""What somebody wants to see of a topic's records: from the words of a form to bounded ranges of offsets.
Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TypeVar

from hightide_console.settings import PARTITIONS_AT_ONCE_MAX, RECORDS_MAX, SEARCH_RECORDS_MAX
from hightide_console.views.records import Form

_LIMIT_DEFAULT: Final = 50
_PATTERN_MAX: Final = 1_000
_NUMBER_MAX: Final = 1 << 62
Choice = TypeVar("Choice", bound=Enum)


class Start(Enum):
    """Where the reading begins."""

    NEWEST = "newest"
    EARLIEST = "earliest"
    OFFSET = "offset"
    TIME = "time"


class Match(Enum):
    """Which records are shown."""

    ALL = "all"
    KEY = "key"
    CONTAINS = "contains"
    PATTERN = "pattern"


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """A question about records. `partition` is None for all of them. `at` is the offset, or microseconds
    since 1970. `errors` are the words of the form that were not understood, as sentences."""

    partition: int | None = None
    start: Start = Start.NEWEST
    at: int = 0
    at_text: str = ""
    match: Match = Match.ALL
    text: str = ""
    limit: int = _LIMIT_DEFAULT
    form: Form = Form.AUTO
    errors: tuple[str, ...] = ()

    @property
    def is_search(self) -> bool:
        """Whether more has to be read than is shown."""
        return self.match is not Match.ALL


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Offsets [start, end) of one partition to read. `is_cut` means that its log goes on behind them."""

    partition: int
    start: int
    end: int
    is_cut: bool = False


def query_of(words: Mapping[str, str]) -> RecordQuery:
    """The question of a form's words. What is not understood is left at its default and said."""
    errors: list[str] = []
    query = RecordQuery(
        partition=_partition(words.get("partition", ""), errors),
        start=_one_of(Start, words.get("start", ""), Start.NEWEST),
        match=_one_of(Match, words.get("match", ""), Match.ALL),
        text=words.get("text", "")[:_PATTERN_MAX],
        limit=min(RECORDS_MAX, max(1, _limit(words.get("limit", "")))),
        form=_one_of(Form, words.get("form", ""), Form.AUTO),
        at_text=words.get("at", "").strip()[:64],
    )
    if query.match is not Match.ALL and not query.text:
        query = replace(query, match=Match.ALL)
    if query.start is Start.OFFSET:
        offset = whole_number(query.at_text)
        if offset is None:
            errors.append(f"“{query.at_text}” is no offset: give a whole number, such as 1200")
        query = replace(query, at=offset or 0)
    if query.start is Start.TIME:
        at_us = _moment_us(query.at_text)
        if at_us is None:
            errors.append(f"“{query.at_text}” is no time: give one such as 2026-01-31T14:00 (UTC)")
        query = replace(query, at=at_us or 0)
    return replace(query, errors=tuple(errors))


def partitions_of(query: RecordQuery, partition_count: int) -> list[int]:
    """The partitions to read. All of a topic with many would be many questions for one page: it is read one
    partition at a time, the first one unless another is asked for."""
    if query.partition is not None:
        return [query.partition] if query.partition < partition_count else []
    return list(
        range(partition_count if partition_count <= PARTITIONS_AT_ONCE_MAX else min(1, partition_count))
    )


def ranges_of(
    query: RecordQuery,
    earliest: Mapping[int, int],
    latest: Mapping[int, int],
    at_time: Mapping[int, int | None],
) -> list[ReadRange]:
    """The offsets to read of each partition, within its log. A search reads more than it shows, and has the
    same share of what it may read in each partition."""
    share = SEARCH_RECORDS_MAX // max(1, len(latest)) if query.is_search else query.limit
    ranges = []
    for partition, end in latest.items():
        first = earliest[partition]
        match query.start:
            case Start.NEWEST:
                begin = end - share
            case Start.EARLIEST:
                begin = first
            case Start.OFFSET:
                begin = query.at
            case Start.TIME:
                found = at_time.get(partition)
                begin = end if found is None else found
        begin = min(max(begin, first), end)
        if begin < end:
            stop = min(end, begin + share)
            ranges.append(ReadRange(partition, begin, stop, is_cut=stop < end))
    return ranges


def whole_number(word: str) -> int | None:
    """A number from 0 to 2^62, as partitions and offsets are; None for what is none."""
    word = word.strip()
    # Python reads no number of thousands of digits, and raises an error for one.
    if not (word.isascii() and word.isdigit() and len(word) < 20):
        return None
    return int(word) if int(word) <= _NUMBER_MAX else None


def _limit(word: str) -> int:
    number = whole_number(word)
    return _LIMIT_DEFAULT if number is None else number


def _partition(word: str, errors: list[str]) -> int | None:
    if word in ("", "all"):
        return None
    number = whole_number(word)
    if number is None:
        errors.append(f"“{word[:64]}” is no partition")
        return None
    return number


def _one_of(kind: type[Choice], word: str, default: Choice) -> Choice:
    return next((each for each in kind if each.value == word), default)


def _moment_us(text: str) -> int | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return int(at.timestamp() * 1_000_000)
