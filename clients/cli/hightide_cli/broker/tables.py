"""Tables and documents about brokers: pure, places and figures in, rows and documents out."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from hightide_cli.command_line.sizes import size_text
from hightide_cli.documents.cluster import ServerDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.rendering import Cell, table

if TYPE_CHECKING:
    from hightide import ReplicaDescription, TopicDescription
    from hightide.servers import LogDirectory

    from hightide_cli.cluster.server_survey import Surveyed

_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class DirectoryRow:
    """One log directory, counted within its broker as replicas count them; `state` in words."""

    ONLINE: ClassVar[str] = "online"
    FAILED: ClassVar[str] = "failed"

    broker_id: int
    number: int | None
    path: str
    state: str
    free_bytes: int | None
    total_bytes: int | None
    message: str | None = None


def directory_rows(directories: "Iterable[LogDirectory]") -> list[DirectoryRow]:
    """Number the log directories. A broker that does not answer has one row that says so."""
    rows: list[DirectoryRow] = []
    counted: dict[int, int] = {}
    for each in directories:
        number = counted.get(each.broker_id, 0)
        counted[each.broker_id] = number + 1
        if each.error is not None:
            rows.append(DirectoryRow(each.broker_id, None, "", "no answer", None, None, str(each.error)))
            continue
        rows.append(
            DirectoryRow(
                each.broker_id,
                number,
                each.path,
                DirectoryRow.FAILED if each.failed else DirectoryRow.ONLINE,
                each.free_bytes if each.total_bytes else None,
                each.total_bytes or None,
            )
        )
    return rows


def directory_table(rows: Sequence[DirectoryRow]) -> str:
    """Log directories for people."""
    cells: list[tuple[Cell, ...]] = [
        (
            row.broker_id,
            row.number,
            row.path or None,
            row.state,
            None if row.free_bytes is None else size_text(row.free_bytes),
            None if row.total_bytes is None else size_text(row.total_bytes),
            _percent_used(row),
        )
        for row in rows
    ]
    return table(["broker", "directory", "path", "state", "free", "of", "used"], cells)


def _percent_used(row: DirectoryRow) -> str | None:
    if row.free_bytes is None or not row.total_bytes:
        return None
    return f"{100 * (row.total_bytes - row.free_bytes) / row.total_bytes:.0f} %"


def since_text(started_at_ms: int) -> str:
    """The time when a process began to serve, as people read it."""
    return f"{datetime.fromtimestamp(started_at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def server_pairs(said: "Surveyed | None") -> list[tuple[str, Cell]]:
    """The facts that a server reports about itself, one for each line."""
    if said is None:
        return []
    if said.description is None:
        return [("answers", f"no: {said.error}")]
    own = said.description
    granted_ms = own.zookeeper_session_timeout_ms
    return [
        ("version", own.version),
        ("since", since_text(own.started_at_ms)),
        ("external address", own.external_advertised or None),
        ("ZooKeeper session", f"{granted_ms} ms" if granted_ms else "none"),
        ("round trip", f"{own.round_trip_ms:.1f} ms"),
    ]


def server_document(said: "Surveyed | None") -> ServerDocument | None:
    """The same as JSON; None if the server does not answer."""
    if said is None or said.description is None:
        return None
    return view(ServerDocument, said.description)


def replica_rows(replicas: "Iterable[ReplicaDescription]", broker_id: int) -> list[dict[str, Cell]]:
    """The replicas of one broker, by topic and partition."""
    return [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "leads": each.is_leader,
            "log_start_offset": each.log_start_offset,
            "high_watermark": each.high_watermark,
            "log_end_offset": each.log_end_offset,
            "bytes": each.size_bytes,
            "log_directory": each.log_directory,
            "failed": each.storage_failed,
        }
        for each in replicas
        if each.broker_id == broker_id
    ]


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """The partitions that a broker leads: those that another broker could lead (`movable`), and the others
    (`stuck`)."""

    movable: tuple[tuple[str, int], ...]
    stuck: tuple[tuple[str, int], ...]

    def sentence(self, broker_id: int, led: int, remaining: int, dry_run: bool) -> str:
        """The sentence about what was done, or would be done."""
        moved = led - remaining if not dry_run else len(self.movable)
        verb = "would move" if dry_run else "moved"
        lines = [f"broker {broker_id}: {moved} of {led} leaders {verb} to other brokers"]
        if remaining:
            named = ", ".join(f"{topic}-{partition}" for topic, partition in self.stuck[:_NAMED_MAX])
            others = f" and {len(self.stuck) - _NAMED_MAX} more" if len(self.stuck) > _NAMED_MAX else ""
            which = f" ({named}{others})" if named else ""
            lines.append(
                f"{remaining} would be offline without it{which}: no other replica of theirs is in sync; "
                "see `hightide topic describe`"
            )
        elif not dry_run:
            lines.append("it can be stopped now; it leads nothing until it is started again")
        return "\n".join(lines)


def drain_plan(topics: "Iterable[TopicDescription]", broker_id: int, alive: Collection[int]) -> DrainPlan:
    """Look at the partitions that a broker leads, before it is drained."""
    movable: list[tuple[str, int]] = []
    stuck: list[tuple[str, int]] = []
    for topic in topics:
        for each in topic.partitions:
            if each.leader == broker_id:
                others = [replica for replica in each.isr if replica != broker_id and replica in alive]
                (movable if others else stuck).append((topic.name, each.partition))
    return DrainPlan(tuple(movable), tuple(stuck))
