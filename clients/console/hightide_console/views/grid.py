"""Every partition of the cluster as one cell, small enough for ten thousand of them. Pure.

Few partitions differ from one another: a cell is the number of its kind (leader, replicas, ISR, state) in a
table that grows as kinds appear. A look that finds nothing new is sent as nothing, one that finds a change as
the topics that changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from hightide import PartitionDescription, ReplicaListing, TopicDescription, TopicPartition

_MIN_ISR: Final = "min.insync.replicas"
#: A follower that lacks fewer records than this may have them on the way.
_LAG_SHOWN: Final = 1


class CellState(Enum):
    """The state of a partition, the worst that holds."""

    OFFLINE = "offline"
    UNDER_MIN_ISR = "under min ISR"
    UNDER_REPLICATED = "under-replicated"
    MOVING = "moving"
    OK = "in sync"


@dataclass(frozen=True, slots=True)
class CellKind:
    """What a cell may be. `leader` is -1 if there is none."""

    state: CellState
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one topic, as numbers of kinds; `lags` has, by partition, how many records the follower
    that is furthest behind lacks, where it lacks any."""

    cells: tuple[int, ...]
    lags: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Grid:
    """One version of the grid: the kinds so far, and a row for each topic, by name."""

    version: int = 0
    kinds: tuple[CellKind, ...] = ()
    rows: Mapping[str, Row] = field(default_factory=dict)


def next_grid(
    before: Grid,
    topics: Sequence[TopicDescription],
    replicas: ReplicaListing,
    moving: frozenset[TopicPartition] = frozenset(),
) -> Grid:
    """The grid after a look; the same one if nothing has changed."""
    numbers = {kind: number for number, kind in enumerate(before.kinds)}
    lags = replica_lags(replicas)
    rows: dict[str, Row] = {}
    for topic in topics:
        least = _least_in_sync(topic)
        cells = tuple(
            numbers.setdefault(_kind_of(topic.name, each, least, moving), len(numbers))
            for each in topic.partitions
        )
        row = Row(cells, lags.get(topic.name, {}))
        known = before.rows.get(topic.name)
        rows[topic.name] = known if known == row else row
    if rows == before.rows and list(rows) == list(before.rows):
        return before
    return Grid(before.version + 1, tuple(numbers), rows)


def state_of(part: PartitionDescription, least_in_sync: int = 1, is_moving: bool = False) -> CellState:
    """The state of one partition. A replica that a move still copies does not count as missing (KIP-352)."""
    if part.leader is None:
        return CellState.OFFLINE
    if len(part.isr) < min(least_in_sync, len(part.replicas)):
        return CellState.UNDER_MIN_ISR
    if is_moving:
        return CellState.MOVING
    return CellState.OK if set(part.replicas) <= set(part.isr) else CellState.UNDER_REPLICATED


def replica_lags(replicas: ReplicaListing) -> dict[str, dict[int, int]]:
    """By topic and partition, how many records the follower that is furthest behind lacks; none that lacks
    nothing. Where two brokers take themselves for the leader, the newer epoch counts."""
    ends: dict[TopicPartition, tuple[int, int]] = {}
    least: dict[TopicPartition, int] = {}
    for each in replicas.replicas:
        if each.is_leader:
            ends[each.partition] = max(
                ends.get(each.partition, (-1, 0)), (each.leader_epoch, each.log_end_offset)
            )
        else:
            least[each.partition] = min(least.get(each.partition, each.log_end_offset), each.log_end_offset)
    lags: dict[str, dict[int, int]] = {}
    for partition, (_, end) in ends.items():
        lag = end - least.get(partition, end)
        if lag >= _LAG_SHOWN:
            lags.setdefault(partition.topic, {})[partition.partition] = lag
    return lags


def whole_document(grid: Grid) -> dict[str, Any]:
    """All of the grid, for a window that has none."""
    return {
        "version": grid.version,
        "kinds": [_kind_document(each) for each in grid.kinds],
        "topics": list(grid.rows),
        "rows": {name: _row_document(row) for name, row in grid.rows.items()},
    }


def change_document(before: Grid, grid: Grid) -> dict[str, Any]:
    """What a window with the version before needs: new kinds, the names where they changed, changed rows."""
    rows = {name: _row_document(row) for name, row in grid.rows.items() if before.rows.get(name) is not row}
    document: dict[str, Any] = {
        "version": grid.version,
        "after": before.version,
        "kinds": [_kind_document(each) for each in grid.kinds[len(before.kinds) :]],
        "rows": rows,
    }
    if list(before.rows) != list(grid.rows):
        document["topics"] = list(grid.rows)
    return document


def _kind_of(
    topic: str, part: PartitionDescription, least: int, moving: frozenset[TopicPartition]
) -> CellKind:
    is_moving = TopicPartition(topic, part.partition) in moving if moving else False
    leader = -1 if part.leader is None else part.leader
    return CellKind(state_of(part, least, is_moving), leader, part.replicas, part.isr)


def _least_in_sync(topic: TopicDescription) -> int:
    said = topic.configs.get(_MIN_ISR, "1")
    return int(said) if said.isdigit() else 1


def _kind_document(kind: CellKind) -> list[Any]:
    return [kind.state.value, kind.leader, kind.replicas, kind.isr]


def _row_document(row: Row) -> list[Any]:
    return [row.cells, row.lags]
