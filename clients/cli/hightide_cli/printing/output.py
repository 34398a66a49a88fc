"""The one way to print what a program reads: `-o json` and `-o yaml`. What a person reads each command lays
out by itself, in more columns where `-o wide` asks for them."""

import click

from hightide_cli.command_line.choices import OutputFormat, choices
from hightide_cli.printing.rendering import Json, json_line


def wants_document(ctx: click.Context) -> bool:
    """Whether a program reads what is printed. Commands ask it before they print, and then call `emit`."""
    return choices(ctx).output in (OutputFormat.JSON, OutputFormat.YAML)


def wants_wide(ctx: click.Context) -> bool:
    """Whether a table shall have the columns that only some need."""
    return choices(ctx).output is OutputFormat.WIDE


def emit(ctx: click.Context, document: Json) -> None:
    """Print one document: as YAML where that was asked for, else as JSON, so that an option of a command's
    own (`bench --json`) can ask for it, too. Watching commands call it once a look."""
    click.echo(document_text(choices(ctx).output, document))


def document_text(form: OutputFormat, document: Json) -> str:
    """Return a document as it is printed: JSON on one line, or YAML that begins with its marker, so that
    several after one another are a stream of documents in either form."""
    return yaml_text(document) if form is OutputFormat.YAML else json_line(document)


def yaml_text(document: Json) -> str:
    """Return a document as YAML. It takes the way through JSON, so that both forms hold the same values."""
    import json

    import yaml

    plain = json.loads(json_line(document))
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, explicit_start=True, width=110)
    # YAML ends a document that is a bare value with a marker that nobody needs.
    return str(text).removesuffix("...\n").rstrip("\n")
