"""Answers of a cluster that is not there, for views and handlers: three brokers, two topics, and what a test
changes of them."""

from collections.abc import Iterable
from dataclasses import replace

from hightide import (
    BrokerDescription,
    ClusterDescription,
    GroupListing,
    PartitionDescription,
    Record,
    ReplicaDescription,
    ReplicaListing,
    TopicDescription,
    TopicPartition,
)
from hightide.aio import Admin
from hightide.errors import HightideError, UnknownTopicError
from hightide.servers import LogDirectory, ServerAddress
from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_cli.reassign.progress import Watched
from hightide_cli.top.history import Look, TopHistory
from hightide_console.access import Access, hosts_of
from hightide_console.console import Console
from hightide_console.door import ClusterDoor
from hightide_console.looks import ServerLook, Survey
from hightide_console.reading import RecordReading, RecordsRead
from hightide_console.settings import ConsoleSettings
from hightide_console.views.record_query import RecordQuery

ADDRESS = "127.0.0.1:9980"
ORDERS_ID, AUDIT_ID = b"o" * 16, b"a" * 16


def partition(
    number: int,
    leader: int | None = 1,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
) -> PartitionDescription:
    return PartitionDescription(number, leader, 4, replicas, isr)


def topic(
    name: str, *partitions: PartitionDescription, topic_id: bytes = b"", **configs: str
) -> TopicDescription:
    settings = {setting.replace("_", "."): value for setting, value in configs.items()}
    return TopicDescription(name, topic_id or name[:1].encode() * 16, partitions, settings)


def replica(
    name: str,
    number: int,
    broker: int,
    end: int,
    *,
    leads: bool = False,
    epoch: int = 4,
    mark: int | None = None,
) -> ReplicaDescription:
    place = TopicPartition(name, number)
    mark = end if mark is None else mark
    return ReplicaDescription(place, name[:1].encode() * 16, broker, leads, epoch, 0, end, mark, end * 100)


ORDERS = topic("orders", partition(0), partition(1, leader=2), min_insync_replicas="2")
AUDIT = topic("audit", partition(0, leader=3))
REPLICAS = ReplicaListing(
    (
        replica("orders", 0, 1, 500, leads=True),
        replica("orders", 0, 2, 500),
        replica("orders", 0, 3, 480),
        replica("orders", 1, 2, 90, leads=True),
        replica("audit", 0, 3, 7, leads=True),
    )
)
CLUSTER = ClusterDescription(
    cluster_id="c-1",
    controller_id=1,
    controller_address="127.0.0.1:9191",
    controller_epoch=7,
    brokers=tuple(BrokerDescription(each, f"127.0.0.1:909{each}", True, each, 1, 3) for each in (1, 2, 3)),
    topic_count=2,
    partition_count=3,
    offline_partition_count=0,
    under_replicated_partition_count=0,
    under_min_isr_partition_count=0,
    controllers=(ServerAddress(1, "127.0.0.1:9191"), ServerAddress(2, "127.0.0.1:9192")),
    coordinators=(ServerAddress(1, "127.0.0.1:9291"),),
)


def record(
    *,
    key: bytes = b"k-41",
    value: bytes = b'{"total": 12}',
    headers: tuple[tuple[str, bytes], ...] = (("source", b"shop"),),
    timestamp_us: int = 1_750_000_000_000_000,
) -> Record:
    return Record("orders", 0, 41, timestamp_us, key, value, headers)


RECORD = record()


def survey(
    *topics: TopicDescription,
    number: int = 1,
    replicas: ReplicaListing = REPLICAS,
    cluster: ClusterDescription = CLUSTER,
    coordinators: tuple[str | None, ...] = ("127.0.0.1:9291",),
    groups: tuple[GroupListing, ...] = (),
    directories: tuple[LogDirectory, ...] = (),
) -> Survey:
    """One survey of these topics, or of the two that there are."""
    return Survey(
        number,
        1_750_000_000_000 + number * 1000,
        topics or (AUDIT, ORDERS),
        replicas,
        directories,
        coordinators,
        groups,
        TopHistory().look(Look(float(number), cluster, replicas)),
        Watched().look(float(number), (), replicas.replicas),
    )


class CannedAdmin(Admin):
    """Answers what the test says, and nothing else."""

    def __init__(self) -> None:
        self.cluster: ClusterDescription | HightideError = CLUSTER
        self.topics = {"orders": ORDERS, "audit": AUDIT}

    async def describe_cluster(self) -> ClusterDescription:
        if isinstance(self.cluster, HightideError):
            raise self.cluster
        return self.cluster

    async def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        if isinstance(self.cluster, HightideError):
            raise self.cluster
        try:
            return list(self.topics.values()) if names is None else [self.topics[name] for name in names]
        except KeyError as missing:
            raise UnknownTopicError(f"there is no topic {missing.args[0]}") from missing

    async def close(self) -> None:
        pass


class CannedDoor(ClusterDoor):
    """The door to the canned cluster."""

    def __init__(self, canned: CannedAdmin | None = None) -> None:
        self.canned = canned = canned or CannedAdmin()
        self.arguments = ClientArguments(bootstrap="127.0.0.1:9091")
        self.pulse_admin = self.admin = canned
        self.surveys = 0
        self.servers: tuple[ServerLook, ...] = ()

    async def survey(self) -> Survey:
        if isinstance(self.canned.cluster, HightideError):
            raise self.canned.cluster
        self.surveys += 1
        return replace(survey(*self.canned.topics.values()), number=self.surveys)

    async def look_at_servers(self, cluster: ClusterDescription) -> tuple[ServerLook, ...]:
        return self.servers

    async def close(self) -> None:
        pass


class CannedReading(RecordReading):
    """Finds the records that a test puts there, whatever is asked for."""

    def __init__(self, *records: Record) -> None:
        self.records, self.queries = list(records), list[RecordQuery]()

    async def read(self, topic: str, query: RecordQuery) -> RecordsRead:
        self.queries.append(query)
        return RecordsRead(tuple(self.records), len(self.records), next_offsets={})

    async def one(self, topic: str, partition: int, offset: int) -> Record | None:
        return next((each for each in self.records if each.offset == offset), None)

    def close(self) -> None:
        pass


def canned_console(
    *records: Record, port: int = 9980, door: CannedDoor | None = None, allows_changes: bool = False
) -> Console:
    """A console of the canned cluster."""
    settings = ConsoleSettings("127.0.0.1", port, "127.0.0.1:9091", "what a test says", allows_changes)
    access = Access(hosts_of("127.0.0.1", port), port)
    return Console(settings, access, door or CannedDoor(), CannedReading(*records))
