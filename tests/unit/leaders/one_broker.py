"""One broker's core, driven by hand: what was read goes in, effects come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from hightide_leaders.core import effects as fx
from hightide_leaders.core import events as ev
from hightide_leaders.core import writes as wr
from hightide_leaders.core.effects import Effect, Effects
from hightide_leaders.core.machine import step
from hightide_leaders.core.state import Hosted, LeadersState
from hightide_leaders.core.values import (
    ChangeKind,
    Configs,
    Lives,
    PartitionNodes,
    QueuedChange,
    Settings,
    StateChange,
    TopicNodes,
    TopicPartition,
)
from hightide_leaders.core.writes import Operations
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode, TopicNode
from hightide_runtime.znodes.paths import topic_id_path, topic_path

NAME = TopicPartition("tide", 0)
ID, LATER_ID = "a" * 32, "b" * 32
KEY = bytes.fromhex(ID)
SESSION = 70
ALL = Lives(((1, 0), (2, 0), (3, 0)))
SETTINGS = Settings(1, queue_max=4)

E = TypeVar("E", bound=Effect)


class OneBroker:
    """Broker 1 in its life 0, at a time that the test moves."""

    def __init__(self, broker_id: int = 1) -> None:
        self.state = LeadersState(Settings(broker_id, queue_max=SETTINGS.queue_max))
        self.now_ms = 0

    def hear(self, event: ev.Event) -> Effects:
        """One step."""
        return step(self.state, event, self.now_ms)

    def start(self, *names: TopicPartition) -> Effects:
        """A start with an empty queue and these partitions assigned; what comes of the last step."""
        self.hear(ev.Started(0, SESSION))
        self.hear(ev.QueueRead(()))
        return self.hear(ev.AssignmentsRead(names))

    def serve(self, nodes: PartitionNodes | None = None, lives: Lives = ALL) -> Effects:
        """A start after which it serves, with one replica where `nodes` are given."""
        effects = self.start(*(() if nodes is None else (NAME,)))
        found = {} if nodes is None else {NAME: nodes}
        return self.hear(ev.PartitionsRead(the(fx.Read, effects).read_id, found, lives))

    def see(self, nodes: PartitionNodes | None, lives: Lives = ALL) -> Effects:
        """A watch fired, and this was read."""
        read = the(fx.Read, self.hear(ev.PartitionTouched(NAME)))
        return self.hear(ev.PartitionsRead(read.read_id, {NAME: nodes}, lives))

    def end(self, effects: Effects, ending: ev.Ending = ev.Ending.COMMITTED) -> Effects:
        """The write of these effects ended."""
        return self.hear(ev.WriteEnded(the(fx.Write, effects).write_id, ending))

    def win(self, effects: Effects, before: PartitionNodes, lives: Lives = ALL) -> Effects:
        """The election of these effects succeeded, and that was read."""
        read = the(fx.Read, self.end(effects))
        return self.hear(ev.PartitionsRead(read.read_id, {NAME: led_by_me(before)}, lives))

    def queue(self, *changes: StateChange, nodes: PartitionNodes | None = None) -> Effects:
        """These are in its queue, and that is what the partition's znodes say."""
        queued = tuple(QueuedChange(f"change-{number:010}", change) for number, change in enumerate(changes))
        read = the(fx.Read, self.hear(ev.QueueRead(queued)))
        found = dict.fromkeys(read.names, nodes)
        return self.hear(ev.PartitionsRead(read.read_id, found, ALL))

    def after(self, ms: int, nodes: PartitionNodes, lives: Lives = ALL) -> Effects:
        """Time passes; what is due then is read, and that was found."""
        self.now_ms += ms
        effects = self.hear(ev.Ticked())
        reads = [effect for effect in effects if isinstance(effect, fx.Read)]
        if not reads:
            return effects
        return self.hear(ev.PartitionsRead(reads[0].read_id, {NAME: nodes}, lives))

    @property
    def replica(self) -> Hosted:
        """Its one replica."""
        return self.state.hosted[NAME]


def the(kind: type[E], effects: Effects) -> E:
    """The only effect of a kind."""
    (found,) = [effect for effect in effects if isinstance(effect, kind)]
    return found


def written(effects: Effects) -> Operations:
    """All operations of the only write."""
    return the(fx.Write, effects).everything


def kinds(effects: Effects) -> list[type]:
    """The kinds of effects, in order."""
    return [type(effect) for effect in effects]


def partition(
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    leader: LeaderNode | None = None,
    isr: IsrNode | None = None,
    reassigned: tuple[int, ...] | None = None,
    topic_id: str = ID,
    minimum: int = 1,
) -> PartitionNodes:
    """The znodes of a partition."""
    return PartitionNodes(topic_id, replicas, leader, isr, reassigned, minimum)


def led_by_me(before: PartitionNodes, isr: tuple[int, ...] | None = None, changes: int = 0) -> PartitionNodes:
    """What an election of broker 1 makes of these, and some changes of the ISR after it."""
    epoch = before.epoch + 1
    members = isr or (before.isr.isr if before.isr is not None else (1,))
    return PartitionNodes(
        before.topic_id,
        before.replicas,
        LeaderNode(1, epoch, SESSION),
        IsrNode(epoch, members, before.version + 1 + changes),
        before.reassigned,
    )


def queued_for(sent: Iterable[tuple[int, StateChange]]) -> tuple[wr.Enqueue, ...]:
    """State changes on their way into the queues of brokers."""
    return tuple(wr.Enqueue(broker_id, change) for broker_id, change in sent)


def change(kind: ChangeKind, epoch: int = 3, topic_id: str = ID, name: TopicPartition = NAME) -> StateChange:
    """A state change about the partition."""
    return StateChange(kind, name, topic_id, epoch)


def topic(
    *nodes: PartitionNodes,
    attempt: tuple[int, int] | None = None,
    topic_id: str = ID,
    version: int = 0,
    count: int | None = None,
    configs: Configs = (),
    removals: int = 0,
) -> TopicNodes:
    """The znodes of a topic. `count`: the partitions that are there for clients; none during an attempt."""
    if count is None:
        count = 0 if attempt is not None else len(nodes)
    node = TopicNode(bytes.fromhex(topic_id), attempt, count, dict(configs), removals)
    return TopicNodes(node, version, dict(enumerate(nodes)))


def counted(
    count: int,
    version: int = 0,
    removals: int = 1,
    configs: Configs = (),
    first_epochs: Mapping[int, int] | None = None,
) -> Operations:
    """What is written of the topic when partitions go, for the time that is counted."""
    node = TopicNode(KEY, None, count, dict(configs), removals, first_epochs or {})
    return (
        wr.Put(topic_id_path(ID), "tide", removals - 1),
        wr.Put(topic_path("tide"), node, version),
    )
