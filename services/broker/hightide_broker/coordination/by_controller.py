"""A broker whose controller decides (V3): it carries out orders, and reports to the controller."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hightide_runtime.serving.server import Service
from hightide_runtime.telemetry.metric_declarations import Measure, MetricDeclaration
from hightide_runtime.znodes.cluster_znodes import LeaderAndIsrZnode
from hightide_runtime.znodes.recovered_log import RecoveredLog
from hightide_runtime.zookeeper.session import Operation, SetData, ZooKeeperSession

from hightide_broker.cluster.partition_decisions import PartitionDecision, TopicDecisions
from hightide_broker.coordination.decider import Host
from hightide_broker.core.replica import NO_LEADER
from hightide_broker.hosting.control import ControlHandler, ControlListeners
from hightide_broker.hosting.controlled_shutdown import hand_over_leadership
from hightide_broker.hosting.failed_replicas import FailedReplicas
from hightide_broker.hosting.startup import ClusterAsStored, read_cluster
from hightide_broker.hosting.strays import StrayWatch, read_stored
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.replication.isr_store import IsrStore
from hightide_broker.replication.isr_znodes import LeaderAndIsrZnodes
from hightide_broker.servicer import ControlRpcs, control_service


class ControllerDecider:
    """The controller's orders to this broker, and this broker's reports to the controller."""

    def __init__(self, host: Host) -> None:
        settings, ports, broker_id = host.settings, host.ports, host.settings.broker_id
        self._host = host
        self.cluster = ControllerCluster(ports.session, broker_id)
        self.isr = IsrStore(LeaderAndIsrZnodes(broker_id), ports.clock, ports.session, host.shell)
        self.reports = FailedReplicas(
            ports.session, broker_id, lambda: host.registration.broker_epoch, ports.connect
        )
        # The watch is built first, and asks the control later.
        self.strays = StrayWatch(
            broker_id, host.cluster_id, partial(read_stored, ports.session, host.cluster_id),
            lambda key: self.control.held(key), lambda held: self.control.let_go(held),
        )  # fmt: skip
        self.control = ControlHandler(
            broker_id, ports.clock, host.replicas, host.metadata, host.shell, host.directories,
            host.registration, host.telemetry,
            ControlListeners(self.strays.suspect, host.tell_again, host.limit_moves),
            settings.replica_lag_time_max_ms, settings.min_insync_replicas,
        )  # fmt: skip
        self.rpcs = ControlRpcs(self.control)

    @property
    def metrics(self) -> tuple[Sequence[MetricDeclaration], Measure]:
        """Nothing: a controller has metrics of its own."""
        return (), dict

    def services(self) -> list[Service]:
        """The controller's door."""
        return [control_service(self.rpcs)]

    def stopped(self, replica: HostedReplica, delete: bool) -> None:
        """Take note that the core of a replica has stopped."""
        self.control.stopped(replica, delete)

    async def begin(self, stored: ClusterAsStored) -> None:
        """Start the replicas that ZooKeeper assigns to this broker, in the roles that it gives them (V3
        section E)."""
        self.control.controller_epoch = stored.controller_epoch
        await self.control.decide(stored.decisions, is_live=False)
        self.strays.suspect(self.control.not_hosted())

    async def join(self, patience_s: float) -> None:
        """Register."""
        await self._host.registration.register(patience_s)

    async def hand_over(self) -> None:
        """Ask the controller to elect other leaders."""
        host = self._host
        await hand_over_leadership(
            host.ports.session, host.settings.broker_id, host.registration.broker_epoch,
            host.settings.controlled_shutdown_timeout_ms, host.ports.connect,
        )  # fmt: skip

    async def close(self) -> None:
        """Stop looking for strays, and reporting."""
        await self.strays.close()
        await self.reports.close()


class ControllerCluster:
    """The cluster in ZooKeeper, as controllers write it."""

    def __init__(self, session: ZooKeeperSession, broker_id: int) -> None:
        self._session = session
        self._broker_id = broker_id

    async def read(self) -> ClusterAsStored:
        """Read all of it."""
        return await read_cluster(self._session, self._broker_id)

    def departure(
        self, topic: TopicDecisions, stored: PartitionDecision, told: RecoveredLog
    ) -> Sequence[Operation]:
        """leaderAndISR without this broker; the last member stays in the ISR in name."""
        decision, broker_id = stored.decision, self._broker_id
        others = (log for log in decision.recovered if log.broker_id != broker_id)
        after = LeaderAndIsrZnode(
            NO_LEADER if decision.leader == broker_id else decision.leader,
            decision.leader_epoch,
            tuple(member for member in decision.isr if member != broker_id) or decision.isr,
            decision.controller_epoch,
            eligible=tuple(member for member in decision.eligible if member != broker_id),
            recovered=tuple(sorted((told, *others))),
            unclean_epoch=decision.unclean_epoch,
        )
        path = LeaderAndIsrZnode.path(topic.topic, stored.partition)
        return (SetData(path, after.encode(), decision.partition_epoch),)
