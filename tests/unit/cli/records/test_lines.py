"""Lines become records and records become lines; what the one prints as JSON the other reads."""

import click
import pytest
from hightide import Record
from hightide_cli.records.line_producer import LineForm, LineRecord, read_line
from hightide_cli.records.positions import Anchor, Position, parse_moment, parse_position
from hightide_cli.records.printer import FormatError, RecordPrinter
from hypothesis import given
from hypothesis import strategies as st


def record(key: bytes | None = b"k", value: bytes | None = b"v", **others: int) -> Record:
    return Record(
        "t", others.get("partition", 2), others.get("offset", 7), 1_500_000, key, value, (("h", b"x"),)
    )


def test_a_line_is_a_value_without_its_end() -> None:
    assert read_line(b"hello\n", 1, LineForm()) == LineRecord(b"hello", None, (), None)
    assert read_line(b"hello\r\n", 1, LineForm()).value == b"hello"
    assert read_line(b"\n", 1, LineForm()).value == b""


def test_a_separator_divides_key_and_value_at_its_first_place() -> None:
    read = read_line(b"k:v:w\n", 1, LineForm(key_separator=b":"))
    assert (read.key, read.value) == (b"k", b"v:w")


def test_a_line_without_the_separator_is_named_by_its_number() -> None:
    with pytest.raises(click.ClickException, match="line 3 has no key"):
        read_line(b"no key\n", 3, LineForm(key_separator=b":"))


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"partition": "x"}', b'{"value_base64": "%"}', b"\xff"])
def test_a_line_that_is_no_record_in_json_is_named_by_its_number(line: bytes) -> None:
    with pytest.raises(click.ClickException, match="line 9 is not a record in JSON"):
        read_line(line, 9, LineForm(as_json=True))


@given(st.none() | st.binary(), st.none() | st.binary())
def test_what_consume_prints_as_json_produce_reads(key: bytes | None, value: bytes | None) -> None:
    printed = RecordPrinter(as_json=True, form=None).render(record(key, value))
    assert printed.count(b"\n") == 1
    read = read_line(printed, 1, LineForm(as_json=True))
    assert read == LineRecord(value, key, (("h", b"x"),), 2, 1_500_000)


def test_values_are_printed_as_they_are() -> None:
    assert RecordPrinter(as_json=False, form=None).render(record(value=b"\xff\0")) == b"\xff\0\n"
    assert RecordPrinter(as_json=False, form=None).render(record(value=None)) == b"\n"


def test_a_format_names_fields_and_escapes() -> None:
    printer = RecordPrinter(as_json=False, form=r"%t/%p@%o %T %k=%v %h 100%%\n")
    assert printer.render(record()) == b"t/2@7 1500 k=v h=x 100%\n"


@pytest.mark.parametrize("form", ["%q", "%", "\\x", "\\"])
def test_an_unknown_field_or_escape_is_refused(form: str) -> None:
    with pytest.raises(FormatError):
        RecordPrinter(as_json=False, form=form)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position(Anchor.EARLIEST)),
        ("latest", Position(Anchor.LATEST)),
        ("42", Position(Anchor.OFFSET, 42)),
        ("-10", Position(Anchor.BEFORE_END, 10)),
        ("@1970-01-01T00:00:01.5Z", Position(Anchor.TIMESTAMP, 1_500_000)),
        ("@1970-01-01T01:00:00+01:00", Position(Anchor.TIMESTAMP, 0)),
    ],
)
def test_positions_are_written_as_other_tools_write_them(text: str, position: Position) -> None:
    assert parse_position(text) == position


@pytest.mark.parametrize("text", ["", "-", "now", "@", "@13", "1.5", "--3", "²"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_position(text)


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_moment("2013-01-01T05:00:00") == parse_moment("2013-01-01T05:00:00Z")
