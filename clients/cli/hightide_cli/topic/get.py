"""`hightide topic get`: one record by its offset."""

import sys
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.choices import OutputFormat, choices
from hightide_cli.command_line.completing import topic_names
from hightide_cli.command_line.options import common_options

if TYPE_CHECKING:
    from hightide import Record


@common_options
@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@click.option(
    "-f",
    "--format",
    "form",
    metavar="FORMAT",
    help="The form of the record, such as '%k %v\\n'; see FORMAT of `topic consume`.",
)
@click.pass_context
def get(ctx: click.Context, topic: str, partition: int, offset: int, form: str | None) -> None:
    """Print the record of TOPIC at an OFFSET of a PARTITION. Exit code 1: there is no such record."""
    from hightide_cli.records.printer import printer_of

    chosen = choices(ctx).output
    printer = printer_of(ctx, chosen, form)
    record = _record(ctx, topic, partition, offset)
    if form is None and chosen in (OutputFormat.TABLE, OutputFormat.WIDE):
        click.echo(_text(record))
        return
    sys.stdout.buffer.write(printer.render(record))
    sys.stdout.buffer.flush()


def _record(ctx: click.Context, topic: str, partition: int, offset: int) -> "Record":
    from hightide import RangeReader, TopicPartition

    from hightide_cli.command_line.connections import ADMIN_TIMEOUT_MS, open_admin
    from hightide_cli.records.ranges import records_in

    place = TopicPartition(topic, partition)
    with open_admin(ctx) as admin:
        (described,) = admin.describe_topics([topic])
        earliest = admin.list_offsets([place], "earliest")[place] or 0
        latest = admin.list_offsets([place], "latest")[place] or 0
    if not earliest <= offset < latest:
        has = f"has offsets {earliest} to {latest - 1}" if earliest < latest else f"is empty at {latest}"
        raise click.ClickException(f"there is no offset {offset}: {place} {has}")
    with RangeReader(**choices(ctx).client_arguments(), unavailable_timeout_ms=ADMIN_TIMEOUT_MS) as reader:
        for batch in reader.read(topic, described.topic_id, partition, offset, offset + 1):
            for record in records_in(topic, partition, batch):
                return record
    raise AssertionError("a range that is read holds what was asked for")


def _text(record: "Record") -> str:
    """One record for a person: its fields, and its value last, since that may be long."""
    from hightide_cli.printing.rendering import Cell, properties

    headers = ", ".join(f"{name}={_shown(value)}" for name, value in record.headers)
    pairs: list[tuple[str, Cell]] = [
        ("topic", record.topic),
        ("partition", record.partition),
        ("offset", record.offset),
        ("timestamp", record.timestamp.isoformat()),
        ("key", None if record.key is None else _shown(record.key)),
        ("headers", headers or None),
        ("bytes", None if record.value is None else len(record.value)),
        ("value", None if record.value is None else _shown(record.value)),
    ]
    return properties(pairs)


def _shown(value: bytes | None) -> str:
    """The text if it is printable, otherwise the bytes as Python writes them: a record must not control a
    terminal. A header may have no value."""
    if value is None:
        return ""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return repr(value)
    return text if text.isprintable() else repr(text)
