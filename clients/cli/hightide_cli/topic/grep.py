"""`hightide topic grep`: the records that match."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.completing import topic_names
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.progress import progress, progress_option
from hightide_cli.records.ranges import partitions_option, range_options

if TYPE_CHECKING:
    from hightide import RangeBatch

    from hightide_cli.records.printer import RecordPrinter

EXIT_FOUND_NOTHING = 1
# The place comes first, then the content.
_FORM = r"%p@%o\t%k\t%v\n"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The conditions for a record. The expressions are RE2's, so that the time grows only with the length of
    the text."""

    pattern: str
    is_fixed: bool = False
    ignores_case: bool = False
    is_inverted: bool = False
    in_keys: bool = True
    in_values: bool = True
    in_headers: bool = False


@common_options
@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.argument("pattern")
@click.option(
    "-F", "--fixed", "is_fixed", is_flag=True, help="PATTERN is plain text, not a regular expression."
)
@click.option(
    "-i",
    "--ignore-case",
    "ignores_case",
    is_flag=True,
    help="Ignore the difference between capital and small letters.",
)
@click.option("-v", "--invert", "is_inverted", is_flag=True, help="Print the records that do not match.")
@click.option("--key", "in_keys", is_flag=True, help="Search only keys.")
@click.option("--value", "in_values", is_flag=True, help="Search only values.")
@click.option("--header", "in_headers", is_flag=True, help="Search only the names and values of headers.")
@click.option("-n", "--max-records", type=click.IntRange(min=1), help="Stop after N matching records.")
@click.option("-c", "--count", "is_counted", is_flag=True, help="Print only the number of matching records.")
@partitions_option
@range_options
@click.option(
    "-f", "--format", "form", metavar="FORMAT", help="The form of each record; see FORMAT of `topic consume`."
)
@progress_option
@click.pass_context
def grep(
    ctx: click.Context,
    topic: str,
    pattern: str,
    is_fixed: bool,
    ignores_case: bool,
    is_inverted: bool,
    in_keys: bool,
    in_values: bool,
    in_headers: bool,
    max_records: int | None,
    is_counted: bool,
    partitions: tuple[int, ...],
    start: str,
    until: str | None,
    form: str | None,
) -> None:
    """Print the records of TOPIC that match PATTERN. It searches keys and values, up to the present end.

    PATTERN is a regular expression of RE2, which is searched in bytes. Each line of output is
    PARTITION@OFFSET, key and value, separated by tabs, unless --format or -o sets another form. Exit code 1:
    no record matches.

    \b
    hightide topic grep flights '^JFK' --key -n 10
    """
    from hightide_cli.records.positions import parse_position
    from hightide_cli.records.printer import printer_of

    if not (in_keys or in_values or in_headers):
        in_keys = in_values = True
    wanted = Wanted(pattern, is_fixed, ignores_case, is_inverted, in_keys, in_values, in_headers)
    check_pattern(wanted)
    printer = printer_of(ctx, choices(ctx).output, form or _FORM)
    begin = parse_position(start)
    end = None if until is None else parse_position(until, "--until")
    found = _search(
        ctx, topic, partitions, (begin, end), wanted, None if is_counted else printer, max_records
    )
    if is_counted:
        _tell_count(ctx, topic, found)
    if not found:
        ctx.exit(EXIT_FOUND_NOTHING)


def _tell_count(ctx: click.Context, topic: str, found: int) -> None:
    from hightide_cli.printing.output import emit, wants_document

    if wants_document(ctx):
        emit(ctx, {"topic": topic, "records": found})
    else:
        click.echo(found)


def _search(
    ctx: click.Context,
    topic: str,
    partitions: tuple[int, ...],
    between: Any,
    wanted: Wanted,
    printer: "RecordPrinter | None",
    records_max: int | None,
) -> int:
    from hightide import RangeReader

    from hightide_cli.command_line.connections import open_admin
    from hightide_cli.records.ranges import read_ranges, records_in, topic_ranges

    with open_admin(ctx) as admin:
        ranges = topic_ranges(admin, topic, partitions, *between)
    output, found = sys.stdout.buffer, 0
    with (
        RangeReader(**choices(ctx).client_arguments()) as reader,
        progress(f"searching {topic}", ranges.count, prints_meanwhile=printer is not None) as done,
    ):
        for partition, batch in read_ranges(reader, ranges):
            rows = matching_rows(batch, wanted)
            if records_max is not None:
                rows = rows[: records_max - found]
            found += len(rows)
            if printer is not None and rows:
                output.write(b"".join(map(printer.render, records_in(topic, partition, batch, rows))))
                output.flush()
            done.advance(batch.rows.num_rows)
            if found == records_max:
                break
    return found


def check_pattern(wanted: Wanted) -> None:
    """Raise click.BadParameter if RE2 cannot read the expression."""
    import pyarrow as pa

    try:
        _matches(pa.array([b""], pa.binary()), wanted)
    except pa.ArrowInvalid as error:
        raise click.BadParameter(str(error).lower(), param_hint="PATTERN") from error


def matching_rows(batch: "RangeBatch", wanted: Wanted) -> list[int]:
    """The rows of a batch that match, in their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = batch.rows
    matched: Any = pa.repeat(pa.scalar(False), columns.num_rows)
    for column, is_wanted in ((0, wanted.in_keys), (1, wanted.in_values)):
        if is_wanted:
            # A record without a key does not match.
            hits = pc.fill_null(_matches(columns.column(column), wanted), False)
            matched = pc.or_(matched, hits)
    if wanted.in_headers and columns.num_columns > 3:
        matched = pc.or_(matched, _header_matches(columns.column(3), wanted))
    if wanted.is_inverted:
        matched = pc.invert(matched)
    rows: list[int] = pc.indices_nonzero(matched).to_pylist()
    return rows


def _header_matches(headers: Any, wanted: Wanted) -> Any:
    """The rows that have a header whose name or value matches."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names, values = pc.list_flatten(headers).flatten()
    hits = pc.or_(
        pc.fill_null(_matches(names.cast("binary"), wanted), False),
        pc.fill_null(_matches(values, wanted), False),
    )
    rows_hit = set(pc.filter(pc.list_parent_indices(headers), hits).to_pylist())
    return pa.array([row in rows_hit for row in range(len(headers))], pa.bool_())


def _matches(column: Any, wanted: Wanted) -> Any:
    import pyarrow.compute as pc

    match = pc.match_substring if wanted.is_fixed else pc.match_substring_regex
    return match(column, pattern=wanted.pattern, ignore_case=wanted.ignores_case)
