"""What the page about the record batch tells those who write a client in another language."""

import re
import struct
from pathlib import Path

import pyarrow as pa
from hightide.batch import body
from hightide.batch.arrow_metadata import read_layout
from hightide.batch.header import HEADER_SIZE_BYTES, BatchHeader

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "design" / "record-batch.md").read_text()
SIZES = {"i64": 8, "i32": 4, "u32": 4, "u16": 2, "i16": 2, "u8": 1, "16 bytes": 16}
FORMATS = {"i64": "q", "i32": "i", "u32": "I", "u16": "H", "i16": "h", "16 bytes": "16s"}


def rows_under(heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, without its head."""
    text = PAGE.partition(f"## {heading}\n")[2]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table[0].splitlines()[2:]]


def test_the_fields_of_the_header_are_where_the_page_says() -> None:
    header = BatchHeader(1, 2, 3, 4, bytes(range(16)), 6, 0, 7, 8, 9, 10, 11, 12)
    packed = header.pack()
    end = 0
    for at, kind, name, _ in rows_under("The layout")[:-1]:
        # Three zero bytes follow the magic.
        assert int(at) == end
        end = int(at) + SIZES[kind] + (3 if name == "magic" else 0)
        if name != "magic":
            (found,) = struct.unpack_from(f"<{FORMATS[kind]}", packed, int(at))
            assert found == getattr(header, name), name
    assert end == HEADER_SIZE_BYTES


def test_the_columns_have_the_arrow_types_that_the_page_says() -> None:
    told = {row[0]: row[1] for row in rows_under("The body")}
    assert told == {field.name: str(field.type) for field in body.SCHEMA_WITH_HEADERS}
    assert all(field.nullable for field in body.SCHEMA_WITH_HEADERS)


def test_a_message_that_any_arrow_library_writes_with_these_columns_is_a_body() -> None:
    types = {"binary": pa.binary(), "timestamp[us, tz=UTC]": pa.timestamp("us", tz="UTC")}
    pair = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types["list<item: struct<key: string, value: binary>>"] = pa.list_(pair)
    schema = pa.schema([(row[0], types[row[1]]) for row in rows_under("The body")])
    records = {
        "key": [b"k", None],
        "value": [None, b"v"],
        "timestamp": [0, 1],
        "headers": [[{"key": "h", "value": b""}], None],
    }
    message = pa.RecordBatch.from_pydict(records, schema=schema).serialize()
    layout = read_layout(memoryview(message))
    assert (layout.row_count, layout.compression, layout.has_headers) == (2, 0, True)
