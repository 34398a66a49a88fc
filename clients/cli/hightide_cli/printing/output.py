"""The one way to print output for programs: `-o json` and `-o yaml`. Each command lays out its output for
people by itself, with more columns for `-o wide`."""

import click

from hightide_cli.command_line.choices import OutputFormat, choices
from hightide_cli.printing.rendering import Json, json_line


def wants_document(ctx: click.Context) -> bool:
    """Whether the output is for a program. Commands check this before they print, and then call `emit`."""
    return choices(ctx).output in (OutputFormat.JSON, OutputFormat.YAML)


def wants_wide(ctx: click.Context) -> bool:
    """Whether a table should have the columns that only some users need."""
    return choices(ctx).output is OutputFormat.WIDE


def emit(ctx: click.Context, document: Json) -> None:
    """Print one document: as YAML if that was requested, otherwise as JSON, so that a command's own option
    (`bench --json`) can request it, too. Watching commands call it once for each look."""
    click.echo(document_text(choices(ctx).output, document))


def document_text(form: OutputFormat, document: Json) -> str:
    """Return a document as it is printed: JSON on one line, or YAML that begins with its marker. So several
    in a row are a stream of documents in either form."""
    return yaml_text(document) if form is OutputFormat.YAML else json_line(document)


def yaml_text(document: Json) -> str:
    """Return a document as YAML. It is converted by way of JSON, so that both forms hold the same values."""
    import json

    import yaml

    plain = json.loads(json_line(document))
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, explicit_start=True, width=110)
    # YAML ends a document that is a bare value with a marker that no reader needs.
    return str(text).removesuffix("...\n").rstrip("\n")
