"""`hightide reassign`: move partitions to other brokers, and see how far they are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.completing import topic_names
from hightide_cli.command_line.options import common_options
from hightide_cli.command_line.sizes import size_text
from hightide_cli.documents.moves import MoveDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.outcomes import fail_where_refused, partition_document
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json, table
from hightide_cli.reassign.plan_and_apply import apply, parse_rate, plan

if TYPE_CHECKING:
    from hightide import Admin, TopicPartition

    from hightide_cli.documents.moves import OutcomeDocument


class _Group(click.Group):
    """`reassign ls` was called `reassign list` once, and answers to that name too."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, "ls" if cmd_name == "list" else cmd_name)


@click.group(cls=_Group)
def reassign() -> None:
    """Move partitions to other brokers: plan, apply, watch, cancel."""


common_options(reassign)
reassign.add_command(plan)
reassign.add_command(apply)


@common_options
@reassign.command()
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1, max=3600),
    default=1.0,
    show_default=True,
    help="Seconds between two updates.",
)
@click.pass_context
def watch(ctx: click.Context, interval: float) -> None:
    """Follow all moves under way until they are done.

    It shows the bytes and offsets of each new replica, the speed and the time left. Ctrl-C ends the display,
    and not the moves. Exit code 1: a move was cancelled, or its topic was deleted.
    """
    from hightide_cli.command_line.connections import open_admin
    from hightide_cli.reassign.watch import WATCH_TIMEOUT_MS, watch_moves

    with open_admin(ctx, WATCH_TIMEOUT_MS) as admin:
        watch_moves(ctx, admin, interval, only=None)


@common_options
@reassign.command("ls")
@click.pass_context
def list_moves(ctx: click.Context) -> None:
    """Show the moves under way. It shows their partitions, and their old and new brokers."""
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        listing = admin.list_reassignments()
    if wants_document(ctx):
        document: dict[str, Json] = {
            "reassignments": [view(MoveDocument, each) for each in listing.reassignments],
            "throttle_bytes_per_s": listing.throttle_bytes_per_s,
        }
        emit(ctx, document)
        return
    rows = [
        (str(each.partition), each.original, each.target, each.isr, each.leader)
        for each in listing.reassignments
    ]
    if rows:
        click.echo(table(["partition", "from", "to", "isr", "leader"], rows))
    else:
        click.echo("nothing is on the move")
    click.echo(_throttle_sentence(listing.throttle_bytes_per_s))


@common_options
@reassign.command()
@click.option("--all", "every", is_flag=True, help="Cancel all moves.")
@click.option(
    "-t", "--topic", metavar="TOPIC", help="Cancel the moves of this topic.", shell_complete=topic_names
)
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(min=0),
    help="Cancel only the move of this partition of the topic.",
)
@click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
@click.pass_context
def cancel(ctx: click.Context, every: bool, topic: str | None, partition: int | None, dry_run: bool) -> None:
    """Cancel moves: the partitions stay on their old brokers."""
    from hightide_cli.command_line.connections import ORDER_TIMEOUT_MS, open_admin

    if every == (topic is not None):
        raise click.UsageError("give either --all or --topic", ctx)
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic", ctx)
    with open_admin(ctx, ORDER_TIMEOUT_MS) as admin:
        outcomes = admin.cancel_reassignments(
            None if topic is None else _moves_of(admin, topic, partition), validate_only=dry_run
        )
    done = [each.partition for each in outcomes if each.ok]
    if wants_document(ctx):
        results: list[OutcomeDocument] = [partition_document(each) for each in outcomes]
        emit(ctx, {"dry_run": dry_run, "partitions": results})
    elif not outcomes:
        click.echo("nothing is on the move")
    elif done:
        verb = "would be cancelled" if dry_run else "cancelled"
        click.echo(f"{verb}: {', '.join(map(str, done))}")
    fail_where_refused(outcomes, "cancellations were")


def _moves_of(admin: "Admin", topic: str, partition: int | None) -> Sequence["TopicPartition"]:
    from hightide import TopicPartition

    if partition is not None:
        return [TopicPartition(topic, partition)]
    admin.describe_topics([topic])
    moving = [each.partition for each in admin.list_reassignments().reassignments]
    return [each for each in moving if each.topic == topic]


@common_options
@reassign.command()
@click.argument("rate", metavar="RATE|off")
@click.pass_context
def throttle(ctx: click.Context, rate: str) -> None:
    """Limit how much each broker sends for moves. RATE is bytes per second, such as 10MB; `off`: no limit.

    It holds at once, also for moves under way. Replicas that are in sync are never slowed.
    """
    from hightide_cli.command_line.connections import ORDER_TIMEOUT_MS, open_admin

    limit = parse_rate(rate, "RATE")
    with open_admin(ctx, ORDER_TIMEOUT_MS) as admin:
        admin.set_reassignment_throttle(limit)
    if wants_document(ctx):
        emit(ctx, {"throttle_bytes_per_s": limit})
    else:
        click.echo(_throttle_sentence(limit))


def _throttle_sentence(bytes_per_s: int) -> str:
    if bytes_per_s == 0:
        return "moves are not throttled"
    return f"each broker sends at most {size_text(bytes_per_s)}/s to replicas on the move"
