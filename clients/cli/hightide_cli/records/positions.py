"""The positions at which to start reading, as users write them."""

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Literal

import click

from hightide_cli.command_line.sizes import parse_duration

# Milliseconds since 1970 have had this many digits since 1973; fewer are a date, as in 20130101.
_MILLISECONDS_DIGITS = 11
# Timestamps are in microseconds, and fromisoformat cuts off what is finer.
_BEYOND_MICROSECONDS = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")


class Anchor(Enum):
    """The point that a position counts from."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    BEFORE_END = "before the end"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Position:
    """The position at which to start each partition. `value` is an offset, a count, or microseconds;
    otherwise 0."""

    anchor: Anchor
    value: int = 0


def parse_position(text: str, hint: str = "--from") -> Position:
    """Parse `earliest`, `latest`, an offset, `-N`, or `@TIME`, and kcat's words for them: `beginning`, `end`,
    `s@MS`. Raises click.BadParameter, which names the option."""
    if text in {"earliest", "beginning", "start"}:
        return Position(Anchor.EARLIEST)
    if text in {"latest", "end"}:
        return Position(Anchor.LATEST)
    if text.startswith(("@", "s@", "e@")):
        return Position(Anchor.TIMESTAMP, parse_moment(text.partition("@")[2]))
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise click.BadParameter(f"{text!r} is not earliest, latest, an offset, -N or @TIME", param_hint=hint)
    return Position(Anchor.BEFORE_END if text.startswith("-") else Anchor.OFFSET, int(digits))


def reset_of(position: Position) -> Literal["earliest", "latest"]:
    """Return the start for partitions without a committed offset of the group. Raises click.BadParameter."""
    if position.anchor is Anchor.EARLIEST:
        return "earliest"
    if position.anchor is Anchor.LATEST:
        return "latest"
    raise click.BadParameter(
        "with --group it is earliest or latest; `hightide group reset-offsets` sets what is committed",
        param_hint="--from",
    )


def parse_moment(text: str) -> int:
    """Parse a time in ISO 8601, UTC where it names no zone, milliseconds since 1970, or a span before now as
    in -15m, into microseconds since 1970: the first one at or after it.

    Raises click.BadParameter.
    """
    if text.isascii() and text.isdigit() and len(text) >= _MILLISECONDS_DIGITS:
        return int(text) * 1000
    if text.startswith("-"):
        return _before_now(text[1:])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a time like 2013-01-01T05:00:00Z") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since_1970 = moment - datetime(1970, 1, 1, tzinfo=UTC)
    is_between = _BEYOND_MICROSECONDS.search(text) is not None
    return (since_1970.days * 86_400 + since_1970.seconds) * 1_000_000 + since_1970.microseconds + is_between


def _before_now(span: str) -> int:
    try:
        return max(0, round((time.time() - parse_duration(span)) * 1_000_000))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
