"""The replicas of a broker whose decider is `hightide_leaders`: it opens and closes them, and gives each core
its decisions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from hightide_leaders.core import elections
from hightide_leaders.core.events import Event, IsrAdopted, IsrChanged, LeadershipDeclined
from hightide_leaders.core.values import Decision as Led
from hightide_leaders.core.values import PartitionNodes, TopicPartition
from hightide_leaders.znode_operations import operations_of
from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.paths import isr_path
from hightide_runtime.zookeeper.session import (
    BadVersion,
    ConnectionLost,
    NoNode,
    SessionExpired,
    ZooKeeperError,
)

from hightide_broker.cluster.metadata import TopicView
from hightide_broker.cluster.partition_decisions import PartitionDecision, PartitionKey
from hightide_broker.cluster.topic_settings import TopicSettings, topic_settings
from hightide_broker.coordination.decider import Host
from hightide_broker.coordination.led_cluster import EPOCH, LedCluster, first_leader_epoch
from hightide_broker.core import effects as fx
from hightide_broker.core.events import Event as ReplicaEvent
from hightide_broker.core.events import FollowersGone, LeaderAndIsrDecided, StopRequested
from hightide_broker.core.isr_state import CommittedIsr
from hightide_broker.core.lineage import NO_EPOCH
from hightide_broker.core.replica import Decision
from hightide_broker.hosting.partition_queue import PartitionQueues
from hightide_broker.hosting.replica_lifecycle import OK, FrontMissing, ReplicaLifecycle, ReplicaOrder
from hightide_broker.hosting.strays import HeldReplica
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.replication.isr_store import RECONNECTED
from hightide_broker.storage import StorageError

log = logging.getLogger(__name__)


class LedReplicas:
    """Obeys the decider, as `hightide_leaders.shell.HostedReplicas`. Belongs to the event loop's thread."""

    def __init__(
        self,
        host: Host,
        cluster: LedCluster,
        hear: Callable[[Event], None],
    ) -> None:
        """`hear` tells the decider."""
        self._host = host
        self._cluster = cluster
        self._hear = hear
        self._me = host.settings.broker_id
        self._lifecycle = ReplicaLifecycle(
            self._me, host.replicas, host.shell, host.directories, host.settings.replica_lag_time_max_ms
        )
        self._queues = PartitionQueues()
        self._keys: dict[TopicPartition, PartitionKey] = {}
        """Of what the decider has opened."""
        self._told: dict[HostedReplica, tuple[int, int]] = {}
        """The leader epoch and the partition epoch that the decider was told last, of what leads."""
        self._registered: frozenset[int] = frozenset()
        """The brokers that are registered, as far as this one has heard; empty before it has heard of any."""
        self._gone: dict[HostedReplica, frozenset[int]] = {}
        """Brokers that leave the ISR of a leader when the write of it that is under way has ended."""
        self.patience_s = 0.0
        """How long another registration of this broker's id may last."""
        self.registered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when this broker has registered first, or cannot: StartupError."""

    # --- what the decider asks for ----------------------------------------------------------------

    async def open_replica(self, name: TopicPartition, nodes: PartitionNodes) -> None:
        """Open the log, or create it. A replica whose disk fails is not there, and declines to lead. One that
        lacks its oldest records leaves the ISR first, as at the start, and is fetched anew: nobody else takes
        it out who would then tell this broker to open it. While ZooKeeper is away, it is waited for: nobody
        tells this broker to open a replica twice."""
        key = (bytes.fromhex(nodes.topic_id), name.partition)
        self._keys[name] = key
        place = self._queues.take(key)
        failures = 0
        try:
            await place.begin()
            while True:
                try:
                    await self._open(name, nodes)
                    return
                except (ConnectionLost, SessionExpired) as error:
                    log.warning("%s-%d is opened later: %s", name.topic, name.partition, error)
                    failures += 1
                    await asyncio.sleep(RECONNECTED.pause_s(failures))
        except (StorageError, ZooKeeperError) as error:
            log.error("%s-%d cannot be opened: %s", name.topic, name.partition, error)
        finally:
            place.end()

    async def _open(self, name: TopicPartition, nodes: PartitionNodes) -> None:
        settings = await self._settings_of(name.topic, bytes.fromhex(nodes.topic_id))
        try:
            await self._lifecycle.replica_for(self._order(name, nodes, settings), is_live=True)
        except FrontMissing as missing:
            log.error("%s", missing)
            after = await self._leave_isr(name, nodes)
            await self._lifecycle.replica_for(self._order(name, after, settings), is_live=True)

    def _order(self, name: TopicPartition, nodes: PartitionNodes, settings: TopicSettings) -> ReplicaOrder:
        """Nothing is decided yet. Where somebody led before, the epoch of the first decision is spent."""
        begins, isr = first_leader_epoch(nodes.first_epoch), nodes.known_isr
        nobody = Decision(
            EPOCH, leader_epoch=begins if nodes.isr is None else NO_EPOCH, isr=isr.isr, replicas=(self._me,),
            eligible=isr.eligible, recovered=isr.recovered,
        )  # fmt: skip
        told = PartitionDecision(name.partition, nobody, begins)
        return ReplicaOrder((bytes.fromhex(nodes.topic_id), name.partition), name.topic, settings, told)

    async def _leave_isr(self, name: TopicPartition, nodes: PartitionNodes) -> PartitionNodes:
        """Leave the ISR of a partition as one that has nothing of it, as long as others have everything.
        Returns what is written then. Raises ZooKeeperError."""
        while self._me in elections.trusted(nodes) and elections.trusted(nodes) - {self._me}:
            write = elections.departure(name, nodes, self._me, NO_EPOCH, 0)
            operations = operations_of((elections.of_partition(nodes), *(write or ())))
            try:
                await self._host.ports.session.multi(operations)
            except BadVersion:
                log.info("%s-%d: leaving its ISR is repeated", name.topic, name.partition)
            read = await self._cluster.read_partitions([name])
            found = read[name.topic][1].get(name.partition) if name.topic in read else None
            if found is None or found.life != nodes.life:
                raise NoNode(isr_path(*name))
            nodes = found
        return nodes

    async def close_replica(self, name: TopicPartition, topic_id: str) -> None:
        """Stop the replica, and put its log into quarantine; wait until it is there. What a failed disk has
        stays there, until the search for strays after the next start."""
        key = (bytes.fromhex(topic_id), name.partition)
        if self._keys.get(name) == key:
            del self._keys[name]
        place = self._queues.take(key)
        try:
            await place.begin()
            await self._put_aside(key)
        except StorageError as error:
            log.error("%s-%d is not put aside: %s", name.topic, name.partition, error)
        finally:
            place.end()

    async def _put_aside(self, key: PartitionKey) -> bool:
        replica = self._host.replicas.get(key)
        if replica is not None:
            self._forget(replica)
            stop = StopRequested(EPOCH, replica.state.leader_epoch, delete=True)
            if self._lifecycle.feed(replica, stop) != OK:
                return False
        await self._lifecycle.put_aside(key)
        return True

    def decide(self, name: TopicPartition, decision: Led) -> None:
        """Hand the decision to the replica's core. If it does not lead though it was elected, the decider is
        told."""
        replica = self._host.replicas.get(self._keys[name]) if name in self._keys else None
        if replica is not None:
            self._lifecycle.feed(
                replica, LeaderAndIsrDecided(_decision(decision), self._host.ports.clock.monotonic_ms())
            )
            replica.adding_replicas = frozenset(decision.adding)
            self._tell_isr(replica)
        if decision.leader != self._me:
            return
        state = None if replica is None else replica.state
        if state is None or not state.is_leader or state.leader_epoch < decision.leader_epoch:
            log.warning("%s-%d: this broker was elected and cannot lead", name.topic, name.partition)
            self._hear(LeadershipDeclined(name, decision.leader_epoch))

    async def register(self) -> None:
        """Register; after that, the registration keeps itself, in each session."""
        if self.registered.done():
            return
        try:
            await self._host.registration.register(self.patience_s)
        except StartupError as error:
            self.registered.set_exception(error)
        else:
            self.registered.set_result(None)

    def step_aside(self) -> None:
        """Stop the broker: a later life of it has begun."""
        self._host.fail(
            StartupError(
                f"another process has begun a later life of broker {self._me}; give one of the two another "
                "--broker-id"
            )
        )

    # --- what the broker's core says --------------------------------------------------------------

    def feed(self, replica: HostedReplica, event: ReplicaEvent) -> fx.Effects:
        """Feed to the replica what became of an ISR (`FeedPort`); the decider hears of a new one."""
        effects = self._host.shell.feed(replica, event)
        self._tell_isr(replica)
        return effects

    def _tell_isr(self, replica: HostedReplica) -> None:
        leading = replica.state.leading
        if leading is None:
            self._forget(replica)
        elif isinstance(leading.isr, CommittedIsr):
            known = (replica.state.leader_epoch, leading.isr.partition_epoch)
            before = self._told.get(replica)
            if before == known:
                return
            self._told[replica] = known
            name = TopicPartition(replica.topic, replica.key[1])
            self._hear(IsrAdopted(name, known[0], leading.isr.isr, known[1]))
            gone = self._gone.pop(replica, frozenset())
            if self._registered and (before is None or before[0] != known[0]):
                # It begins to lead. The election may have been decided before one of them died.
                gone |= frozenset(leading.isr.isr) - self._registered
            self._take_out(replica, gone)

    def _forget(self, replica: HostedReplica) -> None:
        """It does not lead any more."""
        self._told.pop(replica, None)
        self._gone.pop(replica, None)

    def look_at_brokers(self, registered: frozenset[int]) -> None:
        """Take note of the brokers that are registered. Those that are not any more leave the ISRs of what is
        led here, as a controller would see to it: acks=all would wait for them until
        replica_lag_time_max_ms."""
        gone, self._registered = self._registered - registered, registered
        if gone:
            for replica in self._host.replicas:
                self._take_out(replica, gone)

    def _take_out(self, replica: HostedReplica, gone: frozenset[int]) -> None:
        """Each is taken out once. If it is there in truth, and only not registered, it joins again by
        fetching."""
        leading = replica.state.leading
        if leading is None or not gone:
            return
        if isinstance(leading.isr, CommittedIsr):
            self.feed(replica, FollowersGone(gone))
        else:
            self._gone[replica] = self._gone.get(replica, frozenset()) | gone

    def stopped(self, replica: HostedReplica, delete: bool) -> None:
        """Take note that the core of a replica has stopped."""
        self._lifecycle.stopped(replica, delete)

    def declines(self, replica: HostedReplica) -> None:
        """A replica that leads must not any more."""
        self._hear(
            LeadershipDeclined(TopicPartition(replica.topic, replica.key[1]), replica.state.leader_epoch)
        )

    # --- settings, and newer ISRs -----------------------------------------------------------------

    async def _settings_of(self, topic: str, topic_id: bytes) -> TopicSettings:
        known = self._host.metadata.topic(topic)
        if known is not None and known.topic_id == topic_id:
            return self._settings(known)
        read = await self._cluster.read_partitions((), [topic])
        settings = read[topic][0].configs if topic in read else {}
        return topic_settings(topic, settings, self._host.settings.min_insync_replicas)

    def _settings(self, topic: TopicView) -> TopicSettings:
        return topic_settings(topic.topic, topic.configs, self._host.settings.min_insync_replicas)

    def look_at(self, topics: Iterable[TopicView]) -> None:
        """Take note that topics have changed: their settings hold from now on, and the decider hears of the
        ISRs of what is led here."""
        for topic in topics:
            settings = self._settings(topic)
            for replica in self._host.replicas.of_topic(topic.topic_id):
                if replica.settings != settings:
                    self._lifecycle.change_settings(replica, settings)
            for view in topic.partitions:
                held = self._host.replicas.get((topic.topic_id, view.partition))
                if held is not None:
                    name = TopicPartition(topic.topic, view.partition)
                    self._hear(IsrChanged(name, topic.topic_id.hex(), view.partition_epoch))

    # --- strays ----------------------------------------------------------------------------------

    def held(self, key: PartitionKey) -> HeldReplica | None:
        """The replica of a partition that this broker holds, running or only on disk."""
        replica = self._host.replicas.get(key)
        if replica is not None:
            known = replica.state.decision
            return HeldReplica(key, replica.topic, known.leader_epoch, known.partition_epoch)
        home = self._host.directories.home_of(key)
        return None if home is None or home.failure is not None else HeldReplica(key)

    async def let_go(self, held: HeldReplica) -> bool:
        """Put a replica into quarantine that is only on disk, and not assigned any more. One that runs is the
        decider's."""
        place = self._queues.take(held.key)
        try:
            await place.begin()
            if self._host.replicas.get(held.key) is not None or self.held(held.key) != held:
                return False
            return await self._put_aside(held.key)
        except StorageError as error:
            log.error("%s is not put aside: %s", held, error)
            return False
        finally:
            place.end()

    def not_hosted(self) -> list[PartitionKey]:
        """The partitions that are on disk and do not run."""
        host = self._host
        return [key for key in host.directories.partitions() if host.replicas.get(key) is None]


def _decision(led: Led) -> Decision:
    isr = led.isr
    return Decision(
        EPOCH, led.leader, led.leader_epoch, isr.isr, led.replicas, isr.version, isr.eligible, isr.recovered,
        isr.unclean_epoch,
    )  # fmt: skip
