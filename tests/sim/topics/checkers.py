"""What must hold of a simulated cluster of topics after every order, and once it has healed.

Each partition of each topic is looked at by the checkers of sim.checkers, as long as it stands; a partition
whose number is used again is another one. On top come what concerns assignment and deletion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from hightide_broker.core.isr_state import IsrState, PendingExpand
from hightide_broker.core.lineage import NO_EPOCH
from hightide_broker.core.replica import Replica, Role
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_runtime.znodes import cluster_znodes
from hightide_runtime.znodes.cluster_znodes import (
    BrokerIncarnationZnode,
    ControllerEpochZnode,
    LeaderAndIsrZnode,
    TopicZnode,
)
from sim.checkers import Violation
from sim.checkers.acknowledged import Acknowledged
from sim.checkers.checker import Checker
from sim.checkers.committing_leader import CommittingLeader
from sim.checkers.high_watermark import HighWatermark
from sim.checkers.log_matching import LogMatching
from sim.checkers.strong_isr import StrongIsr
from sim.messages import GONE, Record
from sim.topics.broker import SimHost, SimReplica
from sim.topics.logs import EMPTY, LogOnDisk
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

    def __init__(self, broker_id: int, disk: LogOnDisk) -> None:
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
        """Broker → the partition epoch with which it had to give up its replica last."""
        self.doubted_at: dict[int, int] = {}
        """Broker → the last partition epoch with which it was told to have lost its tail, perhaps."""
        self._is_fsynced = False
        self._was_always_fsynced = True
        self.logs_changed = True
        self.deleted_before = 0
        """As far as any leader was told to delete records."""
        self.losses: dict[Record, set[int]] = {}
        self.promised_copies = 1
        """Here no record is given up because disks have lost it."""
        self.unclean_epoch = 0
        """The last epoch whose leader was elected unclean, since an operator asked for it."""
        self.kept: tuple[Record, ...] = ()
        """The log of that leader, as it was then."""
        self.given_up: set[Record] = set()
        """What an earlier leader had that had not heard of that election, and the new one had not. Its answer
        may come after it has heard: it waits for the other partitions of its request."""
        self.kept_from: dict[int, int] = {}
        """Leader → where its log began when it was elected as the last one, though its oldest files are gone:
        it keeps what it has until it starts again, when others have all."""
        self.has_led_without_front = False
        """Whether a leader lacked its oldest files, and so what it knew of producers."""
        self.isr: tuple[int, ...] = ()
        self.electable: tuple[int, ...] = ()
        """Who is to have all that is committed: the ISR and the eligible, but for who is in doubt."""
        self.brokers: dict[int, SimReplica | _OnDisk] = {}
        """What each broker has of it."""
        self.deleted_below = 0
        """The highest log start of any replica, since the last unclean election."""
        view: Any = self
        self.checkers: list[Checker] = [checker(view) for checker in OF_A_PARTITION]

    def elected_uncleanly(self, state: LeaderAndIsrZnode) -> None:
        """An operator asked for it: what the new leader does not have is not missed, all else is. It leads
        with what it has now; where that counts only on its disk, with what is there."""
        self.look()
        found = self.brokers[state.leader]
        log = found.disk.log
        if self._is_fsynced:
            log = log[: found.state.durable_end_offset] if isinstance(found, SimReplica) else []
        self.unclean_epoch = state.leader_epoch
        self.deleted_below = 0
        self.kept = tuple(log)
        self.kept_from[state.leader] = found.disk.log_start
        # What comes behind the new leader's log was deleted by nobody, though other records there were.
        self.deleted_before = min(self.deleted_before, len(log))
        self.acked = {at: record for at, record in self.acked.items() if log[at : at + 1] == [record]}

    def shared_with_kept(self, found: LogOnDisk) -> int:
        """Up to where a leader that has not heard of the unclean election has the records of the new one."""
        pairs = zip(found.log, self.kept, strict=False)
        return next(
            (at for at, (mine, kept) in enumerate(pairs) if at >= found.log_start and mine != kept),
            min(len(found.log), len(self.kept)),
        )

    def look(self) -> None:
        """See what is there now."""
        state = self._world.state(self.topic, self.generation.partition)
        self.isr = () if state is None else state.isr
        if state is not None:
            self.electable = tuple(sorted(trusted_in(state)))
            version = self._world.partition_epoch(self.topic, self.generation.partition)
            self.doubted_at |= {log.broker_id: version for log in state.recovered}
        self._is_fsynced = self._world.is_fsynced(self.topic)
        self._was_always_fsynced = self._was_always_fsynced and self._is_fsynced
        self.brokers = {broker_id: self._at(host) for broker_id, host in self._world.hosts.items()}
        for each in self.brokers.values():
            if isinstance(each, SimReplica):
                self.deleted_below = max(self.deleted_below, each.state.log_start_offset)
                if each.state.leader_epoch < self.unclean_epoch:
                    self.given_up.update(each.disk.log)
        self.given_up.difference_update(self.kept)

    def _at(self, host: SimHost) -> SimReplica | _OnDisk:
        generation = self.generation
        replica = host.replica(generation.key)
        found = host.logs.log(generation.key) if replica is None else replica.disk
        is_it = is_of(generation, None if replica is None else replica.hosted, found)
        if replica is not None and is_it:
            return replica
        return _OnDisk(host.broker_id, found if is_it else EMPTY)

    def counts(self, member: int, isr: IsrState | None = None) -> bool:
        """Whether a member can be held to its word: not by a leader that has not heard that it was removed.

        Where its word counts for more than its disk has: not after a loss of power until it has told of it,
        nor by a leader that has not heard of that. The same where files are not what a process left.
        """
        if self._world.hosts[member].is_damaged or self._is_asked_for_an_earlier_life(member, isr):
            return False
        if not self._was_always_fsynced and self._world.hosts[member].is_doubtful:
            return False
        if isr is None:
            return True
        told_at = -1 if self._was_always_fsynced else self.doubted_at.get(member, -1)
        return max(told_at, self.let_go_at.get(member, -1)) <= isr.partition_epoch

    def _is_asked_for_an_earlier_life(self, member: int, isr: IsrState | None) -> bool:
        """Whether a leader waits for a write that will be refused, since its follower began another life."""
        if not isinstance(isr, PendingExpand) or member not in isr.joining:
            return False
        stored = self._world.tree.read(BrokerIncarnationZnode.path(member))
        return stored is not None and isr.incarnations[isr.joining.index(member)] != stored.version


class Checkers:
    """All of them. `check` is called after each order."""

    def __init__(self, world: Cluster) -> None:
        self._world = world
        self._disk_changes: list[int] = []
        self._states: list[Replica] = []
        self._views: dict[Generation, PartitionView] = {}
        self._assigned_since: dict[tuple[Generation, int], int] = {}
        """Since which partition epoch a broker is in AR."""
        self._let_go: dict[tuple[int, Key], dict[int, tuple[int, Record]]] = {}
        """(broker, partition) → value → where it was in the log that the broker gave up."""
        self._found: Violation | None = None
        self.unclean_asked: set[tuple[str, int]] = set()
        """Partitions for which an operator asked for an unclean election."""
        self.unhealed: set[int] = set()
        """Brokers whose files were damaged, and that are not in sync again everywhere since."""

    # --- what it is told -------------------------------------------------------------------------

    def acknowledged(self, host: SimHost, key: Key, offset: int, value: int) -> None:
        """A producer is told that its record is committed.

        It is told so late where others in the same request were waited for: the broker may have given up the
        partition meanwhile.
        """
        log = host.logs.log(key).log
        at, record = self._let_go.get((host.broker_id, key), {}).get(value, (offset, GONE))
        if log[offset : offset + 1] in ([GONE], []) and self._is_deleted(key, offset):
            return
        if log[offset : offset + 1] == [] and self._is_given_up(key, value):
            return
        if offset < len(log) and log[offset][1] == value:
            record = log[offset]
        elif (at, record[1]) != (offset, value):
            message = f"{host.broker_id} acknowledges {value} at {offset}; its log is {log}"
            self._found = Violation("Acknowledged", message, self._world.story)
            return
        view = self._view_at(key, record[0])
        if view is not None and self._is_of_lost_epoch(host, key, view):
            return
        if view is not None and view.acked.setdefault(offset, record) != record:
            view.contradictions.append((offset, record))

    def _is_deleted(self, key: Key, offset: int) -> bool:
        """Whether a record was deleted before its producer heard that it was committed; the broker may have
        stopped the replica since."""
        views = [view for generation, view in self._views.items() if generation.key == key]
        return any(offset < view.deleted_before for view in views)

    def _is_given_up(self, key: Key, value: int) -> bool:
        """Whether an unclean election has cost it."""
        views = [view for generation, view in self._views.items() if generation.key == key]
        return any(value == given_up for view in views for _, given_up in view.given_up)

    @staticmethod
    def _is_of_lost_epoch(host: SimHost, key: Key, view: PartitionView) -> bool:
        """Whether a leader acknowledges that has not heard of the unclean election since."""
        replica = host.replica(key)
        return replica is not None and replica.state.leader_epoch < view.unclean_epoch

    def deleting(self, host: SimHost, key: Key, before_offset: int) -> None:
        """An operator asks a replica to delete records."""
        replica = host.replica(key)
        view = None if replica is None else self._view_at(key, replica.state.leader_epoch)
        if replica is not None and view is not None:
            # The leader may wait until it knows its high watermark, which may be its end by then.
            before = replica.state.log_end_offset if before_offset < 0 else before_offset
            if replica.state.leader_epoch < view.unclean_epoch:
                before = min(before, view.shared_with_kept(host.logs.log(key)))
            view.deleted_before = max(view.deleted_before, before)
            view.logs_changed = True

    def committed(self, replica: SimReplica) -> None:
        """A replica's high watermark moved."""
        state = replica.state
        view = self._view_at(replica.key, state.leader_epoch)
        if view is not None and state.is_leader:
            view.commits.append((state.leader_epoch, replica.broker_id, state.high_watermark))

    def _view_at(self, key: Key, leader_epoch: int) -> PartitionView | None:
        """The partition that had this number in that epoch."""
        found = [view for generation, view in self._views.items() if generation.key == key]
        found = [view for view in found if view.generation.first_leader_epoch <= leader_epoch]
        return max(found, key=lambda view: view.generation.first_leader_epoch, default=None)

    def put_aside(self, host: SimHost, key: Key, replica: HostedReplica | None) -> None:
        """A broker gives up a replica: not one that it knows to be its own, and never one that is to have all
        that is committed."""
        found = host.logs.log(key)
        let_go = self._let_go.setdefault((host.broker_id, key), {})
        let_go.update({record[1]: (offset, record) for offset, record in enumerate(found.log)})
        # Without records and without a decision it may be the partition before this one.
        is_certain = replica is not None or any(record != GONE for record in found.log)
        for view in list(self._standing()):
            generation = view.generation
            if generation.key != key or not is_of(generation, replica, found):
                continue
            view.look()
            since = self._assigned_since.get((generation, host.broker_id))
            known = -1 if replica is None else replica.state.decision.partition_epoch
            # Where the oldest files are gone it fetches all anew, unless others count on it.
            is_begun_anew = (
                host.is_damaged or host.has_rebooted
                if replica is None
                else replica.state.log_start_offset < host.logs.log(key).log_start
            )
            has_heard = since is not None and known >= since and not is_begun_anew
            if is_certain and (host.broker_id in view.electable or has_heard):
                # Raised by `check`: a task of the broker could take it for a failure that passes.
                message = f"{host.broker_id} puts {generation} aside; all is to be at {view.electable}"
                self._found = Violation("AssignedReplica", message, self._world.story)
            view.let_go_at[host.broker_id] = self._world.partition_epoch(view.topic, generation.partition)

    def gave_its_word(self, broker_id: int) -> None:
        """A broker is registered: what it left it has left by now."""
        if broker_id in self.unhealed:
            for view in self._standing():
                at = self._world.partition_epoch(view.topic, view.generation.partition)
                view.let_go_at[broker_id] = max(at, view.let_go_at.get(broker_id, -1))

    def is_last_anywhere(self, broker_id: int) -> bool:
        """Whether nobody else is to have all records of some partition, with disks that work."""
        hosts = self._world.hosts
        return any(
            all(each == broker_id or hosts[each].has_failed_disk for each in view.electable)
            for view in self._standing()
            if broker_id in view.electable
        )

    def _note_healed(self) -> None:
        """Who has lost files, and is in sync again wherever it is to be."""
        for broker_id in tuple(self.unhealed):
            if not self._world.hosts[broker_id].is_damaged and all(
                self._is_in_sync(broker_id, view) for view in self._standing()
            ):
                self.unhealed.discard(broker_id)

    def _is_in_sync(self, broker_id: int, view: PartitionView) -> bool:
        state = self._world.state(view.topic, view.generation.partition)
        if broker_id not in self._world.topic(view.topic).partitions[view.generation.partition]:
            return True
        return state is not None and broker_id in state.isr and broker_id in trusted_in(state)

    # --- after each order ------------------------------------------------------------------------

    def check(self) -> None:
        """Raise Violation where something does not hold."""
        if self._found is not None:
            raise self._found
        world = self._world
        written, world.tree.written = world.tree.written, []
        disk_changes = [host.disk.changes for host in world.hosts.values()]
        logs_changed, self._disk_changes = disk_changes != self._disk_changes, disk_changes
        for write in written:
            self._check_write(write)
        if written and self.unhealed:
            self._note_healed()
        states = [each.state for host in world.hosts.values() for each in host.hosted()]
        states_changed = len(states) != len(self._states) or not all(map(is_, states, self._states))
        self._states = states
        if not (written or logs_changed or states_changed):
            return
        if states_changed:
            self._check_divergence()
        for view in self._standing():
            view.look()
            if written:
                self._check_assignment(view)
            view.logs_changed = logs_changed
            for checker in view.checkers:
                checker.check()
            view.commits.clear()
            if logs_changed:
                self._check_records(view)

    def _check_divergence(self) -> None:
        """Nobody is accused but of a topic that is deleted: a command that comes late may begin its replica
        anew, beside one that has not heard of the deletion."""
        for host in self._world.hosts.values():
            for each in host.hosted():
                if each.state.role is Role.DIVERGED and any(
                    view.generation.key == each.key for view in self._standing()
                ):
                    self._violated("NoDivergence", f"a follower accuses its leader of a loss: {each.state}")

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
            if has_epochs_before(replica.disk, view.generation.first_leader_epoch):
                self._violated(
                    "ForeignRecord",
                    f"{replica.broker_id} has records of another partition in {view.generation}: "
                    f"{replica.disk.log}",
                )
            self._check_sequence(view, replica.disk)

    def _check_sequence(self, view: PartitionView, found: LogOnDisk) -> None:
        """What idempotent producers sent is there once, each producer's in its order, but for what failed: an
        attempt that is late may still append it, under the producer id of before. What is deleted does not
        count: a replica that begins anew behind it does not know who wrote it. Nor does a leader whose disk
        has lost its oldest files; it may lead if nothing in them was promised."""
        view.has_led_without_front |= any(
            isinstance(each, SimReplica)
            and each.state.is_leader
            and GONE in each.disk.log[view.deleted_below :]
            for each in view.brokers.values()
        )
        if view.has_led_without_front:
            return
        last: dict[int, int] = {}
        for _, value in found.log[view.deleted_below :]:
            producer = self._world.sent.get(value)
            if producer is None or value in self._world.failed:
                continue
            if value <= last.get(producer, 0):
                self._violated(
                    "Sequence", f"{view.generation}: {value} comes after {last[producer]}: {found.log}"
                )
            last[producer] = value

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
        if write.writer in self._world.hosts and is_about_itself(write.writer, before, after):
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
            if after.leader not in trusted_in(before):
                self._unclean(write.path, before, after)

    def _unclean(self, path: str, before: LeaderAndIsrZnode, after: LeaderAndIsrZnode) -> None:
        topic, partition = path.split("/")[3:5]
        replicas = self._world.topic(topic).partitions[int(partition)]
        is_best = is_best_recovered(before, after, replicas)
        if is_best and not any(log.broker_id in self.unhealed for log in before.recovered):
            return  # A loss of power costs no records with flush=fsync, so nothing is forgotten.
        if not is_best and (topic, int(partition)) not in self.unclean_asked:
            self._violated("Znodes", f"unclean election: {before} to {after}")
        for view in self._standing():
            if view.topic == topic and view.generation.partition == int(partition):
                view.elected_uncleanly(after)

    # --- after healing ---------------------------------------------------------------------------

    def check_healed(self) -> None:
        """A leader, ISR = AR, equal logs; nothing left to do; nothing held that is not assigned."""
        world = self._world
        for view in self._standing():
            view.look()
            self._check_partition_healed(view)
        for path in self._operator_requests():
            if path not in world.complaints:
                self._violated("Healed", f"{path} stands, and nobody complains about it")
        ids = {TopicZnode.decode(found.data).topic_id.hex() for found in self._topic_znodes()}
        if set(world.tree.children(cluster_znodes.TOPIC_IDS)) != ids:
            self._violated(
                "Healed", f"the markers are {world.tree.children(cluster_znodes.TOPIC_IDS)}, the ids {ids}"
            )
        assigned = {
            (topic.topic_id, partition, broker_id)
            for topic in world.topics().values()
            for partition, replicas in enumerate(topic.partitions)
            for broker_id in replicas
        }
        for host in world.hosts.values():
            for key in {**host.logs.partitions(), **host.replicas}:
                if (*key, host.broker_id) not in assigned:
                    self._violated("Healed", f"{host.broker_id} still holds {key[0][:2].hex()}-{key[1]}")

    def _operator_requests(self) -> Iterator[str]:
        tree = self._world.tree
        for parent in (
            cluster_znodes.REASSIGNMENTS,
            cluster_znodes.PARTITIONS_ADD,
            cluster_znodes.PARTITIONS_REMOVE,
        ):
            for topic in tree.children(parent):
                yield from (f"{parent}/{topic}/{name}" for name in tree.children(f"{parent}/{topic}"))
        yield from (
            f"{cluster_znodes.DELETE_TOPICS}/{topic}" for topic in tree.children(cluster_znodes.DELETE_TOPICS)
        )

    def _topic_znodes(self) -> Iterator[Any]:
        tree = self._world.tree
        return (tree.read(TopicZnode.path(name)) for name in tree.children(cluster_znodes.TOPICS))

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
            start = max(view.kept_from.get(each, 0) for each in (broker_id, state.leader))
            start = max(start, replica.disk.log_start, first.disk.log_start)
            if replica.state.log_start_offset < first.state.log_start_offset:
                self._violated(
                    "Healed",
                    f"{broker_id} begins at {replica.state.log_start_offset}, its leader at "
                    f"{first.state.log_start_offset}: {view.topic} {generation}",
                )
            if not (
                replica.state.high_watermark == replica.state.log_end_offset == first.state.log_end_offset
                and replica.disk.log[start:] == first.disk.log[start:]
            ):
                self._violated("Healed", f"the logs of {broker_id} and {state.leader} differ in {generation}")

    def _violated(self, invariant: str, message: str) -> NoReturn:
        raise Violation(invariant, message, self._world.story)


def is_of(generation: Generation, replica: HostedReplica | None, found: LogOnDisk) -> bool:
    """Whether what a broker holds is of this partition, and not of one of its number that was removed."""
    if replica is not None and replica.state.leader_epoch != NO_EPOCH:
        return replica.state.leader_epoch >= generation.first_leader_epoch
    return not has_epochs_before(found, generation.first_leader_epoch)


def has_epochs_before(found: LogOnDisk, first_leader_epoch: int) -> bool:
    """Whether a log has records of a partition that was removed before this one was added."""
    return first_leader_epoch > 0 and any(0 <= epoch < first_leader_epoch for epoch, _ in found.log)


def trusted_in(state: LeaderAndIsrZnode) -> set[int]:
    """Who is to have all that is committed: the ISR and the eligible, but for who is in doubt."""
    return {*state.isr, *state.eligible} - {log.broker_id for log in state.recovered}


def is_best_recovered(before: LeaderAndIsrZnode, after: LeaderAndIsrZnode, replicas: Sequence[int]) -> bool:
    """Whether all were in doubt, and the best of the assigned ones that told what they have was elected."""
    told = {
        log.broker_id: (log.leader_epoch, log.log_end_offset)
        for log in before.recovered
        if log.broker_id in replicas
    }
    return (
        not trusted_in(before)
        and after.unclean_epoch == after.leader_epoch
        and after.isr == (after.leader,)
        and after.leader in told
        and told[after.leader] == max(told.values())
    )


def is_about_itself(broker_id: int, before: LeaderAndIsrZnode, after: LeaderAndIsrZnode) -> bool:
    """Whether a broker says that it may lack what others count on: it leaves the ISR, or, where it is the
    last one, tells what it still has."""
    leaders = (before.leader, -1) if before.leader == broker_id else (before.leader,)
    left = tuple(member for member in before.isr if member != broker_id)
    is_of_epoch = after.leader_epoch == before.leader_epoch and after.leader in leaders
    return is_of_epoch and (after.isr == left or (after.isr == before.isr and after.leader == -1))
