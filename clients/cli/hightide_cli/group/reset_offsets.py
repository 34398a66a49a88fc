"""`hightide group reset-offsets`: set where a group goes on; a dry run by default."""

import time
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.completing import group_names, topic_names
from hightide_cli.command_line.options import common_options
from hightide_cli.command_line.sizes import parse_duration
from hightide_cli.group.reset_plan import LogRange, PlannedReset, ResetTarget, ResetTo, plan_resets
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.records.positions import parse_moment

if TYPE_CHECKING:
    from hightide import Admin, TopicPartition

_RESET_TIMEOUT_MS = 60_000


@common_options
@click.command("reset-offsets")
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=topic_names,
    help="Only offsets of this topic; repeatable. The default is all topics with committed offsets.",
)
@click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this partition of the topic; repeatable.",
)
@click.option("--to-earliest", is_flag=True, help="Set the first offset that exists.")
@click.option("--to-latest", is_flag=True, help="Set the end of the partition.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="Set this offset.")
@click.option(
    "--to-time", metavar="TIME", help="Set the offset of the first record at or after a time (ISO 8601)."
)
@click.option(
    "--by-duration",
    metavar="SPAN",
    help="Set the offset of the first record that was written in the last SPAN, such as 90s, 15m or 1h30m.",
)
@click.option(
    "--shift-by",
    type=int,
    metavar="±N",
    help="Move the committed offset by N records; a negative N goes back.",
)
@click.option(
    "--execute/--dry-run",
    default=False,
    help="Set the offsets, or only show the new ones; the default is --dry-run.",
)
@click.pass_context
def reset_offsets(
    ctx: click.Context,
    name: str,
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_time: str | None,
    by_duration: str | None,
    shift_by: int | None,
    execute: bool,
) -> None:
    """Set the committed offsets of a group. It moves them forwards or back. The group must have no members.

    An offset that the log does not have becomes the nearest one that it has. Without --execute, nothing is
    changed.

    \b
    hightide group reset-offsets readers --by-duration 1h
    hightide group reset-offsets readers -t flights --to-earliest --execute
    """
    choices = {
        "--to-earliest": ResetTarget(ResetTo.EARLIEST) if to_earliest else None,
        "--to-latest": ResetTarget(ResetTo.LATEST) if to_latest else None,
        "--to-offset": None if to_offset is None else ResetTarget(ResetTo.OFFSET, to_offset),
        "--to-time": None if to_time is None else ResetTarget(ResetTo.TIME, parse_moment(to_time)),
        "--by-duration": None if by_duration is None else _target_before_now(by_duration),
        "--shift-by": None if shift_by is None else ResetTarget(ResetTo.SHIFT, shift_by),
    }
    said = [target for target in choices.values() if target is not None]
    if len(said) != 1:
        raise click.UsageError(f"give one of {', '.join(choices)}", ctx)
    if numbers and len(set(topics)) != 1:
        raise click.UsageError("--partition needs exactly one --topic", ctx)
    _reset(ctx, name, list(dict.fromkeys(topics)), sorted(set(numbers)), said[0], execute)


def _target_before_now(span: str) -> ResetTarget:
    try:
        seconds = parse_duration(span)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--by-duration") from error
    return ResetTarget(ResetTo.TIME, max(0, round((time.time() - seconds) * 1_000_000)))


def _reset(
    ctx: click.Context, name: str, topics: list[str], numbers: list[int], target: ResetTarget, execute: bool
) -> None:
    from hightide_cli.command_line.connections import open_admin
    from hightide_cli.group.tables import reset_document, reset_table
    from hightide_cli.printing.outcomes import error_name

    as_document = wants_document(ctx)
    with open_admin(ctx, _RESET_TIMEOUT_MS) as admin:
        planned = _plan(admin, name, topics, numbers, target)
        if not planned:
            raise click.ClickException(f"group {name} has committed no offset: name a topic with --topic")
        # A dry run is refused as the real one would be if the group has members. This comes before the plan
        # is printed, which would read as if it had been done.
        outcomes = admin.reset_offsets(
            name, {each.partition: each.offset for each in planned}, validate_only=not execute
        )
    if not as_document:
        click.echo(reset_table(planned))
    refused = {each.partition: each.error for each in outcomes if each.error is not None}
    if as_document:
        names = {partition: error_name(error) for partition, error in refused.items()}
        emit(ctx, reset_document(name, planned, executed=execute, errors=names))
    elif not refused:
        click.echo(
            "\nthe offsets are set" if execute else "\nnothing was changed; --execute sets these offsets",
            err=not execute,
        )
    if refused:
        partition, error = next(iter(refused.items()))
        raise click.ClickException(
            f"{len(refused)} of {len(planned)} offsets were refused; {partition}: {error}"
        )


def _plan(
    admin: "Admin", name: str, topics: list[str], numbers: list[int], target: ResetTarget
) -> list[PlannedReset]:
    from hightide.errors import UnknownGroupError
    from hightide.moments import moment_at

    try:
        committed = {partition: each.offset for partition, each in admin.group_offsets(name).items()}
    except UnknownGroupError:
        # Offsets may be set before a group reads for the first time.
        committed = {}
    partitions = _partitions(admin, topics, numbers) if topics else sorted(committed)
    earliest = admin.list_offsets(partitions, "earliest")
    latest = admin.list_offsets(partitions, "latest")
    at_time = admin.list_offsets(partitions, moment_at(target.value)) if target.to is ResetTo.TIME else {}
    ranges = {each: LogRange(earliest[each] or 0, latest[each] or 0) for each in partitions}
    return plan_resets(target, ranges, committed, at_time)


def _partitions(admin: "Admin", topics: list[str], numbers: list[int]) -> list["TopicPartition"]:
    from hightide import TopicPartition

    return [
        TopicPartition(described.name, number)
        for described in admin.describe_topics(topics)
        for number in numbers or (part.partition for part in described.partitions)
    ]
