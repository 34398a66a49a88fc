"""`hightide topic isr-watch`: leaders and in-sync replicas as they change."""

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.completing import topic_names
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json
from hightide_cli.records.ranges import partitions_option

if TYPE_CHECKING:
    from hightide import Admin, PartitionDescription, TopicPartition

    from hightide_cli.topic.isr_changes import PartitionChange

EXIT_TOO_LATE = 1
# A failover of the controller must not end the watching.
_WATCH_TIMEOUT_MS = 60_000


@common_options
@click.command("isr-watch")
@click.argument("names", nargs=-1, metavar="[TOPIC…]", shell_complete=topic_names)
@partitions_option
@click.option(
    "--until-full", is_flag=True, help="Stop when every partition has a leader and all replicas in sync."
)
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0), help="Stop after so many seconds at the latest."
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.05),
    default=0.5,
    show_default=True,
    help="Seconds between two updates.",
)
@click.pass_context
def isr_watch(
    ctx: click.Context,
    names: tuple[str, ...],
    partitions: tuple[int, ...],
    until_full: bool,
    timeout_s: float | None,
    interval_s: float,
) -> None:
    """Print each change of a leader or an ISR. It prints a line for each, until Ctrl-C. By default of all
    topics.

    It begins with the partitions that lack a leader or an in-sync replica. With --until-full it ends when no
    partition does. Exit code 1: the --timeout passed first; 130: Ctrl-C came first.
    """
    from hightide_cli.command_line.connections import open_admin

    give_up_s = None if timeout_s is None else time.monotonic() + timeout_s
    with open_admin(ctx, _WATCH_TIMEOUT_MS) as admin:
        try:
            is_full = _watch(ctx, admin, names, partitions, until_full, give_up_s, interval_s)
        except KeyboardInterrupt:
            if until_full:
                # A script that waits for replicas must not take this for the end of the waiting.
                raise
            return
    if until_full and not is_full:
        ctx.exit(EXIT_TOO_LATE)


def _watch(
    ctx: click.Context,
    admin: "Admin",
    names: Sequence[str],
    numbers: Sequence[int],
    until_full: bool,
    give_up_s: float | None,
    interval_s: float,
) -> bool:
    """Look until all is full, if that ends it, or the time is up. Returns whether all was full at the end."""
    from hightide_cli.topic.isr_changes import IsrWatch

    watch, is_first = IsrWatch(), True
    while True:
        partitions = _partitions(admin, names, numbers)
        if is_first:
            _check_numbers(partitions, names, numbers)
        changes = watch.look(partitions)
        for change in changes:
            _tell(ctx, change)
        lacking = watch.lacking_count
        if is_first and not wants_document(ctx):
            well = "all replicas in sync" if not lacking else f"{lacking} without all replicas in sync"
            click.echo(f"watching {watch.partition_count} partitions, {well}", err=True)
        is_first = False
        left_s = None if give_up_s is None else give_up_s - time.monotonic()
        if (until_full and not lacking) or (left_s is not None and left_s <= 0):
            return not lacking
        time.sleep(interval_s if left_s is None else min(interval_s, left_s))


def _partitions(
    admin: "Admin", names: Sequence[str], numbers: Sequence[int]
) -> "dict[TopicPartition, PartitionDescription]":
    from hightide import TopicPartition

    return {
        TopicPartition(topic.name, each.partition): each
        for topic in admin.describe_topics(list(names) or None)
        for each in topic.partitions
        if not numbers or each.partition in numbers
    }


def _check_numbers(watched: "Iterable[TopicPartition]", names: Sequence[str], numbers: Sequence[int]) -> None:
    """Refuse a partition that there is not: of none, all replicas are in sync."""
    missing = sorted(set(numbers) - {each.partition for each in watched})
    if missing:
        raise click.ClickException(f"there is no partition {missing[0]} of {', '.join(names) or 'any topic'}")


def _tell(ctx: click.Context, change: "PartitionChange") -> None:
    at = datetime.now(UTC)
    if wants_document(ctx):
        document: dict[str, Json] = {
            "at_ms": int(at.timestamp() * 1000),
            "topic": change.partition.topic,
            "partition": change.partition.partition,
            "leader": change.leader,
            "leader_epoch": change.leader_epoch,
            "replicas": change.replicas,
            "isr": change.isr,
            "joined": change.joined,
            "left": change.left,
        }
        emit(ctx, document)
    else:
        click.echo(f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}  {change.sentence()}")
