"""What travels between the nodes of a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass

from hightide_broker.core.fetch_session import SessionFault, SessionRequest
from hightide_broker.core.refusals import Refusal
from hightide_controller.core.effects import Decision
from sim.zookeeper import Operation, Stored

ZOOKEEPER = 0
KEY = "tide-0"

Record = tuple[int, int]
"""(leader epoch, value): one record, and one batch. Its offset is its place in the log."""
GONE: Record = (-1, 0)
"""Holds the place of a record below the log start that is not on this disk."""


@dataclass(frozen=True)
class Fetch:
    """ReplicaFetch."""

    replica_id: int
    broker_epoch: int
    request: SessionRequest[str]
    leader_epoch: int
    """The epoch of the position named, for the follower to recognise a refusal by."""
    incarnation: int = 0


@dataclass(frozen=True)
class FetchAnswer:
    session_id: int
    fault: SessionFault | None = None
    refusal: Refusal | None = None
    found: bool = False
    """Whether the partition is in the answer."""
    leader_epoch: int = -1
    high_watermark: int = 0
    base_offset: int = 0
    records: tuple[Record, ...] = ()
    log_start_offset: int = 0


@dataclass(frozen=True)
class AskEpoch:
    """EndOffsetForLeaderEpoch."""

    leader_epoch: int
    epoch: int


@dataclass(frozen=True)
class EpochAnswer:
    leader_epoch: int
    refusal: Refusal | None = None
    epoch: int = -1
    end_offset: int = 0


@dataclass(frozen=True)
class Command:
    """LeaderAndISR, with the stamp of the controller."""

    controller_epoch: int
    broker_epoch: int
    decisions: tuple[Decision, ...]
    sequence: int


@dataclass(frozen=True)
class CommandAnswer:
    refusal: Refusal | None


@dataclass(frozen=True)
class Write:
    """A multi at ZooKeeper."""

    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class WriteAnswer:
    refused: Operation | None


@dataclass(frozen=True)
class Look:
    """Read everything at ZooKeeper in one multiRead, and watch these paths."""

    watch: tuple[str, ...] = ()


@dataclass(frozen=True)
class View:
    """What ZooKeeper held at one moment."""

    controller: tuple[int, int] | None
    """(controller id, its epoch) of /controller."""
    controller_session: int
    controller_epoch: int
    controller_epoch_version: int
    brokers: tuple[tuple[int, int], ...]
    """(broker id, broker epoch) of each registration."""
    sessions: tuple[tuple[int, int], ...]
    """(broker id, session that holds its registration)."""
    incarnations: tuple[tuple[int, int], ...]
    state: tuple[Stored, int, int] | None


@dataclass(frozen=True)
class Noticed:
    """A watch fired."""

    path: str


@dataclass(frozen=True)
class SessionEnded:
    """ZooKeeper expired the node's session."""

    session: int


@dataclass(frozen=True)
class ProcessDied:
    """The failure detector: that life of a broker is over."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True)
class CallFailed:
    """The request or its answer was lost: nobody knows whether it was obeyed."""


Body = (
    Fetch
    | FetchAnswer
    | AskEpoch
    | EpochAnswer
    | Command
    | CommandAnswer
    | Write
    | WriteAnswer
    | Look
    | View
    | Noticed
    | SessionEnded
    | ProcessDied
    | CallFailed
)

REQUESTS = (Fetch, AskEpoch, Command, Write, Look)


@dataclass(frozen=True)
class Envelope:
    """One message under way. `call` pairs an answer with its request; 0 where there is nothing to pair."""

    source: int
    target: int
    call: int
    body: Body

    def __str__(self) -> str:
        return f"{self.source}->{self.target} #{self.call} {self.body}"
