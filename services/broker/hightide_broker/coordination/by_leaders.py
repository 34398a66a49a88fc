"""A broker without a controller (V2): its replicas elect their leaders themselves, by `hightide_leaders`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from hightide_leaders.core.values import Settings
from hightide_leaders.shell import LeadersShell
from hightide_runtime.cluster_settings.acl_requests import AclRequests
from hightide_runtime.cluster_settings.cluster_setting import ANY_BROKER
from hightide_runtime.process.settings import Authorization
from hightide_runtime.serving.server import Service
from hightide_runtime.telemetry.metric_declarations import Measure, MetricDeclaration, Readings, gauge

from hightide_broker.cluster.metadata import EndpointView
from hightide_broker.coordination.decider import Host
from hightide_broker.coordination.led_cluster import LedCluster
from hightide_broker.coordination.led_metadata import LedMetadata
from hightide_broker.coordination.led_replicas import LedReplicas
from hightide_broker.coordination.led_reports import LedReports
from hightide_broker.coordination.led_servicer import LeadersControllerServicer, controller_service
from hightide_broker.hosting.startup import ClusterAsStored
from hightide_broker.hosting.strays import StrayWatch
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.replication.isr_store import IsrStore
from hightide_broker.replication.isr_znodes import LedIsrZnodes
from hightide_broker.settings import BrokerSettings

log = logging.getLogger(__name__)

LED_METRICS: Final = (
    gauge(
        "hightide.broker.state_changes_waiting", "{change}",
        "the queue of state changes of each broker: its own, and those to which it has added something, "
        "until they are empty", "broker",
    ),
)  # fmt: skip


class LeadersDecider:
    """The decider of `hightide_leaders`, and its ties to this broker."""

    def __init__(self, host: Host) -> None:
        settings, session = host.settings, host.ports.session
        broker_id = settings.broker_id
        self._host = host
        self.cluster = LedCluster(session, host.cluster_id, _endpoint(settings))
        self.replicas = LedReplicas(host, self.cluster, lambda event: self.leaders.hear(event))
        self.isr = IsrStore(LedIsrZnodes(), host.ports.clock, session, self.replicas)
        self.leaders = LeadersShell(
            session,
            Settings(broker_id, keep_in_sync_time_ms=settings.replica_lag_time_max_ms),
            self.replicas,
            settings.min_insync_replicas,
            host.telemetry,
        )
        self.metadata = LedMetadata(
            session,
            self.cluster,
            host.metadata,
            self.replicas.look_at,
            self.replicas.look_at_brokers,
            host.limit_moves,
        )
        self.reports = LedReports(
            session, broker_id, self.cluster, host.metadata, host.replicas, self.replicas.declines
        )
        self.strays = StrayWatch(
            broker_id, host.cluster_id, self.cluster.read_suspects, self.replicas.held, self.replicas.let_go
        )
        self._deciding: asyncio.Task[None] | None = None

    @property
    def metrics(self) -> tuple[Sequence[MetricDeclaration], Measure]:
        """The queues of state changes that this broker follows."""

        def measure() -> Readings:
            lengths = dict(self.leaders.queue_lengths)
            return {LED_METRICS[0].name: {(str(broker_id),): length for broker_id, length in lengths.items()}}

        return LED_METRICS, measure

    def services(self) -> list[Service]:
        """Every broker answers what elsewhere a controller answers."""
        host, me = self._host, _endpoint(self._host.settings)
        acls = AclRequests(
            host.ports.session,
            ANY_BROKER,
            is_enforced=host.settings.authorization is Authorization.ACLS,
            super_users=host.settings.super_users,
        )
        servicer = LeadersControllerServicer(
            self.leaders, host.ports.session, self.cluster, host.cluster_id, me, acls
        )
        return [controller_service(servicer)]

    def stopped(self, replica: HostedReplica, delete: bool) -> None:
        """Take note that the core of a replica has stopped."""
        self.replicas.stopped(replica, delete)

    async def begin(self, stored: ClusterAsStored) -> None:
        """Follow what is known of the topics. Nothing is led before this broker listens."""
        self.metadata.start()

    async def join(self, patience_s: float) -> None:
        """Drain the queue, start the replicas, and register (V2 "Broker startup")."""
        host = self._host
        self.replicas.patience_s = patience_s
        deciding = asyncio.get_running_loop().create_task(
            self.leaders.run(host.registration.incarnation), name="leaders"
        )
        self._deciding = deciding
        deciding.add_done_callback(self._ended)
        await asyncio.wait((deciding, self.replicas.registered), return_when=asyncio.FIRST_COMPLETED)
        await (self.replicas.registered if self.replicas.registered.done() else deciding)
        self.strays.suspect(self.replicas.not_hosted())

    def _ended(self, deciding: asyncio.Task[None]) -> None:
        if not deciding.cancelled() and (error := deciding.exception()) is not None:
            self._host.fail(error if isinstance(error, Exception) else RuntimeError(str(error)))

    async def hand_over(self) -> None:
        """Leave the ISRs and the leader znodes of what others can lead."""
        timeout_ms = self._host.settings.controlled_shutdown_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self.leaders.hand_over()
        except TimeoutError:
            log.warning("leadership was not handed over within %d ms; stopping without", timeout_ms)

    async def close(self) -> None:
        """Stop deciding."""
        await self.strays.close()
        await self.reports.close()
        if self._deciding is not None:
            self._deciding.cancel()
            await asyncio.wait([self._deciding])
        await self.metadata.close()


def _endpoint(settings: BrokerSettings) -> EndpointView:
    inside, outside = settings.advertised, settings.external_advertised
    return EndpointView(
        settings.broker_id, inside.host, inside.port, "" if outside is None else outside.host,
        0 if outside is None else outside.port,
    )  # fmt: skip
