"""`hightide reassign plan` and `apply`: the moves that would be made, and making them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.broker_lists import parse_brokers
from hightide_cli.command_line.completing import broker_ids, topic_names
from hightide_cli.command_line.options import common_options
from hightide_cli.command_line.sizes import parse_size, size_text
from hightide_cli.printing.outcomes import fail_where_refused, partition_document
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json, table

if TYPE_CHECKING:
    from hightide import Admin, TopicPartition

    from hightide_cli.documents.moves import OutcomeDocument
    from hightide_cli.reassign.plan import Place, Plan
    from hightide_cli.reassign.plan_file import PlannedMove


@common_options
@click.command()
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    help="Plan for this topic; repeatable.",
    shell_complete=topic_names,
)
@click.option("--all", "every", is_flag=True, help="Plan for all topics.")
@click.option(
    "-b", "--brokers", metavar="1,2,4", help="The brokers to spread over; the default is all live brokers."
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(min=1),
    help="The number of replicas of each partition; the default is to keep it.",
)
@click.option(
    "--decommission",
    type=int,
    metavar="BROKER",
    help="Only move the replicas of this broker to other brokers.",
    shell_complete=broker_ids,
)
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the plan to this file, for `apply`.",
)
@click.pass_context
def plan(
    ctx: click.Context,
    topics: tuple[str, ...],
    every: bool,
    brokers: str | None,
    replication_factor: int | None,
    decommission: int | None,
    path: Path | None,
) -> None:
    """Plan to spread partitions evenly over brokers. The plan has the fewest moves; nothing is moved yet.

    It shows which replicas would move to which brokers, and how many bytes each broker would receive and
    send.

    \b
    hightide reassign plan --all -f plan.json
    hightide reassign plan --decommission 3 -f plan.json
    """
    if (topics and every) or not (topics or every or decommission is not None):
        raise click.UsageError("give either --topic or --all", ctx)
    if decommission is not None and replication_factor is not None:
        raise click.UsageError("--decommission keeps the replication factor as it is", ctx)
    asked_for = None if brokers is None else parse_brokers(brokers, "--brokers")
    from hightide_cli.command_line.connections import open_admin
    from hightide_cli.reassign.places import check_known, live_brokers, places_in
    from hightide_cli.reassign.plan import plan_onto, plan_without
    from hightide_cli.reassign.plan_file import plan_document, write_plan

    with open_admin(ctx) as admin:
        if decommission is not None:
            check_known(admin, decommission)
        targets = live_brokers(admin, asked_for)
        places = places_in(admin, list(dict.fromkeys(topics)) or None)
    if decommission is None:
        made = plan_onto(places, targets, replication_factor)
    else:
        made = plan_without(places, targets, decommission)
    if path is not None:
        write_plan(path, made)
    if wants_document(ctx):
        emit(ctx, plan_document(made))
        return
    _show(made)
    if made.moves:
        next_step = (
            f"hightide reassign apply {path}" if path else "the same with --file plan.json, then apply it"
        )
        click.echo(f"\nnothing is moved yet; next: {next_step}")


@common_options
@click.command()
@click.argument(
    "path", metavar="[FILE]", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "-t",
    "--topic",
    metavar="TOPIC",
    help="Instead of FILE: the topic of the partition to move.",
    shell_complete=topic_names,
)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Instead of FILE: the partition to move.")
@click.option(
    "--replicas", metavar="4,5,6", help="Instead of FILE: the brokers to move to, the preferred leader first."
)
@click.option(
    "--throttle",
    metavar="RATE",
    help="The most bytes per second that each broker sends for moves, such as 10MB; `off`: no limit.",
)
@click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
@click.option(
    "--watch", "is_watched", is_flag=True, help="Show the progress of these moves until they are done."
)
@click.pass_context
def apply(
    ctx: click.Context,
    path: Path | None,
    topic: str | None,
    partition: int | None,
    replicas: str | None,
    throttle: str | None,
    dry_run: bool,
    is_watched: bool,
) -> None:
    """Begin the moves of a plan, or of one partition. The moves go on when this command has ended.

    With --watch, it also follows those that were under way already. Exit code 1: a move was refused, or did
    not arrive.

    \b
    hightide reassign apply plan.json --throttle 10MB --watch
    """
    of_one = (topic, partition, replicas)
    if (path is None) == (of_one == (None, None, None)) or (path is None and None in of_one):
        raise click.UsageError("give either a FILE, or --topic, --partition and --replicas", ctx)
    target = () if replicas is None else parse_brokers(replicas, "--replicas")
    limit = None if throttle is None else parse_rate(throttle, "--throttle")
    from hightide import TopicPartition

    from hightide_cli.command_line.connections import ORDER_TIMEOUT_MS, open_admin
    from hightide_cli.reassign.plan_file import read_plan
    from hightide_cli.reassign.watch import WATCH_TIMEOUT_MS, watch_moves

    with open_admin(ctx, WATCH_TIMEOUT_MS if is_watched else ORDER_TIMEOUT_MS) as admin:
        watched: dict[TopicPartition, tuple[int, ...]] = {}
        if path is not None:
            planned = read_plan(path)
            moves = _to_do(admin, planned, path)
            if is_watched:
                watched = _under_way(admin, planned)
        else:
            assert topic is not None, "checked above"
            assert partition is not None, "checked above"
            moves = {TopicPartition(topic, partition): target}
        begun = _begin(ctx, admin, moves, limit, dry_run)
        if is_watched and not dry_run:
            watched |= {each: moves[each] for each in begun}
            watch_moves(ctx, admin, 1.0, only=watched)


def _to_do(
    admin: "Admin", planned: Sequence["PlannedMove"], path: Path
) -> dict["TopicPartition", tuple[int, ...]]:
    """The moves of a plan that are not done yet. Raises click.ClickException if it is out of date."""
    from hightide import TopicPartition

    from hightide_cli.reassign.places import places_in

    places = _by_partition(places_in(admin, sorted({move.topic for move in planned})))
    moves: dict[TopicPartition, tuple[int, ...]] = {}
    for move in planned:
        place = places.get((move.topic, move.partition))
        if place is not None and place.replicas == move.replicas:
            continue
        if place is not None and move.before not in (None, place.replicas):
            raise click.ClickException(
                f"{path} is out of date: {move.topic}-{move.partition} was on brokers "
                f"{_numbers(move.before or ())} when it was made, and is on {_numbers(place.replicas)}: "
                "make a new plan"
            )
        moves[TopicPartition(move.topic, move.partition)] = move.replicas
    return moves


def _under_way(admin: "Admin", planned: Sequence["PlannedMove"]) -> dict["TopicPartition", tuple[int, ...]]:
    """The moves of a plan that were begun before."""
    wanted = {(move.topic, move.partition): move.replicas for move in planned}
    return {
        each.partition: each.target
        for each in admin.list_reassignments().reassignments
        if wanted.get((each.partition.topic, each.partition.partition)) == each.target
    }


def _begin(
    ctx: click.Context,
    admin: "Admin",
    moves: Mapping["TopicPartition", tuple[int, ...]],
    limit: int | None,
    dry_run: bool,
) -> list["TopicPartition"]:
    """Give the order and print its outcome. Returns the partitions that move."""
    from hightide_cli.reassign.places import places_in
    from hightide_cli.reassign.plan import plan_by_hand

    places = _by_partition(places_in(admin, sorted({each.topic for each in moves})) if moves else [])
    outcomes = admin.reassign_partitions(moves, throttle_bytes_per_s=limit, validate_only=dry_run)
    begun = [each.partition for each in outcomes if each.ok]
    meant = plan_by_hand(
        [places[each.topic, each.partition] for each in begun if (each.topic, each.partition) in places],
        {(each.topic, each.partition): tuple(moves[each]) for each in begun},
    )
    if wants_document(ctx):
        results: list[OutcomeDocument] = [partition_document(each) for each in outcomes]
        document: dict[str, Json] = {
            "dry_run": dry_run,
            "partitions": results,
            "bytes_to_move": meant.bytes_to_move,
        }
        emit(ctx, document)
    elif begun:
        _show(meant)
        click.echo()
        speed = (
            "" if limit is None else f", {size_text(limit)}/s from each broker" if limit else ", unthrottled"
        )
        verb = "would begin" if dry_run else "begun"
        click.echo(f"{len(begun)} {'move' if len(begun) == 1 else 'moves'} {verb}{speed}")
        if not dry_run:
            click.echo("`hightide reassign watch` follows them, `hightide reassign cancel` cancels them")
    elif not moves:
        click.echo("every partition is where the plan wants it, or on the way there")
    fail_where_refused(outcomes, "moves were")
    return begun


def _by_partition(places: Sequence["Place"]) -> dict[tuple[str, int], "Place"]:
    return {(place.topic, place.partition): place for place in places}


def _show(made: "Plan") -> None:
    if not made.moves:
        click.echo(f"nothing to move: all {made.partition_count} partitions may stay where they are")
        return
    click.echo(
        table(
            ["partition", "from", "to", "arrives on", "leaves", "copied", "sent by"],
            [
                (
                    f"{move.topic}-{move.partition}",
                    move.before,
                    move.after,
                    move.arriving or None,
                    move.leaving or None,
                    size_text(move.bytes_to_move),
                    move.leader if move.arriving else None,
                )
                for move in made.moves
            ],
        )
    )
    click.echo()
    click.echo(
        table(
            ["broker", "replicas", "preferred leader of", "receives", "sends"],
            [
                (
                    each.broker_id,
                    _change(each.replicas_before, each.replicas_after),
                    _change(each.leaders_before, each.leaders_after),
                    size_text(each.bytes_in),
                    size_text(each.bytes_out),
                )
                for each in made.brokers
            ],
        )
    )
    replicas = sum(len(move.arriving) for move in made.moves)
    click.echo(
        f"\n{len(made.moves)} of {made.partition_count} partitions change; {replicas} "
        f"{'replica is' if replicas == 1 else 'replicas are'} copied, {size_text(made.bytes_to_move)} in all"
    )


def _change(before: int, after: int) -> str:
    return str(before) if before == after else f"{before} → {after}"


def _numbers(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def parse_rate(text: str, option: str) -> int:
    """Bytes a second; 0 for `off`. Raises click.BadParameter."""
    if text == "off":
        return 0
    try:
        rate = parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}, or off", param_hint=option) from None
    if rate == 0:
        raise click.BadParameter("0 would stop all moves; `off` lifts the limit", param_hint=option)
    return rate
