"""Sizes and durations as people write and read them."""

import pytest
from hightide_cli.command_line.sizes import (
    duration_text,
    milliseconds_text,
    parse_duration,
    parse_size,
    size_text,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("800", 800),
        ("800b", 800),
        ("10MB", 10_000_000),
        ("10mb/s", 10_000_000),
        ("10 M", 10_000_000),
        ("1.5GiB", 1_610_612_736),
        ("2Ki", 2_048),
        ("1TB", 10**12),
    ],
)
def test_sizes_are_read_in_decimal_and_in_binary(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "fast", "-1", "10XB", "1e3", "MB", "10MB/min"])
def test_what_is_no_size_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size like"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (1_234, "1.23 kB"),
        (99_960, "100 kB"),
        (999_500, "1 MB"),
        (2_500_000_000, "2.5 GB"),
        (7 * 10**15, "7000 TB"),
    ],
)
def test_sizes_have_three_digits(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


def test_durations_have_two_units_at_most() -> None:
    assert [duration_text(each) for each in (0.4, 59.4, 125, 12_000)] == [
        "0 s",
        "59 s",
        "2 min 5 s",
        "3 h 20 min",
    ]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 ms"), (119.6, "120 ms"), (1_500, "1.5 s"), (45_000, "45 s"), (125_000, "2 min 5 s")],
)
def test_milliseconds_are_told_in_the_unit_that_fits(milliseconds: float, text: str) -> None:
    assert milliseconds_text(milliseconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("15 min", 900), ("1.5h", 5_400), ("1h30m", 5_400), ("7d", 604_800)],
)
def test_time_spans_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "-1h", "1h 30", "1w", "h", "PT1H"])
def test_what_is_no_time_span_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time span like"):
        parse_duration(text)


def test_numbers_that_no_machine_has_are_no_sizes_and_no_spans() -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size("9" * 400)
    with pytest.raises(ValueError, match="is not a time span"):
        parse_duration("9" * 400 + "d")
