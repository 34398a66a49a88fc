"""The health of a cluster: sentences, figures and a document. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hightide_cli.command_line.sizes import size_text
from hightide_cli.documents.cluster import ComplaintDocument, FailedDirectoryDocument, HealthDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.rendering import printable, properties, table

if TYPE_CHECKING:
    from hightide import ClusterDescription

_NO_CONTROLLER = (
    "no controller is active, so that no leader is elected and no topic changes; the rest is as brokers last "
    "heard of it: start `hightide-controller`, or look into the log of the one that should run"
)


@dataclass(frozen=True, slots=True)
class Holdings:
    """The brokers' reports about themselves. They name failed log directories, with the number of their
    replicas, by broker and directory, and the brokers that do not answer, with the reason. `arriving` are
    partitions that count as under-replicated only because a move has not brought a new replica into sync yet
    (KIP-352). `coordinators` has the active one of each shard of the consumer groups; it is empty if there
    never was one, since a cluster may do without. `silent_coordinators` are those that do not answer, with
    the reason: until a dead one's session ends, nothing else shows its death."""

    failed_directories: dict[tuple[int, int], int] = field(default_factory=dict)
    silent_brokers: dict[int, str] = field(default_factory=dict)
    arriving: int = 0
    coordinators: tuple[str | None, ...] = ()
    silent_coordinators: dict[str, str] = field(default_factory=dict)


def health_text(described: "ClusterDescription", holdings: Holdings) -> str:
    """All of one look, for people."""
    problems = problems_of(described, holdings)
    parts = [
        "\n".join([f"not healthy: {printable(problem)}" for problem in problems]) or "healthy",
        properties(_figures(described, holdings)),
    ]
    if described.complaints:
        rows = [(each.subject, each.message) for each in described.complaints]
        parts.append(table(["subject", "complaint"], rows))
    return "\n\n".join(parts)


def has_controller(described: "ClusterDescription") -> bool:
    """Whether a controller described the cluster, rather than a broker that was asked in its place."""
    return described.controller_id >= 0 and not is_led(described)


def is_led(described: "ClusterDescription") -> bool:
    """Whether leaders decide for themselves, so that there is no controller to miss."""
    return described.coordination == "leaders"


def controller_text(described: "ClusterDescription") -> str:
    """The active controller, as text."""
    if is_led(described):
        return "none: leaders decide for themselves"
    named = f"{described.controller_id} at {described.controller_address}"
    return named if has_controller(described) else "none"


def problems_of(described: "ClusterDescription", holdings: Holdings) -> list[str]:
    """The problems, one sentence each, the worst first."""
    counted = [
        (described.offline_partition_count, "without a leader"),
        (described.under_min_isr_partition_count, "with fewer replicas in sync than min.insync.replicas"),
        (_under_replicated(described, holdings), "with a replica that is not in sync"),
    ]
    problems = [] if has_controller(described) or is_led(described) else [_NO_CONTROLLER]
    problems += [
        f"{count} of {described.partition_count} partitions {what}" for count, what in counted if count
    ]
    problems += [f"broker {each.broker_id} is not alive" for each in described.brokers if not each.alive]
    problems += [
        f"broker {broker} is registered and does not answer: {reason}"
        for broker, reason in sorted(holdings.silent_brokers.items())
    ]
    problems += _without_coordinator(holdings.coordinators)
    problems += [
        f"the coordinator at {address} does not answer, so that its groups rest: {reason}"
        for address, reason in sorted(holdings.silent_coordinators.items())
    ]
    problems += [
        f"log directory {directory} of broker {broker} has failed, with {count} replica{'s' * (count != 1)}: "
        "check its disk, then start the broker again"
        for (broker, directory), count in sorted(holdings.failed_directories.items())
    ]
    count = len(described.complaints)
    who = f"broker {described.controller_id}" if is_led(described) else "the controller"
    return problems + ([f"{who} complains of {count} thing{'s' * (count != 1)}"] if count else [])


def health_document(described: "ClusterDescription", holdings: Holdings) -> HealthDocument:
    """The same as JSON."""
    problems = problems_of(described, holdings)
    failed: list[FailedDirectoryDocument] = [
        {"broker": broker, "log_directory": directory, "replicas": count}
        for (broker, directory), count in sorted(holdings.failed_directories.items())
    ]
    return {
        "healthy": not problems,
        "problems": problems,
        "coordination": described.coordination,
        "controller": described.controller_id if has_controller(described) else None,
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
        "silent_coordinators": sorted(holdings.silent_coordinators),
        "throttle_bytes_per_s": described.reassignment_throttle_bytes_per_s,
        "failed_log_directories": failed,
        "complaints": [view(ComplaintDocument, each) for each in described.complaints],
    }


def _figures(described: "ClusterDescription", holdings: Holdings) -> list[tuple[str, str | int]]:
    alive = sum(each.alive for each in described.brokers)
    throttle = described.reassignment_throttle_bytes_per_s
    speed = f", at most {size_text(throttle)}/s from each broker" if throttle else ""
    return [
        ("controller", controller_text(described)),
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
    """The active coordinators of the consumer groups, as text."""
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
