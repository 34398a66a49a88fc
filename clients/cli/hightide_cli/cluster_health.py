"""`hightide cluster health`: whether all is well, and what is not."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from hightide_cli.options import common_options
from hightide_cli.output import emit, wants_document
from hightide_cli.rendering import Json, properties, table
from hightide_cli.sizes import size_text

if TYPE_CHECKING:
    from hightide import Admin, ClusterDescription

EXIT_NOT_HEALTHY = 1


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the brokers say of themselves: failed log directories with how many replicas live there, by broker
    and directory, and who does not answer, and why. `arriving`: partitions that count as under-replicated
    only because a replica that is being moved to is not there yet (KIP-352). `coordinators`: the active one
    of each shard of the consumer groups, none where there never was one: a cluster may do without."""

    failed_directories: dict[tuple[int, int], int] = field(default_factory=dict)
    silent_brokers: dict[int, str] = field(default_factory=dict)
    arriving: int = 0
    coordinators: tuple[str | None, ...] = ()


@common_options
@click.command()
@click.pass_context
def health(ctx: click.Context) -> None:
    """Say whether all is well; exit code 0 if so, 1 if not."""
    from hightide_cli.connections import open_admin

    with open_admin(ctx) as admin:
        described = admin.describe_cluster()
        holdings = _holdings(admin, _arriving(admin) if described.reassignment_count else 0)
    problems = problems_of(described, holdings)
    if wants_document(ctx):
        emit(ctx, health_document(described, holdings))
    else:
        click.echo("\n".join([f"not healthy: {problem}" for problem in problems]) or "healthy")
        click.echo()
        click.echo(properties(_figures(described, holdings)))
        if described.complaints:
            click.echo()
            rows = [(each.subject, each.message) for each in described.complaints]
            click.echo(table(["subject", "complaint"], rows))
    if problems:
        ctx.exit(EXIT_NOT_HEALTHY)


def problems_of(described: "ClusterDescription", holdings: Holdings) -> list[str]:
    """What is not well, one sentence each, the worst first."""
    counted = [
        (described.offline_partition_count, "without a leader"),
        (described.under_min_isr_partition_count, "with fewer replicas in sync than min.insync.replicas"),
        (_under_replicated(described, holdings), "with a replica that is not in sync"),
    ]
    problems = [
        f"{count} of {described.partition_count} partitions {what}" for count, what in counted if count
    ]
    problems += [f"broker {each.broker_id} is not alive" for each in described.brokers if not each.alive]
    problems += [
        f"broker {broker} is registered and does not answer: {reason}"
        for broker, reason in sorted(holdings.silent_brokers.items())
    ]
    problems += _without_coordinator(holdings.coordinators)
    problems += [
        f"log directory {directory} of broker {broker} has failed, with {count} replica{'s' * (count != 1)}: "
        "check its disk, then start the broker again"
        for (broker, directory), count in sorted(holdings.failed_directories.items())
    ]
    count = len(described.complaints)
    return problems + ([f"the controller complains of {count} thing{'s' * (count != 1)}"] if count else [])


def health_document(described: "ClusterDescription", holdings: Holdings) -> dict[str, Json]:
    """The same as JSON."""
    problems = problems_of(described, holdings)
    complaints: list[Json] = [
        {"subject": each.subject, "message": each.message} for each in described.complaints
    ]
    failed: list[Json] = [
        {"broker": broker, "log_directory": directory, "replicas": count}
        for (broker, directory), count in sorted(holdings.failed_directories.items())
    ]
    return {
        "healthy": not problems,
        "problems": problems,
        "brokers": len(described.brokers),
        "dead_brokers": [each.broker_id for each in described.brokers if not each.alive],
        "silent_brokers": sorted(holdings.silent_brokers),
        "topics": described.topic_count,
        "partitions": described.partition_count,
        "offline_partitions": described.offline_partition_count,
        "under_replicated_partitions": _under_replicated(described, holdings),
        "under_min_isr_partitions": described.under_min_isr_partition_count,
        "not_preferred_leaders": described.not_preferred_leader_count,
        "moves_under_way": described.reassignment_count,
        "coordinators": holdings.coordinators,
        "throttle_bytes_per_s": described.reassignment_throttle_bytes_per_s,
        "failed_log_directories": failed,
        "complaints": complaints,
    }


def _figures(described: "ClusterDescription", holdings: Holdings) -> list[tuple[str, str | int]]:
    alive = sum(each.alive for each in described.brokers)
    throttle = described.reassignment_throttle_bytes_per_s
    speed = f", at most {size_text(throttle)}/s from each broker" if throttle else ""
    return [
        ("brokers alive", f"{alive} of {len(described.brokers)}"),
        ("partitions", described.partition_count),
        ("  offline", described.offline_partition_count),
        ("  under-replicated", _under_replicated(described, holdings)),
        ("  under min ISR", described.under_min_isr_partition_count),
        ("  not led by the preferred", described.not_preferred_leader_count),
        ("moves under way", f"{described.reassignment_count}{speed}"),
        ("coordinators", coordinators_text(holdings.coordinators)),
    ]


def _without_coordinator(coordinators: Sequence[str | None]) -> list[str]:
    missing = [str(shard) for shard, address in enumerate(coordinators) if address is None]
    if not missing:
        return []
    which = f" for shard{'s' * (len(missing) > 1)} {', '.join(missing)} of {len(coordinators)}"
    return [
        f"no consumer coordinator is active{which if len(coordinators) > 1 else ''}, so that consumer groups "
        "rest: start `hightide-coordinator`, or look into the log of the one that should run"
    ]


def coordinators_text(coordinators: Sequence[str | None]) -> str:
    """Who coordinates the consumer groups."""
    if not coordinators:
        return "none was ever started"
    missing = [shard for shard, address in enumerate(coordinators) if address is None]
    if len(missing) == len(coordinators):
        return "none: consumer groups rest"
    named = [f"{address}" for address in dict.fromkeys(coordinators) if address is not None]
    without = f"; none for shard {', '.join(map(str, missing))}" if missing else ""
    return f"{', '.join(named)}{without}"


def _under_replicated(described: "ClusterDescription", holdings: Holdings) -> int:
    return max(0, described.under_replicated_partition_count - holdings.arriving)


def _arriving(admin: "Admin") -> int:
    moves = admin.list_reassignments().reassignments
    return sum(
        set(move.original) <= set(move.isr) and not set(move.replicas) <= set(move.isr) for move in moves
    )


def _holdings(admin: "Admin", arriving: int) -> Holdings:
    from hightide.errors import HightideError

    try:
        listing = admin.describe_replicas()
    except HightideError as error:
        # The controller has answered; that no broker does is what is to be told.
        alive = [each.broker_id for each in admin.describe_cluster().brokers if each.alive]
        return Holdings(silent_brokers=dict.fromkeys(alive, str(error)), arriving=arriving)
    coordinators = admin.coordinators()
    failed = Counter((each.broker_id, each.log_directory) for each in listing.replicas if each.storage_failed)
    return Holdings(dict(failed), dict(listing.silent_brokers), arriving, coordinators)
