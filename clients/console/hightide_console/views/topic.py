"""One topic: its partitions, where each replica is, and its settings with the source of each. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from hightide import PartitionDescription, ReplicaDescription, TopicDescription
from hightide_cli.config.topic_settings import ORIGIN_TOPIC, settings_in_use

from hightide_console.looks import Survey
from hightide_console.settings import PARTITIONS_AT_ONCE_MAX, ROWS_MAX
from hightide_console.views import figures
from hightide_console.views.grid import CellState, state_of


@dataclass(frozen=True, slots=True)
class ReplicaCell:
    """One replica of a partition. `lag` is how many records it lacks, as text, "" if none or not known."""

    broker: int
    is_leader: bool
    is_preferred: bool
    in_sync: bool
    lag: str
    size: str
    is_failed: bool

    @property
    def title(self) -> str:
        """The replica in a sentence, for those who point at it or hear the page."""
        role = "leader" if self.is_leader else "in sync" if self.in_sync else "not in sync"
        parts = [f"broker {self.broker}", role, *(["preferred leader"] if self.is_preferred else [])]
        parts += [f"{self.lag} records behind"] if self.lag else []
        parts += ["its log directory has failed"] if self.is_failed else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition."""

    partition: int
    state: CellState
    leader: str
    leader_epoch: int
    replicas: tuple[ReplicaCell, ...]
    start: str
    end: str
    records: str
    size: str


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting, and its source."""

    name: str
    value: str
    default: str
    origin: str
    meaning: str
    is_own: bool


@dataclass(frozen=True, slots=True)
class TopicView:
    """All of the page but the records. Partitions `first` to `last` are shown; there are `count`."""

    name: str
    topic_id: str
    count: int
    replication_factor: int
    records_in: str
    bytes_in: str
    size: str
    unwell: int
    partitions: tuple[PartitionRow, ...]
    page: int
    page_count: int
    settings: tuple[SettingRow, ...]
    can_read_all: bool


def topic_view(topic: TopicDescription, survey: Survey | None, page: int = 1) -> TopicView:
    """The page of one topic, as the controller has just described it; sizes and offsets are those of the last
    survey."""
    held: dict[int, list[ReplicaDescription]] = {}
    if survey is not None:
        for each in survey.replicas.replicas:
            if each.partition.topic == topic.name and each.topic_id == topic.topic_id:
                held.setdefault(each.partition.partition, []).append(each)
    page_count = max(1, -(-len(topic.partitions) // ROWS_MAX))
    page = min(max(1, page), page_count)
    shown = topic.partitions[(page - 1) * ROWS_MAX : page * ROWS_MAX]
    own = dict(survey.top.topics).get(topic.name) if survey is not None else None
    said = topic.configs.get("min.insync.replicas", "1")
    least = int(said) if said.isdigit() else 1
    return TopicView(
        topic.name,
        topic.topic_id.hex(),
        len(topic.partitions),
        topic.replication_factor,
        figures.rate(own.records_per_s if own else None),
        figures.size_rate(own.bytes_per_s if own else None),
        figures.size_text(own.size_bytes) if own else figures.UNKNOWN,
        sum(state_of(each, least) is not CellState.OK for each in topic.partitions),
        tuple(_row(each, held.get(each.partition, ()), least) for each in shown),
        page,
        page_count,
        tuple(
            SettingRow(
                each.name, each.value, each.default, each.origin, each.meaning, each.origin == ORIGIN_TOPIC
            )
            for each in settings_in_use(topic.configs)
        ),
        len(topic.partitions) <= PARTITIONS_AT_ONCE_MAX,
    )


def _row(part: PartitionDescription, held: Sequence[ReplicaDescription], least: int) -> PartitionRow:
    by_broker = {each.broker_id: each for each in held}
    leader = by_broker.get(part.leader) if part.leader is not None else None
    end = leader.log_end_offset if leader is not None else None
    cells = []
    for broker in part.replicas:
        own = by_broker.get(broker)
        lag = end - own.log_end_offset if own is not None and end is not None else 0
        cells.append(
            ReplicaCell(
                broker,
                broker == part.leader,
                broker == part.replicas[0],
                broker in part.isr,
                figures.count(lag) if lag > 0 else "",
                figures.size_text(own.size_bytes) if own is not None else figures.UNKNOWN,
                own is not None and own.storage_failed,
            )
        )
    start, mark = (leader.log_start_offset, leader.high_watermark) if leader is not None else (None, None)
    return PartitionRow(
        part.partition,
        state_of(part, least),
        "none" if part.leader is None else str(part.leader),
        part.leader_epoch,
        tuple(cells),
        figures.count(start),
        figures.count(mark),
        figures.count(None if start is None or mark is None else mark - start),
        figures.size_text(leader.size_bytes) if leader is not None else figures.UNKNOWN,
    )
