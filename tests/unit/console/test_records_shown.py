"""Whatever is in a record, it is shown as what it is, and does nothing to the page."""

import pytest
from hightide_console.views.records import Form, record_view, safe_text, shown
from unit.console.canned_cluster import record


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        (b'{"b": 1, "a": [2]}', "json", '{"b": 1, "a": [2]}'),
        (b"plain", "text", "plain"),
        ("grüße, 東京".encode(), "text", "grüße, 東京"),
        (b"", "text", ""),
        (b"{not json", "text", "{not json"),
        (b"12", "text", "12"),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
    ],
)
def test_bytes_are_shown_in_the_form_that_they_have(content: bytes, kind: str, text: str) -> None:
    found = shown(content)
    assert (found.kind, found.text, found.size_bytes, found.cut) == (kind, text, len(content), 0)


def test_a_long_document_is_laid_out_and_a_short_one_is_a_line() -> None:
    assert "\n" not in shown(b'{"a": 1}').text
    assert shown(b'{"a": "%s"}' % (b"x" * 300)).text.startswith('{\n  "a": ')


def test_bytes_that_are_no_text_are_hexadecimal() -> None:
    found = shown(b"\xff\xfe\x00abc")
    assert found.kind == "hex"
    assert found.text.startswith("0000  ff fe 00 61 62 63")
    assert found.text.endswith("...abc")


def test_a_tombstone_is_not_an_empty_value() -> None:
    assert shown(None).is_missing
    assert not shown(b"").is_missing


def test_a_megabyte_on_one_line_is_cut_and_counted() -> None:
    found = shown(b"x" * (1 << 20))
    assert len(found.text) == 4_096
    assert found.cut == (1 << 20) - 4_096


def test_a_character_torn_by_the_cut_is_left_out() -> None:
    found = shown("ä".encode() * 4_000, bytes_max=4_095)
    assert found.kind == "text"
    assert found.text == "ä" * 2_047


def test_a_document_nested_too_deep_is_shown_as_text() -> None:
    assert shown(b"[" * 60_000).kind == "text"


def test_what_is_invisible_or_turns_the_line_around_is_written_out() -> None:
    assert safe_text("a\u202eb\x1b[31m\x00c\n") == "a\\u202eb\\x1b[31m\\x00c\n"
    assert shown('{"a": "\u202e"}'.encode()).text == '{"a": "\\u202e"}'


def test_the_form_that_is_asked_for_is_taken_where_it_fits() -> None:
    assert shown(b'{"a": 1}', Form.TEXT).kind == "text"
    assert shown(b'{"a": 1}', Form.HEX).kind == "hex"
    assert shown(b"\xff", Form.JSON).kind == "hex"


def test_headers_are_bounded() -> None:
    view = record_view(record(headers=tuple((f"h{each}", b"v") for each in range(80))))
    assert (len(view.headers), view.more_headers) == (50, 30)


def test_a_time_that_no_calendar_has_is_shown_as_its_number() -> None:
    assert record_view(record(timestamp_us=1 << 62)).timestamp.endswith(" ms")
