"""The overview: is the cluster well, who does what in it, and what is wrong. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from hightide import ClusterDescription
from hightide.servers import LogDirectory
from hightide_cli.cluster.health_look import failed_directories
from hightide_cli.cluster.health_report import Holdings, is_led, problems_of
from hightide_cli.top.history import Traffic

from hightide_console.looks import Pulse, Reach, ServerLook, Survey
from hightide_console.settings import ROWS_MAX
from hightide_console.views import figures
from hightide_console.views.grid import CellState, state_of
from hightide_console.views.roles import RoleRow, role_rows, zookeeper_problem
from hightide_console.views.traffic import TrafficHistory

_PROBLEMS_MAX = 12


@dataclass(frozen=True, slots=True)
class Status:
    """The line at the top of every page. `tone` is ok, warning, bad or quiet; `since` is how long it
    lasts."""

    tone: str
    word: str
    sentence: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the overview. `tone` is "" for a number that is as it should be."""

    label: str
    value: str
    unit: str = ""
    tone: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class DiskRow:
    """One log directory of a broker. `used` is a share in per cent."""

    path: str
    used: int
    free: str
    is_failed: bool


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker. `load` is its share in per cent of what the cluster receives."""

    broker_id: int
    address: str
    state: str
    tone: str
    leads: int
    replicas: int
    records_in: str
    bytes_in: str
    bytes_out: str
    load: int
    size: str
    produce: str
    disks: tuple[DiskRow, ...]


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic in the list of them."""

    name: str
    partitions: int
    replicas: int
    unwell: int
    tone: str
    records_in: str
    bytes_in: str
    size: str


@dataclass(frozen=True, slots=True)
class UnwellRow:
    """One partition that is not as it should be, and why."""

    topic: str
    partition: int
    state: CellState
    leader: str
    isr: str
    missing: str


@dataclass(frozen=True, slots=True)
class Overview:
    """All of the page. `is_known` is False until the first answers."""

    status: Status
    is_known: bool
    figures: tuple[Figure, ...] = ()
    problems: tuple[str, ...] = ()
    more_problems: int = 0
    brokers: tuple[BrokerRow, ...] = ()
    roles: tuple[RoleRow, ...] = ()
    topics: tuple[TopicRow, ...] = ()
    more_topics: int = 0
    unwell: tuple[UnwellRow, ...] = ()
    more_unwell: int = 0
    serves_metrics: bool = False


def status_of(pulse: Pulse, survey: Survey | None, now_ms: int, servers: Sequence[ServerLook] = ()) -> Status:
    """The state of the cluster in a word."""
    since = figures.ago(pulse.since_ms, now_ms) if pulse.since_ms else ""
    match pulse.reach:
        case Reach.UNKNOWN:
            return Status("quiet", "Connecting")
        case Reach.DOWN:
            return Status("bad", "Down", pulse.sentence, since)
        case Reach.NO_CONTROLLER:
            led = pulse.cluster is not None and is_led(pulse.cluster)
            why = [zookeeper_problem(servers), pulse.sentence]
            sentence = ". ".join(each for each in why if each)
            return Status("bad", "No answer" if led else "No controller", sentence, since)
        case Reach.NOT_ALLOWED:
            return Status("warning", "In part", f"You see what you may see. {pulse.sentence}")
        case Reach.UP:
            problems = _problems(pulse.cluster, survey, servers)
            if not problems:
                return Status("ok", "Healthy")
            more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
            bad = pulse.cluster is not None and pulse.cluster.offline_partition_count > 0
            return Status("bad" if bad else "warning", "Not healthy", f"{problems[0]}{more}")


def overview_of(
    pulse: Pulse,
    survey: Survey | None,
    history: TrafficHistory,
    now_ms: int,
    servers: Sequence[ServerLook] = (),
) -> Overview:
    """The page, from the newest answers. A cluster that is down is shown as it was."""
    status, cluster = status_of(pulse, survey, now_ms, servers), pulse.cluster
    if cluster is None:
        return Overview(status, is_known=False)
    problems = _problems(cluster, survey, servers)
    unwell = _unwell(survey)
    topics = topic_rows(survey)
    return Overview(
        status,
        is_known=True,
        figures=_figures(cluster, survey, history),
        problems=tuple(problems[:_PROBLEMS_MAX]),
        more_problems=max(0, len(problems) - _PROBLEMS_MAX),
        brokers=_brokers(cluster, survey),
        roles=role_rows(cluster, survey, servers),
        topics=tuple(topics[:ROWS_MAX]),
        more_topics=max(0, len(topics) - ROWS_MAX),
        unwell=tuple(unwell[:ROWS_MAX]),
        more_unwell=max(0, len(unwell) - ROWS_MAX),
        serves_metrics=bool(survey and survey.figures),
    )


@lru_cache(maxsize=2)
def topic_rows(survey: Survey | None) -> list[TopicRow]:
    """Every topic, by name."""
    if survey is None:
        return []
    traffic = dict(survey.top.topics)
    rows = []
    for topic in survey.topics:
        own = traffic.get(topic.name, Traffic())
        states = [state_of(each) for each in topic.partitions]
        offline = states.count(CellState.OFFLINE)
        unwell = len(states) - states.count(CellState.OK)
        rows.append(
            TopicRow(
                topic.name,
                len(topic.partitions),
                topic.replication_factor,
                unwell,
                "bad" if offline else "warning" if unwell else "",
                figures.rate(own.records_per_s),
                figures.size_rate(own.bytes_per_s),
                figures.size_text(own.size_bytes),
            )
        )
    return sorted(rows, key=lambda each: each.name)


def _problems(
    cluster: ClusterDescription | None, survey: Survey | None, servers: Sequence[ServerLook]
) -> list[str]:
    if cluster is None:
        return []
    holdings = Holdings()
    if survey is not None:
        arriving = sum(
            set(each.move.original) <= set(each.move.isr)
            and not set(each.move.replicas) <= set(each.move.isr)
            for each in survey.moves.moves
        )
        alive = {each.broker_id for each in cluster.brokers if each.alive}
        silent = {broker: why for broker, why in survey.replicas.silent_brokers.items() if broker in alive}
        failed = failed_directories(survey.replicas, list(survey.directories))
        holdings = Holdings(failed, silent, arriving, survey.coordinators)
    zookeeper = zookeeper_problem(servers)
    return [*([zookeeper] if zookeeper else []), *problems_of(cluster, holdings)]


def _figures(
    cluster: ClusterDescription, survey: Survey | None, history: TrafficHistory
) -> tuple[Figure, ...]:
    alive = sum(each.alive for each in cluster.brokers)
    newest = history.points[-1] if history.points else None
    known, topics = len(cluster.brokers), figures.count(cluster.topic_count)
    min_isr, replicas = cluster.under_min_isr_partition_count, cluster.under_replicated_partition_count
    return (
        Figure("Brokers", f"{alive} of {known}", tone="" if alive == known else "bad"),
        Figure("Partitions", figures.count(cluster.partition_count), f"in {topics} topics"),
        _counted("Offline", cluster.offline_partition_count, "bad", "partitions without a leader"),
        _counted("Under min ISR", min_isr, "bad", "these partitions refuse acks=all"),
        _counted("Under-replicated", replicas, "warning", "a replica is not in sync"),
        _counted("Moving", cluster.reassignment_count, "info", "partitions that are being moved"),
        Figure("Records in", figures.rate(newest.records_in if newest else None), "/s"),
        Figure("Bytes in", figures.size_rate(newest.bytes_in if newest else None)),
        Figure("Bytes out", figures.size_rate(newest.bytes_out if newest else None)),
        Figure("Produce", figures.took(newest.produce_ms if newest else None), title="mean, slowest broker"),
        Figure("On leaders", figures.size_text(survey.top.total.size_bytes) if survey else figures.UNKNOWN),
    )


def _counted(label: str, number: int, tone: str, title: str) -> Figure:
    return Figure(label, figures.count(number), tone=tone if number else "", title=title)


def _brokers(cluster: ClusterDescription, survey: Survey | None) -> tuple[BrokerRow, ...]:
    traffic = dict(survey.top.brokers) if survey else {}
    silent = survey.replicas.silent_brokers if survey else {}
    total = sum(each.bytes_per_s or 0.0 for each in traffic.values())
    rows = []
    for each in cluster.brokers:
        own = traffic.get(each.broker_id, Traffic())
        scraped = survey.figures.get(each.address or "") if survey else None
        state = "dead" if not each.alive else "silent" if each.broker_id in silent else "alive"
        latencies = scraped.latencies_ms if scraped else {}
        produce = next((ms for name, ms in latencies.items() if name.rpartition("/")[2] == "Produce"), None)
        rows.append(
            BrokerRow(
                each.broker_id,
                each.address or "not registered",
                state,
                {"dead": "bad", "silent": "warning"}.get(state, "ok"),
                each.leader_count,
                each.replica_count,
                figures.rate(own.records_per_s if each.alive else None),
                figures.size_rate(own.bytes_per_s if each.alive else None),
                figures.size_rate(scraped.sent_bytes if scraped else None),
                figures.share(own.bytes_per_s or 0.0, total),
                figures.size_text(own.size_bytes),
                figures.took(produce),
                _disks(each.broker_id, survey.directories if survey else ()),
            )
        )
    return tuple(rows)


def _disks(broker_id: int, directories: Sequence[LogDirectory]) -> tuple[DiskRow, ...]:
    return tuple(
        DiskRow(
            each.path,
            figures.share(each.total_bytes - each.free_bytes, each.total_bytes),
            f"{figures.size_text(each.free_bytes)} free",
            each.failed,
        )
        for each in directories
        if each.broker_id == broker_id and each.path
    )


@lru_cache(maxsize=2)
def _unwell(survey: Survey | None) -> list[UnwellRow]:
    if survey is None:
        return []
    order = list(CellState)
    rows = []
    for topic in survey.topics:
        said = topic.configs.get("min.insync.replicas", "1")
        least = int(said) if said.isdigit() else 1
        for each in topic.partitions:
            state = state_of(each, least)
            if state is not CellState.OK:
                missing = ", ".join(str(broker) for broker in each.replicas if broker not in each.isr)
                leader = "none" if each.leader is None else str(each.leader)
                isr = ", ".join(map(str, each.isr))
                rows.append(UnwellRow(topic.name, each.partition, state, leader, isr, missing))
    return sorted(rows, key=lambda each: (order.index(each.state), each.topic, each.partition))
