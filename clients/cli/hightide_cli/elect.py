"""`hightide elect`: changes of leaders at an operator's request."""

from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.completing import topic_names
from hightide_cli.command_line.confirmation import confirm
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.outcomes import error_name
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import printable, table

if TYPE_CHECKING:
    from hightide import Admin, Election, TopicPartition

    from hightide_cli.documents.moves import ElectionDocument


@click.group()
def elect() -> None:
    """Elect leaders: the preferred ones, or unclean ones."""


common_options(elect)


@common_options
@elect.command()
@click.option(
    "-t",
    "--topic",
    metavar="TOPIC",
    help="Only the partitions of this topic; the default is all topics.",
    shell_complete=topic_names,
)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Only this partition of the topic.")
@click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
@click.pass_context
def preferred(ctx: click.Context, topic: str | None, partition: int | None, dry_run: bool) -> None:
    """Give partitions their preferred leader back. That is their first replica, if alive and in sync."""
    from hightide_cli.command_line.connections import ORDER_TIMEOUT_MS, open_admin

    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic", ctx)
    with open_admin(ctx, ORDER_TIMEOUT_MS) as admin:
        named = None if topic is None else _partitions_of(admin, topic, partition)
        elections = admin.elect_leaders("preferred", named, validate_only=dry_run)
    changed = [each for each in elections if each.ok and each.leader != each.previous_leader]
    if wants_document(ctx):
        _print_document(ctx, elections, dry_run)
    elif changed:
        rows = [
            (str(each.partition), each.previous_leader, each.leader, each.leader_epoch) for each in changed
        ]
        click.echo(table(["partition", "leader before", "leader", "epoch"], rows))
        click.echo(f"\n{len(changed)} {'leader' if len(changed) == 1 else 'leaders'} {_verb(dry_run)}")
    elif all(each.ok for each in elections):
        click.echo("every partition asked for is led by its preferred leader")
    _fail_where_refused(elections)


@common_options
@elect.command()
@click.option("-t", "--topic", required=True, metavar="TOPIC", help="The topic.", shell_complete=topic_names)
@click.option(
    "-p", "--partition", type=click.IntRange(min=0), required=True, help="The partition of the topic."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
@click.pass_context
def unclean(ctx: click.Context, topic: str, partition: int, yes: bool, dry_run: bool) -> None:
    """Let any live replica lead a partition that has no leader. LOSES RECORDS; asks first.

    The records that only the replicas of the last ISR hold are lost for good. If you can, start one of their
    brokers instead.
    """
    from hightide import TopicPartition

    from hightide_cli.command_line.connections import ORDER_TIMEOUT_MS, open_admin

    here = TopicPartition(topic, partition)
    with open_admin(ctx, ORDER_TIMEOUT_MS) as admin:
        (described,) = admin.describe_topics([topic])
        # An election that is not possible is reported before the user is asked.
        _fail_where_refused(admin.elect_leaders("unclean", [here], validate_only=True))
        isr = described.partitions[partition].isr
        ends = _log_ends(admin, here, described.topic_id)
        click.echo(_warning(here, isr, ends), err=True)
        if not dry_run:
            confirm(f"Elect a leader of {here} that may lack records?", is_agreed=yes)
        elections = admin.elect_leaders("unclean", [here], validate_only=dry_run)
    _fail_where_refused(elections)
    (election,) = elections
    if wants_document(ctx):
        _print_document(ctx, elections, dry_run, ends)
        return
    end = "" if election.leader not in ends else f", whose log ends at offset {ends[election.leader]:,}"
    lost = ", ".join(map(str, election.previous_isr or isr))
    click.echo(f"{here}: broker {election.leader}{end}, {_verb(dry_run)} in epoch {election.leader_epoch}")
    click.echo(f"{here}: what only broker {lost} held beyond that {'would be' if dry_run else 'is'} lost")
    if election.message:
        click.echo(printable(election.message))


def _warning(here: "TopicPartition", isr: tuple[int, ...], ends: dict[int, int]) -> str:
    alive = ", ".join(f"broker {broker} ends at offset {end:,}" for broker, end in sorted(ends.items()))
    return (
        f"{here}: the last in-sync replicas are on broker {', '.join(map(str, isr))}; "
        "what only they hold is lost.\n"
        f"Logs of live replicas: {alive or 'none answers'}."
    )


def _log_ends(admin: "Admin", here: "TopicPartition", topic_id: bytes) -> dict[int, int]:
    """The end of the log of each live replica."""
    return {
        each.broker_id: each.log_end_offset
        for each in admin.describe_replicas([here.topic]).replicas
        if each.partition == here and each.topic_id == topic_id and not each.storage_failed
    }


def _partitions_of(admin: "Admin", topic: str, partition: int | None) -> list["TopicPartition"]:
    from hightide import TopicPartition

    if partition is not None:
        return [TopicPartition(topic, partition)]
    (described,) = admin.describe_topics([topic])
    return [TopicPartition(topic, each.partition) for each in described.partitions]


def _print_document(
    ctx: click.Context, elections: list["Election"], dry_run: bool, ends: dict[int, int] | None = None
) -> None:
    documents: list[ElectionDocument] = []
    for each in elections:
        document: ElectionDocument = {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "leader": each.leader,
            "leader_epoch": each.leader_epoch,
            "previous_leader": each.previous_leader,
            "previous_isr": each.previous_isr,
            "error": None if each.error is None else error_name(each.error),
            "message": each.message,
        }
        if ends is not None:
            document["log_end_offsets"] = {str(broker): end for broker, end in sorted(ends.items())}
        documents.append(document)
    emit(ctx, {"dry_run": dry_run, "elections": documents})


def _fail_where_refused(elections: list["Election"]) -> None:
    refused = [each for each in elections if each.error is not None]
    if not refused:
        return
    if len(elections) == 1:
        raise click.ClickException(str(refused[0].error))
    raise click.ClickException(
        f"{len(refused)} of {len(elections)} elections were refused; "
        f"{refused[0].partition}: {refused[0].error}"
    )


def _verb(dry_run: bool) -> str:
    return "would be elected" if dry_run else "elected"
