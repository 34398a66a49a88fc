"""The commands that change a topic: `hightide topic delete`, `alter`, `add-partitions` and
`remove-partitions`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.broker_lists import parse_assignment
from hightide_cli.command_line.completing import topic_names
from hightide_cli.command_line.confirmation import confirm
from hightide_cli.command_line.name_values import config_pairs
from hightide_cli.command_line.options import common_options
from hightide_cli.command_line.sizes import size_text
from hightide_cli.printing.outcomes import told_as_deleted
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json, table

if TYPE_CHECKING:
    from hightide import Admin, TopicDescription

# A topic of many partitions takes a while to go; so does one whose leaders are to be elected.
_CHANGE_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Content:
    """The content of some partitions: the number of records by offsets, and the bytes of one replica of
    each. `uncounted` are those of which no broker that answers has a replica."""

    records: int
    size_bytes: int
    uncounted: int = 0

    def sentence(self) -> str:
        """`1,234 records, 12 MB`, and what that leaves out."""
        records = "record" if self.records == 1 else "records"
        counted = f"{self.records:,} {records}, {size_text(self.size_bytes)}"
        if not self.uncounted:
            return counted
        them = "partition is" if self.uncounted == 1 else "partitions are"
        holds = "it" if self.uncounted == 1 else "them"
        return f"{counted}; {self.uncounted} {them} not counted, since no broker that answers holds {holds}"


@common_options
@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…", shell_complete=topic_names)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--if-exists", is_flag=True, help="Ignore topics that do not exist.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@click.pass_context
def delete(ctx: click.Context, names: tuple[str, ...], yes: bool, if_exists: bool, dry_run: bool) -> None:
    """Delete topics with all their records; asks first.

    You can create a topic with the same name at once. Brokers that are down delete their replicas when they
    start again.
    """
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx, _CHANGE_TIMEOUT_MS) as admin:
        topics = _found(admin, list(dict.fromkeys(names)), if_exists)
        contents = {each.name: _content(admin, each, 0) for each in topics}
        for each in topics:
            partitions = f"{len(each.partitions)} partition{'s' * (len(each.partitions) != 1)}"
            click.echo(f"{each.name}: {partitions}, {contents[each.name].sentence()}", err=True)
        if topics and not dry_run:
            what = f"topic {topics[0].name}" if len(topics) == 1 else f"these {len(topics)} topics"
            confirm(f"Delete {what} for good?", is_agreed=yes)
        documents: list[Json] = []
        with told_as_deleted(ctx, documents, dry_run=dry_run):
            for each in topics:
                deleted = admin.delete_topic(each.name, validate_only=dry_run)
                documents.append(
                    {
                        "topic": each.name,
                        "topic_id": each.topic_id.hex(),
                        "partitions": len(each.partitions),
                        "records": contents[each.name].records,
                        "bytes": contents[each.name].size_bytes,
                        "absent_brokers": deleted.absent_brokers,
                    }
                )
                if not wants_document(ctx):
                    click.echo(_deleted_sentence(each.name, deleted.absent_brokers, dry_run))


def _deleted_sentence(name: str, absent: Sequence[int], dry_run: bool) -> str:
    later = (
        f"; broker {', '.join(map(str, absent))} is down and deletes its replicas when it starts"
        if absent
        else ""
    )
    return f"topic {name} {'would be deleted' if dry_run else 'deleted'}{later}"


@common_options
@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option(
    "-s", "--set", "to_set", multiple=True, metavar="NAME=VALUE", help="A setting of the topic; repeatable."
)
@click.option("--reset", multiple=True, metavar="NAME", help="Reset this setting to its default; repeatable.")
@click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
@click.pass_context
def alter(
    ctx: click.Context, name: str, to_set: tuple[str, ...], reset: tuple[str, ...], dry_run: bool
) -> None:
    """Change settings of a topic. Its brokers use them at once."""
    settings = config_pairs(to_set, "--set")
    if not settings and not reset:
        raise click.UsageError("give --set NAME=VALUE or --reset NAME", ctx)
    from hightide_cli.command_line.connections import ORDER_TIMEOUT_MS, open_admin

    with open_admin(ctx, ORDER_TIMEOUT_MS) as admin:
        configs = admin.alter_topic_config(name, settings, reset=reset, validate_only=dry_run)
    if wants_document(ctx):
        emit(ctx, {"dry_run": dry_run, "topic": name, "configs": configs})
        return
    text = " ".join(f"{key}={value}" for key, value in sorted(configs.items())) or "no setting of its own"
    click.echo(f"topic {name} {'would have' if dry_run else 'has'} {text}")


@common_options
@click.command("add-partitions")
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option("-p", "--partitions", type=int, required=True, help="The new number of partitions.")
@click.option(
    "--assignment",
    metavar="1,2,3:2,3,1",
    help="The brokers of each new partition, the preferred leader first; the default is a balanced choice.",
)
@click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
@click.pass_context
def add_partitions(
    ctx: click.Context, name: str, partitions: int, assignment: str | None, dry_run: bool
) -> None:
    """Add partitions to a topic. From then on a key may go to another partition; existing records stay in
    theirs."""
    brokers = None if assignment is None else parse_assignment(assignment)
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx, _CHANGE_TIMEOUT_MS) as admin:
        (before,) = admin.describe_topics([name])
        after = admin.add_partitions(name, partitions, assignment=brokers, validate_only=dry_run)
    added = after.partitions[len(before.partitions) :]
    if wants_document(ctx):
        added_documents: list[Json] = [
            {"partition": each.partition, "leader": each.leader, "replicas": each.replicas} for each in added
        ]
        emit(
            ctx,
            {
                "dry_run": dry_run,
                "topic": name,
                "partitions": len(after.partitions),
                "added": added_documents,
            },
        )
        return
    verb = "would have" if dry_run else "has"
    click.echo(f"topic {name} {verb} {len(after.partitions)} partitions, {len(added)} of them new")
    if added:
        click.echo(
            table(["partition", "leader", "replicas"], [(a.partition, a.leader, a.replicas) for a in added])
        )
    click.echo(f"from then on a key {'might' if dry_run else 'may'} go to another partition", err=True)


@common_options
@click.command("remove-partitions")
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option("-p", "--partitions", type=int, required=True, help="The new number of partitions; at least 1.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@click.pass_context
def remove_partitions(ctx: click.Context, name: str, partitions: int, yes: bool, dry_run: bool) -> None:
    """Shrink a topic; asks first. The partitions with the highest numbers go, with their records."""
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx, _CHANGE_TIMEOUT_MS) as admin:
        # A change that is not possible is reported before the user is asked.
        (before,) = admin.describe_topics([name])
        admin.remove_partitions(name, partitions, validate_only=True)
        removed = [each.partition for each in before.partitions if each.partition >= partitions]
        lost = _content(admin, before, partitions)
        click.echo(_removal_warning(name, removed, partitions, lost), err=True)
        if not dry_run:
            confirm(f"Remove {len(removed)} of {len(before.partitions)} partitions for good?", is_agreed=yes)
            admin.remove_partitions(name, partitions)
    if wants_document(ctx):
        emit(
            ctx,
            {
                "dry_run": dry_run,
                "topic": name,
                "partitions": partitions,
                "removed": removed,
                "records": lost.records,
                "bytes": lost.size_bytes,
            },
        )
        return
    verb = "would have" if dry_run else "has"
    click.echo(f"topic {name} {verb} {partitions} partition{'s' * (partitions != 1)}")


def _removal_warning(name: str, removed: Sequence[int], count: int, lost: Content) -> str:
    numbers = f"{removed[0]} to {removed[-1]}" if len(removed) > 1 else ", ".join(map(str, removed))
    return (
        f"{name}: partition{'s' * (len(removed) != 1)} {numbers} would go, with {lost.sentence()}.\n"
        f"From then on keys hash to {count} partition{'s' * (count != 1)}: the newer records of a key may be "
        "in another partition than its older ones.\n"
        "The offsets that consumer groups committed for removed partitions do not count any more."
    )


def _found(admin: "Admin", names: Sequence[str], if_exists: bool) -> list["TopicDescription"]:
    from hightide.errors import UnknownTopicError

    if not if_exists:
        return admin.describe_topics(names)
    found = []
    for name in names:
        try:
            found.extend(admin.describe_topics([name]))
        except UnknownTopicError:
            continue
    return found


def _content(admin: "Admin", topic: "TopicDescription", first_partition: int) -> Content:
    """The content of the partitions from this one on, as far as live brokers report it. It does not depend on
    leaders, since the topic to delete may be the broken one."""
    fullest: dict[int, tuple[int, int]] = {}
    for each in admin.describe_replicas([topic.name]).replicas:
        number = each.partition.partition
        if each.topic_id == topic.topic_id and number >= first_partition:
            held = (each.log_end_offset - each.log_start_offset, each.size_bytes)
            fullest[number] = max(fullest.get(number, (0, 0)), held)
    wanted = {each.partition for each in topic.partitions if each.partition >= first_partition}
    records, size_bytes = (sum(column) for column in zip((0, 0), *fullest.values(), strict=True))
    return Content(records, size_bytes, len(wanted - fullest.keys()))
