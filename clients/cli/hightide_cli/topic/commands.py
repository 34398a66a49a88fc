"""`hightide topic`: create, list, describe; the other commands are in files of their own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.broker_lists import parse_assignment
from hightide_cli.command_line.completing import topic_names
from hightide_cli.command_line.name_values import config_pairs
from hightide_cli.command_line.options import common_options
from hightide_cli.documents.partitions import DescribedTopicDocument, ListedTopicDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.output import emit, wants_document, wants_wide
from hightide_cli.printing.rendering import table
from hightide_cli.topic import (
    changes,
    copy,
    get,
    grep,
    isr_watch,
    offsets,
    produce_and_consume,
    trim,
)
from hightide_cli.topic.tables import silent_lines, wide_listing, wide_partitions
from hightide_cli.topic.unwell_partitions import Wanted

if TYPE_CHECKING:
    from hightide import Admin, TopicDescription

REPLICAS_BY_DEFAULT = 3


@click.group()
def topic() -> None:
    """Create, list, describe, change, delete, write and read topics."""


common_options(topic)
for _command in (
    changes.alter,
    changes.delete,
    changes.add_partitions,
    changes.remove_partitions,
    trim.trim,
    offsets.offsets,
    offsets.size,
    isr_watch.isr_watch,
    produce_and_consume.produce,
    produce_and_consume.consume,
    get.get,
    grep.grep,
    copy.copy,
):
    topic.add_command(_command)


@common_options
@topic.command()
@click.argument("name", metavar="TOPIC")
@click.option("-p", "--partitions", type=int, default=1, show_default=True, help="The number of partitions.")
@click.option(
    "-r",
    "--replicas",
    type=int,
    help="The number of replicas of each partition; the default is 3, or the number of live brokers if there "
    "are fewer.",
)
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the topic; repeatable.",
)
@click.option(
    "--assignment", metavar="1,2,3:2,3,1", help="The brokers of each partition, the preferred leader first."
)
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the topic exists already.")
@click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
@click.pass_context
def create(
    ctx: click.Context,
    name: str,
    partitions: int,
    replicas: int | None,
    configs: tuple[str, ...],
    assignment: str | None,
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create a topic, and wait until it has leaders.

    With three replicas or more, the topic gets min.insync.replicas=2, unless --config sets another value.

    \b
    hightide topic create flights -p 6 -r 3 -c retention.ms=86400000
    """
    settings = config_pairs(configs, "--config")
    brokers = None if assignment is None else parse_assignment(assignment)
    if brokers is not None:
        is_said = ctx.get_parameter_source("partitions") is click.core.ParameterSource.COMMANDLINE
        _check_shape(ctx, brokers, partitions if is_said else None, replicas)
    from hightide.errors import TopicAlreadyExistsError

    from hightide_cli.command_line.connections import ORDER_TIMEOUT_MS, open_admin

    done = "would be created" if dry_run else "created"
    with open_admin(ctx, ORDER_TIMEOUT_MS) as admin:
        try:
            described = admin.create_topic(
                name,
                partitions,
                _live_brokers(admin) if replicas is None and brokers is None else replicas or 0,
                configs=settings,
                assignment=brokers,
                validate_only=dry_run,
            )
        except TopicAlreadyExistsError:
            if not if_not_exists:
                raise
            done = "exists"
            (described,) = admin.describe_topics([name])
    if wants_document(ctx):
        emit(ctx, view(DescribedTopicDocument, described))
        return
    shape = f"{len(described.partitions) or partitions} partitions, {described.replication_factor} replicas"
    click.echo(f"topic {described.name} {done}: {shape}")


@common_options
@topic.command("ls")
@click.pass_context
def list_topics(ctx: click.Context) -> None:
    """List all topics."""
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        described = admin.describe_topics()
        if wants_wide(ctx):
            listing = admin.describe_replicas()
            click.echo(wide_listing(described, listing))
            for silent in silent_lines(listing):
                click.echo(silent, err=True)
            return
    if wants_document(ctx):
        emit(ctx, {"topics": [_summary(each) for each in described]})
        return
    rows = [
        (each.name, len(each.partitions), each.replication_factor, _config_text(each)) for each in described
    ]
    click.echo(table(["topic", "partitions", "replicas", "configs"], rows))


@common_options
@topic.command()
@click.argument("names", nargs=-1, metavar="[TOPIC…]", shell_complete=topic_names)
@click.option("--under-replicated", is_flag=True, help="Only partitions with a replica that is not in sync.")
@click.option("--offline", is_flag=True, help="Only partitions without a leader.")
@click.option(
    "--under-min-isr",
    is_flag=True,
    help="Only partitions that refuse acks=all, because too few replicas are in sync.",
)
@click.pass_context
def describe(
    ctx: click.Context, names: tuple[str, ...], under_replicated: bool, offline: bool, under_min_isr: bool
) -> None:
    """Show leader, replicas and ISR of each partition.

    With --under-replicated, --offline or --under-min-isr, show only the partitions to which one of these
    applies. They need no TOPIC: without one, they apply to all topics.
    """
    wanted = Wanted(under_replicated, offline, under_min_isr)
    if not names and not wanted.is_any:
        raise click.UsageError("name a TOPIC, or give --under-replicated, --offline or --under-min-isr", ctx)
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        described = wanted.of(admin.describe_topics(list(names) or None))
        held = admin.describe_replicas([each.name for each in described]) if wants_wide(ctx) else None
    if wants_document(ctx):
        emit(ctx, {"topics": [view(DescribedTopicDocument, each) for each in described]})
        return
    if wanted.is_any and not described:
        click.echo("there is no such partition", err=True)
    for at, each in enumerate(described):
        if at:
            click.echo()
        click.echo(f"topic {each.name}  id {each.topic_id.hex()}  {_config_text(each) or ''}".rstrip())
        if held is not None:
            click.echo(wide_partitions(each, held))
            continue
        rows = [
            (part.partition, part.leader, part.leader_epoch, part.replicas, part.isr)
            for part in each.partitions
        ]
        click.echo(table(["partition", "leader", "epoch", "replicas", "isr"], rows))
    for silent in [] if held is None else silent_lines(held):
        click.echo(silent, err=True)


def _check_shape(
    ctx: click.Context, assignment: Sequence[Sequence[int]], partitions: int | None, replicas: int | None
) -> None:
    """Refuse numbers that an assignment contradicts: it alone says how many there are."""
    count = len(assignment)
    if partitions not in (None, count):
        of = f"{count} partition{'s' * (count != 1)}"
        raise click.UsageError(f"--assignment is for {of}, and not for {partitions}", ctx)
    if replicas is not None and any(len(each) != replicas for each in assignment):
        raise click.UsageError(f"--assignment is not for {replicas} replicas of each partition", ctx)


def _live_brokers(admin: "Admin") -> int:
    alive = sum(broker.alive for broker in admin.describe_cluster().brokers)
    return max(min(REPLICAS_BY_DEFAULT, alive), 1)


def _config_text(described: "TopicDescription") -> str | None:
    return " ".join(f"{name}={value}" for name, value in sorted(described.configs.items())) or None


def _summary(described: "TopicDescription") -> ListedTopicDocument:
    return {
        "topic": described.name,
        "topic_id": described.topic_id.hex(),
        "partitions": len(described.partitions),
        "replicas": described.replication_factor,
        "configs": dict(described.configs),
    }
