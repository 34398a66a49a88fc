"""Results as a person and as a program reads them."""

import json

from hightide_cli.printing.rendering import bytes_field, json_line, printable_json, properties, table


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right() -> None:
    assert table(["topic", "partitions"], [["flights", 6], ["a-long-topic-name", 12]]) == (
        "TOPIC              PARTITIONS\nflights                     6\na-long-topic-name          12"
    )


def test_a_table_without_rows_is_its_headings() -> None:
    assert table(["topic", "leader"], []) == "TOPIC  LEADER"


def test_cells_without_a_value_are_a_dash_and_lists_are_joined() -> None:
    assert table(["leader", "isr", "ok"], [[None, [1, 2, 3], True]]).splitlines()[1] == "-       1,2,3  yes"


def test_properties_are_aligned() -> None:
    assert properties([("cluster", "c1"), ("id", 7)]) == "cluster  c1\nid       7"


def test_json_is_one_line_and_keeps_the_order_of_the_keys() -> None:
    line = json_line({"b": 1, "a": [1, None, "é\n"]})
    assert line == '{"b":1,"a":[1,null,"é\\n"]}'
    assert json.loads(line) == {"b": 1, "a": [1, None, "é\n"]}


def test_bytes_that_are_no_text_become_base64() -> None:
    assert bytes_field("key", b"N1") == {"key": "N1"}
    assert bytes_field("key", b"\xff") == {"key_base64": "/w=="}
    assert bytes_field("key", None) == {"key": None}
    assert bytes_field("key", b"") == {"key": ""}


def test_what_others_chose_does_not_steer_the_terminal() -> None:
    drawn = table(["host", "brokers"], [("a\x1b[2J\x9b31m", (1, 2))]) + properties([("bootstrap", "b\r:1")])
    assert drawn.replace("\n", "").isprintable()
    assert r"a\x1b[2J\x9b31m" in drawn
    assert r"b\r:1" in drawn


def test_what_a_record_holds_does_not_steer_the_terminal_as_json_either() -> None:
    document = {"value": "a\x1b[2J\x9b31m\x7f\u202e\U000e0001 ü→"}
    line = json_line(document)
    assert line.isprintable()
    assert "ü→" in line
    assert json.loads(line) == document
    indented = printable_json(json.dumps(document, ensure_ascii=False, indent=2))
    assert all(each.isprintable() for each in indented.split("\n"))
    assert json.loads(indented) == document
