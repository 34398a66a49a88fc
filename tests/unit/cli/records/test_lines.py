"""Lines become records and records become lines; what the one prints as JSON the other reads."""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import click
import pytest
from hightide import Record
from hightide.v1.broker_service_pb2 import GetMetadataResponse, ProducePartitionResult, ProduceResponse
from hightide.v1.metadata_pb2 import PartitionMetadata, TopicMetadata
from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_cli.records.line_producer import LineForm, LineRecord, produce_lines, read_line
from hightide_cli.records.positions import Anchor, Position, parse_moment, parse_position
from hightide_cli.records.printer import FormatError, RecordPrinter
from hightide_cli.records.reading import print_records
from hypothesis import given
from hypothesis import strategies as st
from unit.cli.answering_server import AnsweringServer


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


@pytest.mark.parametrize(
    "line",
    [
        *(b"{", b"[]", b"\xff", b'{"value": ' + b"[" * 99_999),
        *(b'{"value": 1, "partition": "x"}', b'{"value": 1, "partition": true}', b'{"value_base64": "%"}'),
        *(b'{"value_base64": 5}', b'{"value": 1, "headers": "a"}'),
        # A document that is no record would be a record without a key and a value: a deletion.
        *(b"{}", b'{"dest": "IAH"}', b'{"key": "k"}'),
    ],
)
def test_a_line_that_is_no_record_in_json_is_named_by_its_number(line: bytes) -> None:
    with pytest.raises(click.ClickException, match="line 9 is not a record in JSON"):
        read_line(line, 9, LineForm(as_json=True))


def test_what_is_no_text_in_json_is_written_as_json() -> None:
    read = read_line(
        b'{"value": {"a": 1}, "key": 7, "headers": {"n": 5, "none": null}}', 1, LineForm(as_json=True)
    )
    assert (read.value, read.key) == (b'{"a": 1}', b"7")
    assert read.headers == (("n", b"5"), ("none", b""))


@given(st.none() | st.binary(), st.none() | st.binary())
def test_what_consume_prints_as_json_produce_reads(key: bytes | None, value: bytes | None) -> None:
    printed = RecordPrinter(as_json=True, form=None).render(record(key, value))
    assert printed.count(b"\n") == 1
    read = read_line(printed, 1, LineForm(as_json=True))
    assert read == LineRecord(value, key, (("h", b"x"),), 2, 1_500_000)


@pytest.mark.parametrize("form", [None, "%h\\n"])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_header_without_a_value_is_printed(form: str | None, as_json: bool) -> None:
    """Clients of other languages write them, and Spark. One of them ended the reading of a topic."""
    headers: Any = (("a", None), ("b", b"x"))
    printed = RecordPrinter(as_json=as_json, form=form).render(record()._replace(headers=headers))
    if as_json:
        assert json.loads(printed)["headers"] == {"a": None, "b": "x"}
        assert read_line(printed, 1, LineForm(as_json=True)).headers == (("a", b""), ("b", b"x"))
    else:
        assert printed == (b"v\n" if form is None else b"a=,b=x\n")


def test_who_follows_a_topic_ends_it_and_who_reads_to_an_end_is_interrupted() -> None:
    """A dump that was cut off by Ctrl-C ended like a whole one."""

    def interrupted() -> Iterator[Record]:
        yield record()
        raise KeyboardInterrupt

    printer, output = RecordPrinter(as_json=False, form=None), BytesIO()
    print_records(interrupted(), printer, output, is_followed=True)
    assert output.getvalue() == b"v\n"
    with pytest.raises(KeyboardInterrupt):
        print_records(interrupted(), printer, output, is_followed=False)


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


@pytest.mark.parametrize(
    ("fraction", "microseconds"),
    [
        (".1", 100_000),
        (".123456", 123_456),
        (".123456000", 123_456),
        (".123456001", 123_457),
        (",9999999", 10**6),
    ],
)
def test_a_time_between_two_microseconds_is_the_later_one(fraction: str, microseconds: int) -> None:
    """A record of the earlier one is from before it."""
    since_1970 = parse_moment(f"2013-01-01T05:00:00{fraction}Z")
    assert since_1970 == parse_moment("2013-01-01T05:00:00Z") + microseconds


def test_a_line_that_cannot_be_read_ends_the_writing_and_what_was_written_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who writes the file again must know what is there already."""
    topic_id = b"t" * 16
    server = AnsweringServer(
        {"Produce": ProduceResponse(partitions=[ProducePartitionResult(topic_id=topic_id, base_offset=7)])}
    )
    part = PartitionMetadata(partition=0, leader=1, replicas=[1], isr=[1])
    topic = TopicMetadata(topic="t", topic_id=topic_id, partitions=[part])
    server.answers["GetMetadata"] = GetMetadataResponse(
        cluster_id="c", brokers=[server.endpoint], controller=server.endpoint, topics=[topic]
    )
    lines, form = [b"a:1\n", b"b:2\n", b"c\n"], LineForm(key_separator=b":")
    with pytest.raises(click.ClickException, match="line 3 has no key"):
        produce_lines(
            lines, "t", form, cluster=ClientArguments(bootstrap=server.address), acks="1", compression="none"
        )
    assert capsys.readouterr().err == "produced 2 records to t: partition 0 offset 7 to 8\n"
