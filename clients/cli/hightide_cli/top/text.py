"""The view of `hightide top`, as text and as a document. Pure."""

from typing import Final

from hightide_cli.cluster.health_report import is_led
from hightide_cli.command_line.sizes import size_text
from hightide_cli.documents.cluster import GroupPaceDocument, TrafficDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.rendering import Cell, Json, table
from hightide_cli.top.history import TopView, Traffic

_NAME_MAX: Final = 40


def top_text(view: TopView, rows_max: int) -> str:
    """The whole view of one look. `rows_max` is the limit of topics, and of groups and moves together."""
    cluster = view.cluster
    alive = sum(each.alive for each in cluster.brokers)
    controller = f"controller {cluster.controller_id} (epoch {cluster.controller_epoch})"
    if is_led(cluster):
        controller = "no controller"
    partitions = ", ".join(
        [
            f"{cluster.offline_partition_count} offline",
            f"{cluster.under_replicated_partition_count} under-replicated",
            f"{cluster.under_min_isr_partition_count} under min ISR",
            f"{cluster.not_preferred_leader_count} not led by the preferred",
            f"{cluster.reassignment_count} moving",
        ]
    )
    head = (
        f"cluster {cluster.cluster_id}  {controller}  brokers {alive} of {len(cluster.brokers)}\n"
        f"{cluster.topic_count} topics, {cluster.partition_count} partitions: {partitions}\n"
        f"in: {_rate(view.total.records_per_s)} records/s, {_bytes_rate(view.total)}; "
        f"{size_text(view.total.size_bytes)} on leaders"
    )
    parts = [head, _brokers(view), _topics(view, rows_max)]
    if view.groups:
        parts.append(_groups(view, rows_max))
    if view.moves:
        parts.append(_moves(view, rows_max))
    return "\n\n".join(parts)


def top_document(seen: TopView) -> dict[str, Json]:
    """The same for programs, all rows."""
    cluster = seen.cluster
    brokers = dict(seen.brokers)
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id,
        "topics": cluster.topic_count,
        "partitions": cluster.partition_count,
        "offline_partitions": cluster.offline_partition_count,
        "under_replicated_partitions": cluster.under_replicated_partition_count,
        "under_min_isr_partitions": cluster.under_min_isr_partition_count,
        "moves_under_way": cluster.reassignment_count,
        "total": view(TrafficDocument, seen.total),
        "brokers": [
            {
                "broker": each.broker_id,
                "alive": each.alive,
                "silent": each.broker_id in seen.silent_brokers,
                "leads": each.leader_count,
                "replicas": each.replica_count,
                **view(TrafficDocument, brokers.get(each.broker_id, Traffic())),
            }
            for each in cluster.brokers
        ],
        "by_topic": [
            {"topic": name, "partitions": own.partitions, **view(TrafficDocument, own)}
            for name, own in seen.topics
        ],
        "groups": [view(GroupPaceDocument, each) for each in seen.groups],
    }


def _brokers(view: TopView) -> str:
    traffic = dict(view.brokers)
    rows: list[tuple[Cell, ...]] = []
    for each in view.cluster.brokers:
        own = traffic.get(each.broker_id, Traffic())
        state = "dead" if not each.alive else "silent" if each.broker_id in view.silent_brokers else "alive"
        held = (each.leader_count, each.replica_count)
        rows.append((each.broker_id, state, *held, *_cells(own), size_text(own.size_bytes)))
    return table(["broker", "state", "leads", "replicas", "records/s", "bytes/s", "size"], rows)


def _topics(view: TopView, rows_max: int) -> str:
    shown = view.topics[:rows_max]
    rows: list[tuple[Cell, ...]] = [
        (_short(name), own.partitions, *_cells(own), size_text(own.size_bytes)) for name, own in shown
    ]
    text = table(["topic", "partitions", "records/s", "bytes/s", "size"], rows)
    return text + _more(len(view.topics) - len(shown), "topics")


def _groups(view: TopView, rows_max: int) -> str:
    shown = view.groups[:rows_max]
    rows: list[tuple[Cell, ...]] = [
        (_short(each.name), each.state, each.member_count, each.lag, _whole(each.records_per_s))
        for each in shown
    ]
    text = table(["group", "state", "members", "lag", "records/s"], rows)
    return text + _more(view.group_count - len(shown), "groups")


def _moves(view: TopView, rows_max: int) -> str:
    shown = view.moves[:rows_max]
    rows: list[tuple[Cell, ...]] = [
        (str(each.partition), each.original, each.target, each.isr) for each in shown
    ]
    return table(["moving", "from", "to", "isr"], rows) + _more(len(view.moves) - len(shown), "moves")


def _cells(own: Traffic) -> tuple[Cell, Cell]:
    rate = None if own.bytes_per_s is None else size_text(own.bytes_per_s)
    return None if own.records_per_s is None else round(own.records_per_s), rate


def _bytes_rate(own: Traffic) -> str:
    return "-" if own.bytes_per_s is None else f"{size_text(own.bytes_per_s)}/s"


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else f"{per_s:,.0f}"


def _whole(per_s: float | None) -> int | None:
    return None if per_s is None else round(per_s)


def _short(name: str) -> str:
    return name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…"


def _more(count: int, what: str) -> str:
    return f"\n… and {count} more {what}" if count > 0 else ""
