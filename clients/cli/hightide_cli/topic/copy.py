"""`hightide topic copy`: the records of a topic into another one, on this cluster or another."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import click

from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_cli.command_line.completing import topic_names
from hightide_cli.command_line.options import common_options
from hightide_cli.copying.stalls import stalls_told
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.progress import is_shown, progress, progress_option
from hightide_cli.printing.rendering import Json, table
from hightide_cli.records.ranges import TopicRanges, partitions_option, range_options

if TYPE_CHECKING:
    from hightide import Admin, ProducerKey, ProducerState, TopicDescription

    from hightide_cli.copying.batches import Copied
    from hightide_cli.copying.plan import CopyNotes

_CREATE_TIMEOUT_MS = 60_000
# A bar may soon show what it waits for; a line stays.
_STALL_S = 2.0
_STALL_LINE_S = 10.0


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one run. `key` and `notes` are None if records go by their keys: such a copy is not
    counted, and a repetition writes all of it again."""

    source: TopicRanges
    target: str
    target_cluster: ClientArguments
    left: TopicRanges
    name: str
    key: "ProducerKey | None" = None
    notes: "CopyNotes | None" = None
    notes_path: Path = Path()


@common_options
@click.command()
@click.argument("source", shell_complete=topic_names)
@click.argument("target", shell_complete=topic_names)
@click.option(
    "--to-bootstrap",
    metavar="HOST:PORT[,…]",
    help="A broker of the cluster of TARGET; the default is the cluster of SOURCE.",
)
@click.option("--to-context", metavar="NAME", help="The context of the cluster of TARGET.")
@click.option(
    "--create",
    is_flag=True,
    help="If TARGET does not exist, create it with the partitions and settings of SOURCE.",
)
@click.option("--by-key", is_flag=True, help="Write each record to the partition of its key; see above.")
@partitions_option
@range_options
@click.option(
    "--compression",
    type=click.Choice(["none", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="How batches in TARGET are compressed.",
)
@click.option(
    "--notes",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file in which the run notes its progress; the default is one in your home directory.",
)
@click.option(
    "--skip-deleted", is_flag=True, help="Leave out records that SOURCE deleted before they were copied."
)
@click.option("--dry-run", is_flag=True, help="Show what would be copied, and copy nothing.")
@progress_option
@click.pass_context
def copy(
    ctx: click.Context,
    source: str,
    target: str,
    to_bootstrap: str | None,
    to_context: str | None,
    create: bool,
    by_key: bool,
    partitions: tuple[int, ...],
    start: str,
    until: str | None,
    compression: str,
    notes: Path | None,
    skip_deleted: bool,
    dry_run: bool,
) -> None:
    """Copy the records of SOURCE to TARGET. They keep keys, headers, timestamps and the order of each
    partition.

    If you repeat the command, also after a crash, it continues where it ended, and writes no record twice.
    For this the brokers of TARGET count the records of the copy, and a file on this machine notes where the
    count began. With --by-key, for a TARGET with another number of partitions, nothing is counted, and the
    same command copies everything again. If SOURCE has deleted records that come next, the command fails
    unless you give --skip-deleted.

    \b
    hightide topic copy flights flights-again --create
    hightide topic copy flights flights --to-context prod --from @-1h
    """
    from hightide_cli.records.positions import parse_position

    if to_bootstrap is not None and to_context is not None:
        raise click.UsageError("give either --to-bootstrap or --to-context, not both", ctx)
    begin, end = parse_position(start), None if until is None else parse_position(until, "--until")
    from hightide_cli.command_line.connections import open_admin, patient_admin
    from hightide_cli.records.ranges import topic_ranges

    there = _cluster_of_target(ctx, to_bootstrap, to_context)
    with open_admin(ctx) as admin, patient_admin(there, _CREATE_TIMEOUT_MS) as target_admin:
        cluster_id = admin.describe_cluster().cluster_id
        target_cluster_id = target_admin.describe_cluster().cluster_id
        if (source, cluster_id) == (target, target_cluster_id):
            raise click.UsageError("a topic is not copied into itself: name another TARGET", ctx)
        ranges = topic_ranges(admin, source, partitions, begin, end)
        described = _target(admin, target_admin, source, target, create=create, dry_run=dry_run)
        name = f"{cluster_id}/{ranges.topic_id.hex()} from {start} to {target_cluster_id}/"
        task = _task(
            *(target_admin, ranges, described, target, there, name, notes),
            by_key=by_key,
            skip_deleted=skip_deleted,
        )
    if dry_run:
        _tell_plan(ctx, task)
        return
    _run(ctx, task, compression)


def _cluster_of_target(
    ctx: click.Context, to_bootstrap: str | None, to_context: str | None
) -> ClientArguments:
    """The cluster of TARGET. A context has its own files of TLS; an address is used with those of SOURCE."""
    from hightide_cli.context.named_clusters import contexts_path, load_contexts

    if to_context is not None:
        context = load_contexts(contexts_path()).named(to_context)
        return {**context.files.arguments(), "bootstrap": context.bootstrap}
    there = choices(ctx).client_arguments()
    return there if to_bootstrap is None else {**there, "bootstrap": to_bootstrap}


def _target(
    admin: "Admin", target_admin: "Admin", source: str, target: str, *, create: bool, dry_run: bool
) -> "TopicDescription | None":
    """The target as it is, or as it was just created; None if it would be created."""
    from hightide.errors import UnknownTopicError

    try:
        (described,) = target_admin.describe_topics([target])
    except UnknownTopicError:
        if not create:
            raise click.ClickException(
                f"topic {target} does not exist: create it, or give --create for one like {source}"
            ) from None
    else:
        return described
    if dry_run:
        return None
    (like,) = admin.describe_topics([source])
    alive = sum(broker.alive for broker in target_admin.describe_cluster().brokers)
    replicas = max(1, min(like.replication_factor, alive))
    return target_admin.create_topic(target, len(like.partitions), replicas, configs=like.configs)


def _task(
    admin: "Admin",
    ranges: TopicRanges,
    described: "TopicDescription | None",
    target: str,
    there: ClientArguments,
    name: str,
    notes: Path | None,
    *,
    by_key: bool,
    skip_deleted: bool,
) -> Task:
    """The part that is left to copy. Raises click.ClickException and CopyError."""
    if described is None:
        return Task(ranges, target, there, ranges, name)
    highest = max((each.partition for each in ranges.ranges), default=-1)
    if not by_key and highest >= len(described.partitions):
        raise click.ClickException(
            f"topic {target} has {len(described.partitions)} partitions, and partition {highest} of "
            f"{ranges.topic} is to be copied: add partitions to {target}, or give --by-key"
        )
    if by_key:
        return Task(ranges, target, there, ranges, name)
    from hightide import ProducerKey, TopicPartition

    from hightide_cli.copying.notes import load_notes, notes_path
    from hightide_cli.copying.plan import CopyNotes, deleted_of, going_on, skipping

    name += described.topic_id.hex()
    path = notes or notes_path(name)
    noted = load_notes(path, name)
    identity = f"hightide topic copy {name}"
    key = ProducerKey(identity, 0, 0 if noted is None else noted.version)
    places = [TopicPartition(target, each.partition) for each in ranges.ranges]
    known: dict[int, ProducerState] = {
        place.partition: states[0]
        for place, states in admin.describe_producers(places, [key.producer_id]).items()
        if states
    }
    now_ms = time.time_ns() // 1_000_000
    left = going_on(target, ranges.ranges, noted, known, now_ms)
    deleted = deleted_of(left, ranges.earliest)
    if noted is not None and deleted:
        left = skipping(ranges.topic, left, deleted, noted, is_agreed=skip_deleted)
        noted = noted.behind(left, now_ms)
        key = ProducerKey(identity, 0, noted.version)
        for each in deleted:
            gone = f"{ranges.topic}-{each.partition} from {each.start} to {each.end - 1}"
            click.echo(f"left out, because the source has deleted it: {gone}", err=True)
    remaining = replace(ranges, ranges=tuple(left))
    begun = (noted or CopyNotes()).begun(ranges.ranges, now_ms)
    return Task(ranges, target, there, remaining, name, key, begun, path)


def _run(ctx: click.Context, task: Task, compression: str) -> None:
    from hightide import Producer, RangeReader

    from hightide_cli.command_line.sizes import duration_text
    from hightide_cli.copying.batches import Copied, copy_records
    from hightide_cli.copying.notes import store_notes

    copied, began_s, is_done = Copied(), time.monotonic(), False
    told_after_s = _STALL_S if is_shown() else _STALL_LINE_S

    def tell_stall(what: str, waited_s: float) -> None:
        sentence = f"waits for {what}, {duration_text(waited_s)} by now"
        if not done.say(sentence):
            click.echo(f"{copied.records:,} of {task.left.count:,} records; {sentence}", err=True)

    if task.notes is not None:
        # The notes come before the first record: without them, the count would mean nothing later.
        store_notes(task.notes_path, task.name, task.notes)
    codec = None if compression == "none" else cast(Literal["lz4", "zstd"], compression)
    try:
        with (
            RangeReader(**choices(ctx).client_arguments()) as reader,
            Producer(**task.target_cluster, compression=codec, key=task.key) as producer,
            progress(f"copying {task.source.topic}", task.left.count) as done,
            stalls_told(told_after_s, tell_stall) as waits_for,
        ):
            if task.notes is not None:
                for each in task.left.ranges:
                    if each.count:
                        count = each.start - task.notes.bases[each.partition]
                        producer.go_on_at(task.target, each.partition, count)
            copy_records(
                *(reader, producer, task.left, task.target, copied, done),
                by_key=task.key is None,
                waits_for=waits_for,
            )
        is_done = True
    finally:
        if not is_done and task.notes is not None:
            click.echo(
                f"{copied.records} of {task.left.count} records were copied; the same command goes on there",
                err=True,
            )
    if task.notes is not None:
        finished = task.notes.finished(task.left.ranges, time.time_ns() // 1_000_000)
        store_notes(task.notes_path, task.name, finished)
    _tell_done(ctx, task, copied, time.monotonic() - began_s)


def _document(task: Task) -> dict[str, Json]:
    left = {each.partition: each for each in task.left.ranges}
    partitions: list[Json] = [
        {
            "partition": each.partition,
            "start": left[each.partition].start,
            "end": left[each.partition].end,
            "records": left[each.partition].count,
        }
        for each in task.source.ranges
    ]
    return {"source": task.source.topic, "target": task.target, "partitions": partitions}


def _tell_plan(ctx: click.Context, task: Task) -> None:
    if wants_document(ctx):
        emit(ctx, {"dry_run": True, **_document(task), "records": task.left.count})
        return
    rows = [(each.partition, each.start, each.end, each.count) for each in task.left.ranges]
    click.echo(table(["partition", "from", "until", "records"], rows))
    click.echo(f"\n{task.left.count:,} records would be copied to {task.target}", err=True)


def _tell_done(ctx: click.Context, task: Task, copied: "Copied", elapsed_s: float) -> None:
    from hightide_cli.command_line.sizes import duration_text, size_text

    if wants_document(ctx):
        figures: dict[str, Json] = {
            "records": copied.records,
            "bytes": copied.size_bytes,
            "seconds": round(elapsed_s, 3),
        }
        emit(ctx, {"dry_run": False, **_document(task), **figures})
        return
    pace = size_text(copied.size_bytes / max(elapsed_s, 0.001))
    click.echo(
        f"copied {copied.records:,} records, {size_text(copied.size_bytes)}, from {task.source.topic} to "
        f"{task.target} in {duration_text(elapsed_s)} ({pace}/s)"
    )
