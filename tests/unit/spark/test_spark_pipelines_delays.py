"""The statistics of delays say what they are defined to say, the same however often they are made."""

import json
import os
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hightide_spark.pipelines import nycflights
from hightide_spark.pipelines.delay_chart import draw_chart, figure_of
from hightide_spark.pipelines.delay_statistics import DelayWindow, by_week, dry_and_wet, updated, window_of
from hightide_spark.pipelines.delays import read_table, write_table

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
NEW_YEAR = datetime(2013, 1, 1, tzinfo=UTC)
WINDOW = DelayWindow(
    start=NEW_YEAR,
    end=NEW_YEAR + DAY,
    origin="EWR",
    airport="Newark Liberty Intl",
    flights=10,
    cancelled=4,
    late=2,
    delay_min_sum=100,
    delay_min_max=70,
    wet_departures=2,
    wet_delay_min_sum=80,
    weather_unknown=0,
    unlisted_destinations=1,
)
NOBODY_LEFT = replace(
    WINDOW, cancelled=10, late=0, delay_min_sum=0, delay_min_max=None, wet_departures=0, wet_delay_min_sum=0
)


def test_a_window_is_told_with_its_means() -> None:
    told = json.loads(WINDOW.document())
    assert (told["flights"], told["cancelled"], told["late"]) == (10, 4, 2)
    assert told["mean_delay_min"] == 16.67
    assert (told["mean_delay_wet_min"], told["mean_delay_dry_min"]) == (40.0, 5.0)
    assert (WINDOW.key, told["start"]) == ("EWR 2013-01-01T00:00:00+00:00", "2013-01-01T00:00:00+00:00")


def test_of_a_day_on_which_nobody_left_there_is_no_mean() -> None:
    assert json.loads(NOBODY_LEFT.document())["mean_delay_min"] is None
    assert by_week([NOBODY_LEFT]) == {}
    assert dry_and_wet([NOBODY_LEFT]) == {"EWR": (0.0, 0.0)}


def test_windows_are_in_utc_also_where_clocks_are_set_back() -> None:
    at = datetime(2013, 11, 3, 5, tzinfo=UTC)  # New York repeats the hour that begins here.
    hours = [replace(WINDOW, start=at + number * HOUR, end=at + (number + 1) * HOUR) for number in (0, 1)]
    new_york = ZoneInfo("America/New_York")
    rows = [
        {**asdict(each), "start": each.start.astimezone(new_york), "end": each.end.astimezone(new_york)}
        for each in hours
    ]
    assert [window_of(row).key for row in rows] == [
        "EWR 2013-11-03T05:00:00+00:00",
        "EWR 2013-11-03T06:00:00+00:00",
    ]
    assert updated([], [window_of(row) for row in rows]) == hours


def test_an_update_replaces_windows_and_done_twice_is_one(tmp_path: Path) -> None:
    path = tmp_path / "delays.parquet"
    assert read_table(path) == []
    later = replace(WINDOW, start=NEW_YEAR + DAY, end=NEW_YEAR + 2 * DAY)
    more = replace(WINDOW, flights=11)
    for _ in range(2):
        write_table(updated(read_table(path), [later, WINDOW]), path)
    assert read_table(path) == [WINDOW, later]
    write_table(updated(read_table(path), [more]), path)
    assert read_table(path) == [more, later]


def test_the_file_and_then_its_name_in_the_folder_are_made_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "delays.parquet"
    synced = []

    def noted(handle: int) -> None:
        synced.append((Path(os.readlink(f"/proc/self/fd/{handle}")), path.exists()))

    monkeypatch.setattr(os, "fsync", noted)
    write_table([WINDOW], path)
    assert synced == [(tmp_path / ".delays.parquet", False), (tmp_path, True)]


def test_weeks_are_those_of_the_calendar_and_weighted_by_departures() -> None:
    sunday = replace(WINDOW, start=NEW_YEAR + 5 * DAY, flights=6, cancelled=0, delay_min_sum=20)
    monday = replace(WINDOW, start=NEW_YEAR + 6 * DAY, flights=6, cancelled=4, delay_min_sum=20)
    assert by_week([monday, sunday, WINDOW]) == {"EWR": [(NEW_YEAR, 10.0), (NEW_YEAR + 6 * DAY, 10.0)]}
    assert dry_and_wet([WINDOW]) == {"EWR": (5.0, 40.0)}


def test_the_chart_is_a_png_also_of_nothing(tmp_path: Path) -> None:
    for table in ([], [WINDOW, replace(WINDOW, origin="JFK", start=NEW_YEAR + 7 * DAY)]):
        draw_chart(table, tmp_path / "delays.png")
        assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")


def test_the_chart_draws_every_origin_also_those_beyond_the_number_of_colours() -> None:
    origins = [f"AP{number}" for number in range(8)]
    figure = figure_of([replace(WINDOW, origin=each) for each in origins])
    assert [line.get_label() for line in figure.axes[0].get_lines()] == origins


def test_an_hour_of_weather_comes_once_and_so_does_an_airport() -> None:
    rain, places = nycflights.hourly_rain(), nycflights.airports()
    hours = rain.select(["origin", "year", "month", "day", "hour"]).to_pylist()
    assert len({tuple(each.values()) for each in hours}) == len(hours) > 26_000
    codes = places.column("faa").to_pylist()
    assert len(set(codes)) == len(codes) > 1_000
    assert {"EWR", "JFK", "LGA"} <= set(codes)
