"""`hightide topic offsets` and `size`: the number of records, and their first and last offsets."""

from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.completing import topic_names
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json, table
from hightide_cli.topic.tables import silent_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hightide import ReplicaDescription, TopicDescription


@common_options
@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option(
    "--at",
    "moment",
    metavar="TIME",
    help="Also show the first offset at or after a time: ISO 8601, ms since 1970, or -15m for "
    "15 minutes ago.",
)
@click.pass_context
def offsets(ctx: click.Context, name: str, moment: str | None) -> None:
    """Show the first and the next offset of each partition."""
    from hightide import TopicPartition
    from hightide.moments import moment_at

    from hightide_cli.command_line.connections import open_admin
    from hightide_cli.records.positions import parse_moment

    timestamp_us = None if moment is None else parse_moment(moment)
    with open_admin(ctx) as admin:
        (described,) = admin.describe_topics([name])
        partitions = [TopicPartition(name, each.partition) for each in described.partitions]
        earliest = admin.list_offsets(partitions, "earliest")
        latest = admin.list_offsets(partitions, "latest")
        at_time = None if timestamp_us is None else admin.list_offsets(partitions, moment_at(timestamp_us))
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


def _number(value: Json) -> int | None:
    assert value is None or isinstance(value, int)
    return value


@common_options
@click.command()
@click.argument("names", nargs=-1, metavar="[TOPIC…]", shell_complete=topic_names)
@click.option("--by-partition", is_flag=True, help="Print a line for each partition.")
@click.pass_context
def size(ctx: click.Context, names: tuple[str, ...], by_partition: bool) -> None:
    """Show how many records and bytes topics hold. The default is all topics.

    `bytes` is the size of the largest replica of each partition, and `on disk` that of all replicas together.
    Both are sizes of log files. Brokers that do not answer are left out, and named.
    """
    from hightide_cli.command_line.connections import open_admin
    from hightide_cli.command_line.sizes import size_text

    with open_admin(ctx) as admin:
        described = admin.describe_topics(list(names) or None)
        listing = admin.describe_replicas([each.name for each in described] if names else None)
    documents = [size_document(each, listing.replicas) for each in described]
    if wants_document(ctx):
        emit(ctx, {"topics": documents, "silent_brokers": sorted(listing.silent_brokers)})
        return
    rows = []
    for each in documents:
        lines = each["partitions"] if by_partition else [each]
        assert isinstance(lines, list)
        for line in lines:
            name = f"{each['topic']}-{line['partition']}" if by_partition else str(each["topic"])
            figures = (line["records"], size_text(line["bytes"]), size_text(line["bytes_on_disk"]))
            rows.append((name, *figures))
    click.echo(table(["partition" if by_partition else "topic", "records", "bytes", "on disk"], rows))
    for silent in silent_lines(listing):
        click.echo(silent, err=True)


def size_document(topic: "TopicDescription", replicas: "Sequence[ReplicaDescription]") -> dict[str, Json]:
    """The content of a topic, from the brokers' reports about their replicas of it, never of another topic of
    its name."""
    held: dict[int, list[ReplicaDescription]] = {each.partition: [] for each in topic.partitions}
    for replica in replicas:
        if replica.topic_id == topic.topic_id and replica.partition.partition in held:
            held[replica.partition.partition].append(replica)
    partitions: list[dict[str, int]] = []
    for number, found in held.items():
        # A leader is as full as any replica; without a known leader, the fullest one is the nearest to it.
        first = max((each.log_start_offset for each in found if each.is_leader), default=None)
        if first is None:
            first = min((each.log_start_offset for each in found), default=0)
        end = max((each.high_watermark for each in found), default=0)
        partitions.append(
            {
                "partition": number,
                "records": max(0, end - first),
                "bytes": max((each.size_bytes for each in found), default=0),
                "bytes_on_disk": sum(each.size_bytes for each in found),
            }
        )
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id.hex(),
        "records": sum(each["records"] for each in partitions),
        "bytes": sum(each["bytes"] for each in partitions),
        "bytes_on_disk": sum(each["bytes_on_disk"] for each in partitions),
        "partitions": partitions,
    }
