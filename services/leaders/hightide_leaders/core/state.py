"""What one broker remembers: the replicas that it hosts, what is under way, and what admins asked of it.

Rules of this file: the state is changed in place by `machine.step` and the modules below it, and by nobody
else. What is remembered of a znode is a hint; a write that depends on it names the version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from hightide_runtime.timer_wheel import NeverDue, TimerWheel
from hightide_runtime.znodes.led_nodes import NO_VERSION

from hightide_leaders.core.effects import Effects, Outcome, Read, Write
from hightide_leaders.core.events import Requested
from hightide_leaders.core.values import (
    Decision,
    PartitionNodes,
    QueuedChange,
    Settings,
    TopicNodes,
    TopicPartition,
)
from hightide_leaders.core.writes import Enqueue, Operations


class Phase(Enum):
    """How far the broker is (V2 "Broker startup")."""

    NEW = auto()
    DRAINING = auto()
    """It reads what is in its queue from the time when it was not there."""
    READING = auto()
    """It reads which partitions are assigned to it, and starts their replicas."""
    SERVING = auto()
    """It is registered."""
    SUPERSEDED = auto()
    """A later life of this broker has begun somewhere; final."""


class Role(Enum):
    """What this broker's replica of a partition does."""

    WAITING = auto()
    """There is no leader. This replica may not lead, or leaves the race to the preferred one for a while."""
    FOLLOWING = auto()
    LEADING = auto()


@dataclass(slots=True)
class Hosted:
    """A replica of this broker."""

    name: TopicPartition
    topic_id: str
    nodes: PartitionNodes
    """As they were read last."""
    role: Role = Role.WAITING
    epoch: int = -1
    """The leader epoch of the last decision."""
    decided: Decision | None = None
    races_at_ms: int | None = None
    """When it tries to create the leader znode, while there is none."""
    abstains_until_ms: int = 0
    """Until then it leaves the race to others, since its core did not lead when it had won."""
    gave_way: tuple[int, int] = (-1, 0)
    """The leader epoch in which it gave way to the preferred replica, and until when it does not do so in a
    later one."""
    armed_ms: int = NeverDue
    """When the partition is read again without a watch that fires."""
    writing: int | None = None
    """The write about the partition that is under way: at most one."""
    watches_admins: bool = False
    """Whether a read of this leader has left a watch on what admins ask."""
    newest_version: int = NO_VERSION
    """The newest partition epoch of which it has heard; what was read may be older."""
    started_for: tuple[int, ...] | None = None
    """The RAR to whose new replicas this leader has sent start-replica."""


class Step(Enum):
    """How far a request is."""

    CHECKING = auto()
    """The topic is being read."""
    WRITING = auto()
    """Znodes and state changes are being written."""
    WAITING = auto()
    """The brokers are doing what is in their queues."""
    FINISHING = auto()
    """The last write is under way."""
    CLEANING = auto()
    """What a failed attempt left is being removed."""


@dataclass(slots=True)
class Request:
    """A request of an admin."""

    request_id: int
    topic: str
    asked: Requested
    step: Step = Step.CHECKING
    name: TopicPartition | None = None
    """The partition that it is about; None if it is about a topic."""
    topic_id: str = ""
    found: TopicNodes | None = None
    """The topic with the attempt whose starts are waited for."""
    sent: tuple[Enqueue, ...] = ()
    """What was put, or is to be put, into which broker's queue."""
    deadline_ms: int | None = None
    answers: Outcome | None = None
    """How it ends once it has cleaned up."""


@dataclass(slots=True)
class LeadersState:
    """The state of one broker in the leader-coordinated mode."""

    settings: Settings
    phase: Phase = Phase.NEW
    incarnation: int = -1
    session: int = 0
    hosted: dict[TopicPartition, Hosted] = field(default_factory=dict)
    leaving: set[TopicPartition] | None = None
    """While the broker stops: the partitions that it may still hand over; None while it does not stop."""
    stopping: int = 0
    """The request to stop."""
    starting: int | None = None
    """The read after which all replicas have started."""
    draining: dict[int, tuple[QueuedChange, ...]] = field(default_factory=dict)
    """By the read that tells what to do about them: state changes that are still in the queue."""
    reading: dict[int, frozenset[TopicPartition]] = field(default_factory=dict)
    """By the number of a read that is under way: the partitions that it is about."""
    writing: dict[int, TopicPartition | int | None] = field(default_factory=dict)
    """By the number of a write: the partition or the request that it is about; None for the own queue."""
    requests: dict[int, Request] = field(default_factory=dict)
    next_number: int = 1
    timers: TimerWheel[Hosted] = field(default_factory=TimerWheel)
    """When replicas are due."""

    @property
    def me(self) -> int:
        """This broker."""
        return self.settings.broker_id

    def number(self) -> int:
        """A number for a read or a write."""
        number, self.next_number = self.next_number, self.next_number + 1
        return number

    def read(self, *names: TopicPartition, written: bool = False) -> Read:
        """Read these partitions; a leader watches for admins too. `written`: after a write, by which this
        broker may have become one."""
        leads = False
        for name in names:
            hosted = self.hosted.get(name)
            if hosted is not None and (written or hosted.role is Role.LEADING):
                leads = hosted.watches_admins = True
        read = Read(names, self.number(), as_leader=leads)
        self.reading[read.read_id] = frozenset(names)
        return read

    def is_being_read(self, name: TopicPartition) -> bool:
        """Whether a read of this partition is under way. What it tells may be of before a watch fired."""
        return any(name in names for names in self.reading.values())

    def look_at(self, hosted: Hosted, at_ms: int) -> None:
        """Read the partition again at that time, unless it is read before."""
        hosted.armed_ms = NeverDue
        self.timers.arm(hosted, at_ms)

    def take_due(self, now_ms: int) -> list[TopicPartition]:
        """The replicas that are due now; they are due no more."""
        due = (hosted for hosted, _ in self.timers.take_due(now_ms))
        return [hosted.name for hosted in due if self.hosted.get(hosted.name) is hosted]

    def write_for(
        self,
        request: Request,
        step: Step,
        operations: Operations,
        rest: Sequence[Operations] = (),
        fence: Operations = (),
    ) -> Effects:
        """The write by which a request comes to that step."""
        request.step = step
        return (self.write(request.request_id, operations, tuple(rest), fence),)

    def write(
        self,
        about: TopicPartition | int | None,
        operations: Operations,
        rest: tuple[Operations, ...] = (),
        fence: Operations = (),
    ) -> Write:
        """Write about a partition, a request, or the own queue."""
        number = self.number()
        self.writing[number] = about
        if isinstance(about, TopicPartition) and about in self.hosted:
            self.hosted[about].writing = number
        return Write(number, operations, rest, fence)


def next_deadline_ms(state: LeadersState) -> int | None:
    """When the shell has to send Ticked; None while nothing waits for the time."""
    first = state.timers.next_due_ms()
    due = [] if first is None else [first]
    due += [request.deadline_ms for request in state.requests.values() if request.deadline_ms is not None]
    return min(due, default=None)
