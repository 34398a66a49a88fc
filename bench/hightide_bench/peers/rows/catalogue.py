"""All rows, in the order of the table."""

from collections.abc import Iterable
from typing import Final

from hightide_bench.peers.rows import consuming, failover, footprint, groups, producing, single_records, spark
from hightide_bench.peers.rows.row import Row

ROWS: Final[tuple[Row, ...]] = (
    *single_records.ROWS,
    *producing.ROWS,
    *consuming.ROWS,
    *failover.ROWS,
    *groups.ROWS,
    *footprint.ROWS,
    *spark.ROWS,
)


class UnknownRowError(Exception):
    """No row has this name, nor does a name begin with it."""


def rows_named(names: Iterable[str]) -> list[Row]:
    """Return the rows with these names, in the order of the table; all rows without a name. A name that no
    row has stands for those that begin with it and a hyphen. Raises UnknownRowError if there are none."""
    wanted = {row.name for name in names for row in _meant_by(name)}
    return [row for row in ROWS if not wanted or row.name in wanted]


def _meant_by(name: str) -> list[Row]:
    same = [row for row in ROWS if row.name == name]
    meant = same or [row for row in ROWS if row.name.startswith(f"{name}-")]
    if not meant:
        raise UnknownRowError(f"no row is called {name!r}; there are {', '.join(row.name for row in ROWS)}")
    return meant
