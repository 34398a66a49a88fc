"""`hightide topic produce` and `consume`: lines into records, and back."""

import os
import sys
from typing import BinaryIO, Literal

import click

from hightide_cli.command_line.choices import OutputFormat, choices
from hightide_cli.command_line.completing import group_names, topic_names
from hightide_cli.command_line.name_values import config_pairs
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.progress import progress_option
from hightide_cli.records.output_or_position import output_or_position, position_by_output
from hightide_cli.records.positions import Anchor, Position, parse_position
from hightide_cli.records.ranges import partitions_option


@common_options
@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.argument("file", type=click.File("rb"), default="-")
@click.option("-k", "--key", help="The key of every record.")
@click.option(
    "-K", "--key-separator", metavar="TEXT", help="The text between the key and the value in each line."
)
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of every record; repeatable.",
)
@click.option("-p", "--partition", type=int, help="Write to this partition, whatever the key.")
@click.option(
    "--json", "as_json", is_flag=True, help="Each line is a record in the form of `consume -o json`."
)
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="Which replicas must have a record before it counts as written: all in-sync ones, the leader (1), "
    "or none (0).",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="How batches are compressed, in requests and on disk.",
)
@progress_option
@click.pass_context
def produce(
    ctx: click.Context,
    name: str,
    file: BinaryIO,
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    as_json: bool,
    acks: str,
    compression: str,
) -> None:
    """Write each line of FILE, or of stdin, as a record.

    An empty line is a record with an empty value. With FILE, a bar shows the progress.

    \b
    printf '%s\\n' a:1 b:2 | hightide topic produce flights -K :
    hightide topic produce flights lines.txt --compression lz4
    """
    from hightide_cli.records.line_producer import LineForm, lines_of, produce_lines

    if key is not None and key_separator is not None:
        raise click.UsageError("give either --key or --key-separator, not both", ctx)
    if key_separator == "":
        raise click.UsageError(
            "the separator is empty: give --key-separator the text between key and value", ctx
        )
    form = LineForm(
        # The bytes that the shell gave, whatever they are.
        key=None if key is None else os.fsencode(key),
        key_separator=None if key_separator is None else os.fsencode(key_separator),
        headers=tuple(
            (header, os.fsencode(value)) for header, value in config_pairs(headers, "--header").items()
        ),
        partition=partition,
        as_json=as_json,
    )
    from hightide_cli.command_line.connections import require_somebody

    require_somebody(choices(ctx).client_arguments())
    with lines_of(file, name) as lines:
        outcome = produce_lines(
            lines, name, form, cluster=choices(ctx).client_arguments(), acks=acks, compression=compression
        )
    if wants_document(ctx):
        emit(ctx, outcome.document())
    else:
        click.echo(outcome.sentence(), err=True)


@output_or_position
@common_options
@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option("--from", "start", metavar="POSITION", help="Where to begin; the default is earliest.")
@click.option("--from-beginning", is_flag=True, help="The same as --from earliest.")
@click.option(
    "--tail",
    type=click.IntRange(min=0),
    metavar="N",
    help="Print the last N records of each partition, then new ones.",
)
@click.option("--until", metavar="POSITION", help="Stop before this position.")
@partitions_option
@click.option("-n", "--max-records", type=click.IntRange(min=1), help="Stop after N records.")
@click.option("-e", "--exit", "exit_at_end", is_flag=True, help="Stop at the present end of each partition.")
@click.option(
    "-f",
    "--format",
    "form",
    metavar="FORMAT",
    help="The form of each record, such as '%p %o %k %v\\n'; see above.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    help="Join this consumer group, and share its partitions.",
    shell_complete=group_names,
)
@click.option(
    "--consumer-id",
    metavar="NAME",
    help="The name of this consumer in the group; the coordinator makes one by default.",
)
@click.option(
    "--instance-id",
    metavar="NAME",
    help="A name that keeps its partitions if the consumer restarts within the session timeout.",
)
@click.option(
    "--on-corrupt-batch",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="What to do with a batch that no reader can open: stop with an error, or leave it out with a "
    "warning.",
)
@progress_option
@click.pass_context
def consume(
    ctx: click.Context,
    name: str,
    start: str | None,
    from_beginning: bool,
    tail: int | None,
    until: str | None,
    partitions: tuple[int, ...],
    max_records: int | None,
    exit_at_end: bool,
    form: str | None,
    as_json: bool,
    group: str | None,
    consumer_id: str | None,
    instance_id: str | None,
    on_corrupt_batch: Literal["fail", "skip"],
) -> None:
    """Print the records of a topic. A value on each line, JSON with -o json, or the form of --format.

    With --group, it continues at the offsets that the group has committed, and commits the records that it
    has printed. --from is then earliest or latest, and counts for partitions without a committed offset.

    \b
    POSITION  earliest, latest, an offset, -N for the last N of each partition,
              or @TIME: @2013-01-01T05:00:00Z, @1357016400000 (ms), @-15m (ago);
              beginning, end and s@TIME are accepted as in kcat, also after -o
    FORMAT    %t topic, %p partition, %o offset, %T timestamp in ms, %k key,
              %v value (also %s), %h headers, %K and %S lengths of key and value
              (%R as 4 bytes), %% a percent sign; \\n, \\t, \\0, \\xHH

    \b
    hightide topic consume flights --tail 10
    hightide topic consume flights --from @-15m -e -f '%p %o %k %v\\n'
    """
    from hightide_cli.command_line.connections import require_somebody
    from hightide_cli.records.printer import printer_of
    from hightide_cli.records.reading import Reading, consume_records

    reading_from, reading_until = _between(ctx, start, from_beginning, tail, until, exit_at_end)
    _check_group(ctx, group, consumer_id, instance_id, partitions, until)
    printer = printer_of(ctx, OutputFormat.JSON if as_json else choices(ctx).output, form)
    if group is not None:
        from hightide_cli.records.group_reading import Membership, consume_in_group
        from hightide_cli.records.positions import reset_of

        membership = Membership(
            group, consumer_id or "", instance_id or "", reset_of(reading_from), on_corrupt_batch
        )
        require_somebody(choices(ctx).client_arguments())
        consume_in_group(
            name,
            printer,
            sys.stdout.buffer,
            cluster=choices(ctx).client_arguments(),
            membership=membership,
            records_max=max_records,
            exit_at_end=exit_at_end,
        )
        return
    require_somebody(choices(ctx).client_arguments())
    reading = Reading(reading_from, reading_until, partitions, max_records, on_corrupt_batch)
    consume_records(name, reading, printer, sys.stdout.buffer, cluster=choices(ctx).client_arguments())


def _between(
    ctx: click.Context,
    start: str | None,
    from_beginning: bool,
    tail: int | None,
    until: str | None,
    exit_at_end: bool,
) -> tuple[Position, Position | None]:
    """The positions at which to begin and to stop (None: never), from all options for them."""
    by_output = position_by_output(ctx)
    begins = {
        "--from": None if start is None else parse_position(start),
        "--from-beginning": Position(Anchor.EARLIEST) if from_beginning else None,
        "--tail": None if tail is None else Position(Anchor.BEFORE_END, tail),
        "-o": by_output[0] if by_output is not None and not by_output[1] else None,
    }
    ends = {
        "--until": None if until is None else parse_position(until, "--until"),
        "--exit": Position(Anchor.LATEST) if exit_at_end else None,
        "-o": by_output[0] if by_output is not None and by_output[1] else None,
    }
    said = [(name, position) for name, position in begins.items() if position is not None]
    # Two options with the same meaning do no harm.
    if len({position for _, position in said}) > 1:
        raise click.UsageError(f"give either {' or '.join(name for name, _ in said)}, not both", ctx)
    stops = [position for position in ends.values() if position is not None]
    return (said[0][1] if said else Position(Anchor.EARLIEST)), (stops[0] if stops else None)


def _check_group(
    ctx: click.Context,
    group: str | None,
    consumer_id: str | None,
    instance_id: str | None,
    partitions: tuple[int, ...],
    until: str | None,
) -> None:
    if group is None and (consumer_id or instance_id):
        raise click.UsageError("--consumer-id and --instance-id need --group", ctx)
    if group is not None and partitions:
        raise click.UsageError(
            "give either --group or --partition: in a group, the coordinator assigns the partitions", ctx
        )
    by_output = position_by_output(ctx)
    ends = "--until" if until is not None else "-o e@TIME" if by_output is not None and by_output[1] else None
    if group is not None and ends is not None:
        raise click.UsageError(
            f"give either --group or {ends}: a group has no end, it reads what it has not read yet", ctx
        )
