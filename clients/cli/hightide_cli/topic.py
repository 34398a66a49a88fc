"""`hightide topic`: create, list, describe, write, read, and find offsets."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hightide_cli import topic_changes
from hightide_cli.broker_lists import parse_assignment
from hightide_cli.options import OutputFormat, choices, common_options
from hightide_cli.output import emit, wants_document
from hightide_cli.rendering import Json, table

if TYPE_CHECKING:
    from hightide import Admin, TopicDescription

REPLICAS_BY_DEFAULT = 3


@click.group()
def topic() -> None:
    """Create, list, describe, change, delete, write and read topics."""


common_options(topic)
for _change in (
    topic_changes.alter,
    topic_changes.delete,
    topic_changes.add_partitions,
    topic_changes.remove_partitions,
):
    topic.add_command(_change)


@common_options
@topic.command()
@click.argument("name")
@click.option("-p", "--partitions", type=int, default=1, show_default=True)
@click.option("-r", "--replicas", type=int, help="3 unless said, or as many as there are live brokers.")
@click.option("-c", "--config", "configs", multiple=True, metavar="NAME=VALUE", help="May be given again.")
@click.option(
    "--assignment", metavar="1,2,3:2,3,1", help="The brokers of each partition, the preferred leader first."
)
@click.option("--if-not-exists", is_flag=True, help="Be content where the topic is there already.")
@click.option("--dry-run", is_flag=True, help="Check everything, change nothing.")
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
    """Create a topic and wait until its partitions have leaders."""
    settings = config_pairs(configs, "--config")
    brokers = None if assignment is None else parse_assignment(assignment)
    from hightide.errors import TopicAlreadyExistsError

    from hightide_cli.connections import open_admin

    done = "would be created" if dry_run else "created"
    with open_admin(ctx) as admin:
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
        emit(ctx, _document(described))
        return
    shape = f"{len(described.partitions) or partitions} partitions, {described.replication_factor} replicas"
    click.echo(f"topic {described.name} {done}: {shape}")


@common_options
@topic.command("ls")
@click.pass_context
def list_topics(ctx: click.Context) -> None:
    """List all topics."""
    from hightide_cli.connections import open_admin

    with open_admin(ctx) as admin:
        described = admin.describe_topics()
    if wants_document(ctx):
        emit(ctx, {"topics": [_summary(each) for each in described]})
        return
    rows = [
        (each.name, len(each.partitions), each.replication_factor, _config_text(each)) for each in described
    ]
    click.echo(table(["topic", "partitions", "replicas", "configs"], rows))


@common_options
@topic.command()
@click.argument("names", nargs=-1, required=True)
@click.pass_context
def describe(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show who leads and who holds each partition."""
    from hightide_cli.connections import open_admin

    with open_admin(ctx) as admin:
        described = admin.describe_topics(names)
    if wants_document(ctx):
        emit(ctx, {"topics": [_document(each) for each in described]})
        return
    for at, each in enumerate(described):
        if at:
            click.echo()
        click.echo(f"topic {each.name}  id {each.topic_id.hex()}  {_config_text(each) or ''}".rstrip())
        rows = [
            (part.partition, part.leader, part.leader_epoch, part.replicas, part.isr)
            for part in each.partitions
        ]
        click.echo(table(["partition", "leader", "epoch", "replicas", "isr"], rows))


@common_options
@topic.command()
@click.argument("name")
@click.option("--at", "moment", metavar="TIME", help="Also the first offset at or after a time (ISO 8601).")
@click.pass_context
def offsets(ctx: click.Context, name: str, moment: str | None) -> None:
    """Show the first and the next offset of each partition."""
    from hightide import TopicPartition

    from hightide_cli.connections import open_admin
    from hightide_cli.positions import parse_moment

    timestamp_us = None if moment is None else parse_moment(moment)
    with open_admin(ctx) as admin:
        (described,) = admin.describe_topics([name])
        partitions = [TopicPartition(name, each.partition) for each in described.partitions]
        earliest = admin.list_offsets(partitions, "earliest")
        latest = admin.list_offsets(partitions, "latest")
        at_time = None if timestamp_us is None else admin.list_offsets(partitions, timestamp_us)
    documents: list[dict[str, Json]] = []
    for partition in partitions:
        first, following = earliest[partition] or 0, latest[partition] or 0
        row: dict[str, Json] = {
            "partition": partition.partition,
            "earliest": first,
            "latest": following,
            "records": following - first,
        }
        documents.append(row if at_time is None else {**row, "at_time": at_time[partition]})
    if wants_document(ctx):
        emit(ctx, {"topic": name, "partitions": documents})
        return
    headings = [heading.replace("_", " ") for heading in documents[0]]
    click.echo(table(headings, [tuple(_number(cell) for cell in each.values()) for each in documents]))


@common_options
@topic.command()
@click.argument("name")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Each line is a key, this, and a value.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="May be given again.")
@click.option("-p", "--partition", type=int, help="Write to this partition, whatever the key.")
@click.option("--json", "as_json", is_flag=True, help="Each line is a record as `consume -o json` prints it.")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option("--compression", type=click.Choice(["none", "lz4", "zstd"]), default="none", show_default=True)
@click.pass_context
def produce(
    ctx: click.Context,
    name: str,
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    as_json: bool,
    acks: str,
    compression: str,
) -> None:
    """Write each line of standard input as a record."""
    from hightide_cli.line_producer import LineForm, produce_lines

    if key is not None and key_separator is not None:
        raise click.UsageError("say either --key or --key-separator, not both", ctx)
    form = LineForm(
        key=None if key is None else key.encode(),
        key_separator=None if key_separator is None else key_separator.encode(),
        headers=tuple(
            (header, value.encode()) for header, value in config_pairs(headers, "--header").items()
        ),
        partition=partition,
        as_json=as_json,
    )
    outcome = produce_lines(
        sys.stdin.buffer, name, form, bootstrap=choices(ctx).address(), acks=acks, compression=compression
    )
    if wants_document(ctx):
        emit(ctx, outcome.document())
    else:
        click.echo(outcome.sentence(), err=True)


@common_options
@topic.command()
@click.argument("name")
@click.option("--from", "start", metavar="POSITION", default="earliest", show_default=True)
@click.option("--from-beginning", is_flag=True, help="The same as --from earliest.")
@click.option(
    "-p", "--partition", "partitions", type=int, multiple=True, help="Only this; may be given again."
)
@click.option("-n", "--max-records", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option("-e", "--exit", "exit_at_end", is_flag=True, help="Stop at what is the end now.")
@click.option("-f", "--format", "form", metavar="FORMAT", help=r"As in -f '%p %o %k %v\n'; see below.")
@click.option("-g", "--group", metavar="GROUP", help="Share the partitions with the others of this group.")
@click.option("--consumer-id", metavar="NAME", help="This consumer's name in the group; made up unless said.")
@click.option(
    "--instance-id", metavar="NAME", help="Keeps its partitions while away for less than the session timeout."
)
@click.pass_context
def consume(
    ctx: click.Context,
    name: str,
    start: str,
    from_beginning: bool,
    partitions: tuple[int, ...],
    max_records: int | None,
    exit_at_end: bool,
    form: str | None,
    group: str | None,
    consumer_id: str | None,
    instance_id: str | None,
) -> None:
    """Print records: values line by line, JSON with -o json, or what --format says.

    With --group it goes on where the group has come to, and commits what was printed; --from, which is then
    earliest or latest, is for what the group has committed nothing of.

    \b
    POSITION  earliest, latest, an offset, -N for the last N of each partition,
              or @TIME with a time as in @2013-01-01T05:00:00Z
    FORMAT    %t topic, %p partition, %o offset, %T timestamp in ms, %k key,
              %v value (also %s), %h headers, %% a percent sign; \\n, \\t, \\0
    """
    from hightide_cli.positions import parse_position, reset_of
    from hightide_cli.record_printer import FormatError, RecordPrinter, consume_records

    if from_beginning and start != "earliest":
        raise click.UsageError("say either --from or --from-beginning, not both", ctx)
    position = parse_position(start)
    if group is None and (consumer_id or instance_id):
        raise click.UsageError("--consumer-id and --instance-id need --group", ctx)
    if group is not None and partitions:
        raise click.UsageError("say either --group or --partition: in a group, the coordinator decides", ctx)
    try:
        chosen = choices(ctx).output
        printer = RecordPrinter(
            as_json=chosen is OutputFormat.JSON, as_yaml=chosen is OutputFormat.YAML, form=form
        )
    except FormatError as error:
        raise click.BadParameter(str(error), ctx, param_hint="--format") from error
    if group is not None:
        from hightide_cli.group_consuming import Membership, consume_in_group

        consume_in_group(
            name,
            printer,
            sys.stdout.buffer,
            bootstrap=choices(ctx).address(),
            membership=Membership(group, consumer_id or "", instance_id or "", reset_of(position)),
            records_max=max_records,
            exit_at_end=exit_at_end,
        )
        return
    consume_records(
        name,
        printer,
        sys.stdout.buffer,
        bootstrap=choices(ctx).address(),
        position=position,
        partitions=partitions,
        records_max=max_records,
        exit_at_end=exit_at_end,
    )


def _live_brokers(admin: "Admin") -> int:
    alive = sum(broker.alive for broker in admin.describe_cluster().brokers)
    return max(min(REPLICAS_BY_DEFAULT, alive), 1)


def config_pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Parse NAME=VALUE, given any number of times. Raises click.BadParameter."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        pairs[name] = value
    return pairs


def _config_text(described: "TopicDescription") -> str | None:
    return " ".join(f"{name}={value}" for name, value in sorted(described.configs.items())) or None


def _number(value: Json) -> int | None:
    assert value is None or isinstance(value, int)
    return value


def _summary(described: "TopicDescription") -> dict[str, Json]:
    return {
        "topic": described.name,
        "topic_id": described.topic_id.hex(),
        "partitions": len(described.partitions),
        "replicas": described.replication_factor,
        "configs": dict(described.configs),
    }


def _document(described: "TopicDescription") -> dict[str, Json]:
    partitions: list[Json] = [
        {
            "partition": each.partition,
            "leader": each.leader,
            "leader_epoch": each.leader_epoch,
            "replicas": each.replicas,
            "isr": each.isr,
        }
        for each in described.partitions
    ]
    return {**_summary(described), "partitions": partitions}
