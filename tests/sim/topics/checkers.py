"""What must hold of a simulated cluster of topics after every order, and once it has healed.

Each partition of each topic is looked at by the checkers of sim.checkers, as long as it stands; a partition
whose number is used again is another one. On top come what concerns assignment and deletion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from hightide_broker.core.isr import IsrState
from hightide_runtime import znodes
from hightide_runtime.znodes import ControllerEpochZnode, LeaderAndIsrZnode, TopicZnode
from sim.checkers import Violation
from sim.checkers.acknowledged import Acknowledged
from sim.checkers.checker import Checker
from sim.checkers.committing_leader import CommittingLeader
from sim.checkers.high_watermark import HighWatermark
from sim.checkers.log_matching import LogMatching
from sim.checkers.strong_isr import StrongIsr
from sim.disk import Disk
from sim.messages import Record
from sim.topics.broker import SimHost, SimReplica, has_epochs_before
from sim.topics.messages import Key

if TYPE_CHECKING:
    from sim.topics.tree import Written
    from sim.topics.world import Cluster

OF_A_PARTITION = (Acknowledged, StrongIsr, LogMatching, HighWatermark, CommittingLeader)


class Generation(NamedTuple):
    """One partition from its first leader on: a number that is used again is another partition."""

    topic_id: bytes
    partition: int
    first_leader_epoch: int

    @property
    def key(self) -> Key:
        return (self.topic_id, self.partition)

    def __str__(self) -> str:
        return f"{self.topic_id[:2].hex()}-{self.partition}@{self.first_leader_epoch}"


class _OnDisk:
    """What a broker that does not run a replica has of it."""

    alive = False
    lives = 0

    def __init__(self, broker_id: int, disk: Disk) -> None:
        self.broker_id = broker_id
        self.disk = disk


class PartitionView:
    """One partition as the checkers of sim.checkers see a world."""

    def __init__(self, world: Cluster, topic: str, generation: Generation) -> None:
        self._world = world
        self.topic = topic
        self.generation = generation
        self.story = world.story
        self.acked: dict[int, Record] = {}
        self.contradictions: list[tuple[int, Record]] = []
        self.commits: list[tuple[int, int, int]] = []
        self.let_go_at: dict[int, int] = {}
        """Broker → the partition epoch with which it had to let go of its replica last."""
        self.logs_changed = True
        self.deleted_before = 0
        """Nobody lets go of records in these schedules."""
        self.forget()

    def forget(self) -> None:
        """An unclean election was asked for: what it loses is not missed."""
        view: Any = self
        self.acked.clear()
        self.contradictions.clear()
        self.checkers: list[Checker] = [checker(view) for checker in OF_A_PARTITION]

    @property
    def isr(self) -> tuple[int, ...]:
        state = self._world.state(self.topic, self.generation.partition)
        return () if state is None else state.isr

    @property
    def brokers(self) -> dict[int, SimReplica | _OnDisk]:
        """What each broker has of it."""
        return {broker_id: self._at(host) for broker_id, host in self._world.hosts.items()}

    def _at(self, host: SimHost) -> SimReplica | _OnDisk:
        generation = self.generation
        replica = host.replicas.get(generation.key)
        if replica is not None and replica.first_leader_epoch == generation.first_leader_epoch:
            return replica
        disk = host.disks.get(generation.key)
        if disk is None or has_epochs_before(disk, generation.first_leader_epoch):
            disk = Disk()
        return _OnDisk(host.broker_id, disk)

    def counts(self, member: int, isr: IsrState | None = None) -> bool:
        """Whether a member can be held to its word: not by a leader that has not heard that it was let go."""
        return isr is None or self.let_go_at.get(member, -1) <= isr.partition_epoch


class Checkers:
    """All of them. `check` is called after each order."""

    def __init__(self, world: Cluster) -> None:
        self._world = world
        self.logs_changed = True
        self._views: dict[Generation, PartitionView] = {}
        self._made: dict[int, Generation] = {}
        self._assigned_since: dict[tuple[Generation, int], int] = {}
        """Since which partition epoch a broker is in AR."""
        self._found: Violation | None = None
        self.unclean_asked: set[tuple[str, int]] = set()
        """Partitions for which an operator asked for an unclean election."""

    # --- what it is told -------------------------------------------------------------------------

    def made(self, replica: SimReplica, value: int) -> None:
        """A record is sent to a replica."""
        self._made[value] = generation_of(replica)

    def acknowledged(self, replica: SimReplica, offset: int, record: Record) -> None:
        """A producer is told that its record is committed."""
        view = self._views.get(generation_of(replica))
        if view is not None and view.acked.setdefault(offset, record) != record:
            view.contradictions.append((offset, record))

    def committed(self, replica: SimReplica) -> None:
        """A replica's high watermark moved."""
        view = self._views.get(generation_of(replica))
        state = replica.state
        if view is not None and state.is_leader:
            view.commits.append((state.leader_epoch, replica.broker_id, state.high_watermark))

    def put_aside(self, host: SimHost, key: Key, why: str) -> None:
        """A broker lets go of a replica: not one that it knows to be its own, and never an ISR member."""
        for view in list(self._standing()):
            generation = view.generation
            replica = host.replicas.get(key)
            if generation.key != key or (isinstance(view._at(host), _OnDisk) and not view._at(host).disk.log):
                continue
            since = self._assigned_since.get((generation, host.broker_id))
            known = -1 if replica is None else replica.state.decision.partition_epoch
            if host.broker_id in view.isr or (since is not None and known >= since):
                # Raised by `check`: a task of the broker could take it for a failure that passes.
                message = f"{host.broker_id} puts {generation} aside ({why}); its ISR is {view.isr}"
                self._found = Violation("AssignedReplica", message, self._world.story)
            view.let_go_at[host.broker_id] = self._world.partition_epoch(view.topic, generation.partition)

    # --- after each order ------------------------------------------------------------------------

    def check(self) -> None:
        """Raise Violation where something does not hold."""
        if self._found is not None:
            raise self._found
        world = self._world
        written, world.tree.written = world.tree.written, []
        for write in written:
            self._check_write(write)
        for view in self._standing():
            if written:
                self._check_assignment(view)
            view.logs_changed = self.logs_changed
            for checker in view.checkers:
                checker.check()
            view.commits.clear()
            if self.logs_changed:
                self._check_records(view)
        self.logs_changed = False

    def _standing(self) -> Iterator[PartitionView]:
        for name, topic in self._world.topics().items():
            for partition in range(len(topic.partitions)):
                first = dict(topic.first_leader_epochs).get(partition, 0)
                generation = Generation(topic.topic_id, partition, first)
                view = self._views.get(generation)
                if view is None:
                    view = self._views[generation] = PartitionView(self._world, name, generation)
                yield view

    def _check_assignment(self, view: PartitionView) -> None:
        world, generation = self._world, view.generation
        replicas = world.topic(view.topic).partitions[generation.partition]
        if not set(view.isr) <= set(replicas):
            self._violated("Assignment", f"{generation}: the ISR {view.isr} is not in AR {replicas}")
        epoch = world.partition_epoch(view.topic, generation.partition)
        for broker_id in world.hosts:
            if broker_id not in replicas:
                self._assigned_since.pop((generation, broker_id), None)
            else:
                self._assigned_since.setdefault((generation, broker_id), epoch)

    def _check_records(self, view: PartitionView) -> None:
        for replica in view.brokers.values():
            for _, value in replica.disk.log:
                if self._made[value] != view.generation:
                    self._violated(
                        "ForeignRecord",
                        f"{replica.broker_id} has {value} in {view.generation}; it was made for "
                        f"{self._made[value]}",
                    )

    def _check_write(self, write: Written) -> None:
        if not write.path.endswith("/leaderAndISR") or write.after is None:
            return
        after = LeaderAndIsrZnode.decode(write.after)
        before = None if write.before is None else LeaderAndIsrZnode.decode(write.before)
        current = self._world.tree.read(ControllerEpochZnode.path())
        assert current is not None
        epoch = ControllerEpochZnode.decode(current.data).controller_epoch
        if write.writer in self._world.controllers and after.controller_epoch > epoch:
            self._violated("Znodes", f"{write.writer} wrote {after} under an epoch that is not")
        if before is None:
            return
        if write.writer in self._world.hosts and (before.leader, before.leader_epoch) != (
            write.writer,
            after.leader_epoch,
        ):
            self._violated("Znodes", f"{write.writer} changed {before} to {after} without being its leader")
        if after.leader_epoch < before.leader_epoch:
            self._violated("Znodes", f"the leader epoch went back: {before} to {after}")
        if after.leader not in (-1, before.leader):
            if after.leader_epoch == before.leader_epoch:
                self._violated("Znodes", f"one epoch, two leaders: {before} and {after}")
            if after.leader not in before.isr:
                self._unclean(write.path, before, after)

    def _unclean(self, path: str, before: LeaderAndIsrZnode, after: LeaderAndIsrZnode) -> None:
        topic, partition = path.split("/")[3:5]
        if (topic, int(partition)) not in self.unclean_asked:
            self._violated("Znodes", f"unclean election: {before} to {after}")
        for view in self._standing():
            if view.topic == topic and view.generation.partition == int(partition):
                view.forget()

    # --- after healing ---------------------------------------------------------------------------

    def check_healed(self) -> None:
        """A leader, ISR = AR, equal logs; nothing left to do; nothing held that is not assigned."""
        world = self._world
        for view in self._standing():
            self._check_partition_healed(view)
        for path in self._wishes_by_hand():
            if path not in world.complaints:
                self._violated("Healed", f"{path} stands, and nobody complains about it")
        ids = {TopicZnode.decode(found.data).topic_id.hex() for found in self._topic_znodes()}
        if set(world.tree.children(znodes.TOPIC_IDS)) != ids:
            self._violated(
                "Healed", f"the markers are {world.tree.children(znodes.TOPIC_IDS)}, the ids {ids}"
            )
        assigned = {
            (topic.topic_id, partition, broker_id)
            for topic in world.topics().values()
            for partition, replicas in enumerate(topic.partitions)
            for broker_id in replicas
        }
        for host in world.hosts.values():
            for key in {**host.disks, **host.replicas}:
                if (*key, host.broker_id) not in assigned:
                    self._violated("Healed", f"{host.broker_id} still holds {key[0][:2].hex()}-{key[1]}")

    def _wishes_by_hand(self) -> Iterator[str]:
        tree = self._world.tree
        for parent in (znodes.REASSIGNMENTS, znodes.PARTITIONS_ADD, znodes.PARTITIONS_REMOVE):
            for topic in tree.children(parent):
                yield from (f"{parent}/{topic}/{name}" for name in tree.children(f"{parent}/{topic}"))
        yield from (f"{znodes.DELETE_TOPICS}/{topic}" for topic in tree.children(znodes.DELETE_TOPICS))

    def _topic_znodes(self) -> Iterator[Any]:
        tree = self._world.tree
        return (tree.read(TopicZnode.path(name)) for name in tree.children(znodes.TOPICS))

    def _check_partition_healed(self, view: PartitionView) -> None:
        world, generation = self._world, view.generation
        state = world.state(view.topic, generation.partition)
        replicas = world.topic(view.topic).partitions[generation.partition]
        if state is None or state.leader == -1:
            self._violated("Healed", f"{view.topic} {generation} has no leader: {state}")
        if set(state.isr) != set(replicas):
            self._violated("Healed", f"{view.topic} {generation}: AR {replicas}, ISR {state.isr}")
        first = view.brokers[state.leader]
        for broker_id in replicas:
            replica = view.brokers[broker_id]
            if isinstance(replica, _OnDisk) or isinstance(first, _OnDisk):
                self._violated("Healed", f"{broker_id} does not run {view.topic} {generation}")
            if not (
                replica.state.high_watermark == replica.state.log_end_offset == first.state.log_end_offset
                and replica.disk.log == first.disk.log
            ):
                self._violated("Healed", f"the logs of {broker_id} and {state.leader} differ in {generation}")

    def _violated(self, invariant: str, message: str) -> NoReturn:
        raise Violation(invariant, message, self._world.story)


def generation_of(replica: SimReplica) -> Generation:
    """Which partition a replica takes itself for."""
    return Generation(*replica.key, replica.first_leader_epoch)
