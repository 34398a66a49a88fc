"""Programs read one document, as JSON or as YAML, from every command alike."""

import json

import click
import pytest
import yaml
from click.testing import CliRunner
from hightide import Record
from hightide_cli.command_line.choices import OutputFormat
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import document_text, emit, wants_document, wants_wide
from hightide_cli.printing.rendering import Json
from hightide_cli.records.printer import RecordPrinter

DOCUMENT: dict[str, Json] = {
    "topic": "flüge",
    "isr": (1, 2, 3),
    "empty": [],
    "leader": None,
    "healthy": True,
    "looks like a number": "007",
    "no": "no",
    "lines": "one\ntwo",
    "nested": {"moves": [{"from": [1], "to": [2]}]},
}


@common_options
@click.command()
@click.pass_context
def probe(ctx: click.Context) -> None:
    """Stand for a command that prints a result."""
    if wants_document(ctx):
        emit(ctx, DOCUMENT)
        return
    click.echo("wide" if wants_wide(ctx) else "table")


def printed(*arguments: str) -> str:
    outcome = CliRunner().invoke(probe, list(arguments), catch_exceptions=False)
    assert outcome.exit_code == 0
    return outcome.output


def test_json_is_one_line_and_yaml_holds_the_same_values() -> None:
    as_json = printed("-o", "json")
    assert as_json.count("\n") == 1
    assert yaml.safe_load(printed("-o", "yaml")) == json.loads(as_json)
    assert json.loads(as_json) == json.loads(json.dumps(DOCUMENT))


def test_yaml_keeps_the_order_of_the_fields_and_the_letters() -> None:
    as_yaml = printed("-o", "yaml")
    assert list(yaml.safe_load(as_yaml)) == list(DOCUMENT)
    assert "flüge" in as_yaml


def test_people_get_a_table_and_more_columns_where_they_ask_for_them() -> None:
    assert printed() == printed("-o", "table") == "table\n"
    assert printed("-o", "wide") == "wide\n"


@pytest.mark.parametrize("form", [OutputFormat.JSON, OutputFormat.YAML])
def test_documents_after_one_another_are_a_stream(form: OutputFormat) -> None:
    text = "\n".join(document_text(form, {"look": at}) for at in range(3))
    read = yaml.safe_load_all(text) if form is OutputFormat.YAML else map(json.loads, text.splitlines())
    assert list(read) == [{"look": 0}, {"look": 1}, {"look": 2}]


def test_one_value_is_a_document_of_a_stream_too() -> None:
    text = "\n".join(document_text(OutputFormat.YAML, each) for each in ("a", 7, None))
    assert list(yaml.safe_load_all(text)) == ["a", 7, None]


def test_records_are_a_stream_of_yaml_as_they_are_of_json() -> None:
    record = Record(topic="t", partition=1, offset=7, timestamp_us=9, key=b"\xff", value=b"v", headers=())
    (as_json,) = (RecordPrinter(as_json=True, form=None).render(record),)
    as_yaml = RecordPrinter(as_json=False, as_yaml=True, form=None).render(record)
    assert list(yaml.safe_load_all(as_yaml * 2)) == [json.loads(as_json)] * 2
