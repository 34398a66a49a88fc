"""What was learnt of a cluster at one moment: the answers of the SDK, unchanged. Views are made of these."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from hightide import ClusterDescription, GroupListing, ReplicaListing, TopicDescription
from hightide.servers import LogDirectory
from hightide_cli.reassign.progress import Progress
from hightide_cli.top.history import TopView

from hightide_console.scrapes import ServerFigures


class Reach(Enum):
    """Whether the cluster can be asked. `NOT_ALLOWED` means that it answers, and that this person may see a
    part of it only; `NO_CONTROLLER` that brokers answer, and that what the pages show is what was known
    before."""

    UNKNOWN = "unknown"
    UP = "up"
    NOT_ALLOWED = "not allowed"
    NO_CONTROLLER = "no controller"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Pulse:
    """One short question, several times a second's worth: does the cluster answer, and how is it? `since_ms`
    is when the reach last changed. `sentence` says why it cannot be asked."""

    reach: Reach = Reach.UNKNOWN
    at_ms: int = 0
    since_ms: int = 0
    sentence: str = ""
    cluster: ClusterDescription | None = None


@dataclass(frozen=True, slots=True)
class ServerLook:
    """One process, as it told of itself: `kind` is "broker", "controller" or "coordinator", `name` as people
    call it, "broker 2". `session_timeout_ms` is that of its ZooKeeper session: 0 if it has
    none, None if the process does not answer. `zookeeper` is the address that it was given, and
    `metrics_url` where it serves metrics, "" if nowhere."""

    kind: str
    name: str
    address: str
    session_timeout_ms: int | None
    zookeeper: str = ""
    metrics_url: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """One long question: every topic, replica, directory, group and move. On a large cluster it takes a
    second of a core, so it comes as often as a tenth of a core allows."""

    number: int
    at_ms: int
    topics: tuple[TopicDescription, ...]
    replicas: ReplicaListing
    directories: tuple[LogDirectory, ...]
    coordinators: tuple[str | None, ...]
    groups: tuple[GroupListing, ...]
    top: TopView
    moves: Progress
    figures: Mapping[str, ServerFigures] = field(default_factory=dict)
    """By address of the server; only of those that serve metrics."""
