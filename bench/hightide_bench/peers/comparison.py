"""What the rounds of a row say: medians, spreads and ratios, as pure functions."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hightide_bench.peers.rows.row import EntrantName, Figure, Figures, Row

KAFKAS: tuple[EntrantName, ...] = ("kafka default", "kafka tuned")


@dataclass(frozen=True, slots=True)
class Spread:
    """What some rounds measured."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        """Return the median and the extremes; None without values."""
        return cls(statistics.median(values), min(values), max(values)) if values else None


@dataclass(slots=True)
class RowResult:
    """What was measured of a row: the figures of each entrant in each round, and what went wrong."""

    row: Row
    rounds: list[dict[EntrantName, Figures]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    row: Row
    figure: Figure
    entrants: Mapping[EntrantName, Spread]
    ratio: Spread | None
    """How many times as good Hightide is as the better of the two Kafkas; above 1, it is ahead. None without
    figures of both."""
    against: EntrantName | None
    """The Kafka of the ratio."""


def lines_of(result: RowResult) -> list[Line]:
    """Return the lines of a row."""
    return [_line(result, figure) for figure in result.row.figures]


def _line(result: RowResult, figure: Figure) -> Line:
    entrants: dict[EntrantName, Spread] = {}
    for entrant in result.row.entrants:
        spread = Spread.of(_values(result.rounds, entrant.name, figure.key))
        if spread is not None:
            entrants[entrant.name] = spread
    against = better_kafka(entrants, figure.better)
    ratio = None if against is None else Spread.of(_ratios(result.rounds, against, figure))
    return Line(result.row, figure, entrants, ratio, against if ratio is not None else None)


def better_kafka(
    entrants: Mapping[EntrantName, Spread], better: Literal["higher", "lower"]
) -> EntrantName | None:
    """Return the Kafka with the better median, None if none was measured."""
    measured = [name for name in KAFKAS if name in entrants]
    if not measured:
        return None
    choose = max if better == "higher" else min
    return choose(measured, key=lambda name: entrants[name].median)


def _values(rounds: Sequence[Mapping[EntrantName, Figures]], name: EntrantName, key: str) -> list[float]:
    found = [each[name].get(key) for each in rounds if name in each]
    return [value for value in found if value is not None]


def _ratios(
    rounds: Sequence[Mapping[EntrantName, Figures]], against: EntrantName, figure: Figure
) -> list[float]:
    """The ratio of each round in which both were measured: a slow minute of the machine hits both."""
    ratios = []
    for each in rounds:
        ours, theirs = each.get("hightide", {}).get(figure.key), each.get(against, {}).get(figure.key)
        if ours and theirs:
            ratios.append(ours / theirs if figure.better == "higher" else theirs / ours)
    return ratios


def table_rows(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    """Return the cells of the table. A row's title stands on its first line only."""
    cells = []
    titled: set[str] = set()
    for line in lines:
        title = "" if line.row.name in titled else line.row.title
        titled.add(line.row.name)
        entrants = [_cell(line.entrants.get(name)) for name in ("hightide", *KAFKAS)]
        cells.append((title, line.figure.title, *entrants, _cell(line.ratio)))
    return cells


def _cell(spread: Spread | None) -> str:
    if spread is None:
        return ""
    if spread.low == spread.high:
        return readable(spread.median)
    return f"{readable(spread.median)} [{readable(spread.low)}–{readable(spread.high)}]"


def readable(value: float) -> str:
    """Write a number with three digits that count: 0.0123, 1.23, 12.3, 1,230,000."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def document_of(lines: Sequence[Line]) -> list[dict[str, object]]:
    """Return the lines as they stand in JSON."""
    return [
        {
            "row": line.row.name,
            "figure": line.figure.key,
            "better": line.figure.better,
            "hightide": _spread_document(line.entrants.get("hightide")),
            "kafka_default": _spread_document(line.entrants.get("kafka default")),
            "kafka_tuned": _spread_document(line.entrants.get("kafka tuned")),
            "ratio": _spread_document(line.ratio),
            "against": line.against,
        }
        for line in lines
    ]


def _spread_document(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"median": _short(spread.median), "low": _short(spread.low), "high": _short(spread.high)}


def _short(value: float) -> float:
    return float(f"{value:.6g}")
