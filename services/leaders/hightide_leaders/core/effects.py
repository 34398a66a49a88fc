"""What the shell must do after a step.

Rules of this file. The effects of one step are performed in the order given. Stops, openings and decisions
come before the write that removes their state changes from the queue: whoever dies in between does them
again. Reads and writes go to ZooKeeper in this order, and nothing waits for their answers, which come back
as events.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from itertools import chain
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hightide_leaders.core.values import Decision, PartitionNodes, TopicPartition
from hightide_leaders.core.writes import Operations


class Read(Struct, frozen=True):
    """Read the znodes of partitions and the registrations in one multiRead, and leave a watch on each
    leader znode; on the AR of a partition that has none; and on RAR where `as_leader`. Answered by
    PartitionsRead.
    """

    names: tuple[TopicPartition, ...]
    read_id: int
    as_leader: bool = False


class ReadAssignments(Struct, frozen=True):
    """Read which partitions name this broker in AR or RAR. Answered by AssignmentsRead."""


class ReadQueue(Struct, frozen=True):
    """List and read this broker's own queue, and leave a watch on its children. Answered by QueueRead."""


class ReadTopic(Struct, frozen=True):
    """Read a topic, for a request; with `partition`, nothing of the others. Answered by TopicRead."""

    request_id: int
    topic: str
    partition: int | None = None


class ReadQueues(Struct, frozen=True):
    """Read the queues of brokers for a request, leave a watch on the children of each, and read all again
    when one fires. Answered by QueuesRead each time."""

    request_id: int
    broker_ids: tuple[int, ...]


class Write(Struct, frozen=True):
    """Make one multi of the operations and the rest; if a queue has no place for what they add to it, as
    `queues.make_place` says. If that is too much for one, groups of the rest go into others, which begin with
    the fence. Answered by WriteEnded."""

    write_id: int
    operations: Operations
    rest: tuple[Operations, ...] = ()
    fence: Operations = ()

    @property
    def everything(self) -> Operations:
        """All of it but for the fence."""
        return (*self.operations, *chain.from_iterable(self.rest))

    def edited(self, edit: Callable[[Operations], Operations]) -> Write:
        """The same with other operations."""
        return replace(self, operations=edit(self.operations), rest=tuple(map(edit, self.rest)))


class Register(Struct, frozen=True):
    """Create /brokers/ids/[broker_id]: this broker's replicas have started."""


class OpenReplica(Struct, frozen=True):
    """Open the log of this replica, or create it (V2 startReplica); a log of another topic id, or with
    records of before the first epoch, is put aside."""

    name: TopicPartition
    nodes: PartitionNodes
    """If nobody led before, there is no log of it anywhere. Otherwise they say who counts on its records."""


class Decide(Struct, frozen=True):
    """Hand the decision to the replica's core (V2 becomeLeader, becomeFollower)."""

    name: TopicPartition
    decision: Decision


class CloseReplica(Struct, frozen=True):
    """Stop the replica of this topic id, and put its log into quarantine."""

    name: TopicPartition
    topic_id: str


class StepAside(Struct, frozen=True):
    """Another process has begun a later life of this broker: stop everything, and end."""


class Outcome(Enum):
    """How a request of an admin ended."""

    DONE = auto()
    TOPIC_ALREADY_EXISTS = auto()
    TOPIC_BEING_CREATED = auto()
    UNKNOWN_TOPIC = auto()
    UNKNOWN_PARTITION = auto()
    TOPIC_BEING_DELETED = auto()
    UNREADABLE = auto()
    """A partition that would go has a znode that nobody can read."""
    TOPIC_CHANGED = auto()
    """It has another number of partitions than the request expects."""
    REASSIGNMENT_IN_PROGRESS = auto()
    """A partition that would go is being moved."""
    INVALID_ASSIGNMENT = auto()
    REPLICA_NOT_ONLINE = auto()
    NO_REASSIGNMENT = auto()
    ELECTION_NOT_NEEDED = auto()
    ELIGIBLE_LEADERS_NOT_AVAILABLE = auto()
    """No replica that may lead then is alive."""
    FOLLOWER_STATE_CHANGE_QUEUE_FULL = auto()
    TIMED_OUT = auto()
    """A broker that is alive did not do what is in its queue. It still may."""


class Answer(Struct, frozen=True):
    """Answer a request."""

    request_id: int
    outcome: Outcome


Effect: TypeAlias = (
    Read
    | ReadAssignments
    | ReadQueue
    | ReadTopic
    | ReadQueues
    | Write
    | Register
    | OpenReplica
    | Decide
    | CloseReplica
    | StepAside
    | Answer
)
Effects: TypeAlias = tuple[Effect, ...]
