"""The parts of one broker, and how they are connected."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import Executor
from typing import Final

from hightide_runtime.addresses import HostPort
from hightide_runtime.clock import Clock
from hightide_runtime.quotas.live_quotas import LiveQuotas
from hightide_runtime.serving.answer_budget import answer_budgets
from hightide_runtime.serving.fair_limit import FairLimit
from hightide_runtime.serving.interceptors.interceptor import Plane
from hightide_runtime.serving.server import Service
from hightide_runtime.telemetry.metric_declarations import Measure
from hightide_runtime.telemetry.tracing import Telemetry
from hightide_runtime.znodes.cluster_znodes import BrokerZnode

from hightide_broker.cluster.coordinators import Coordinators
from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.contract.replica_calls import Follower
from hightide_broker.coordination.by_controller import ControllerDecider
from hightide_broker.coordination.decider import Host, MakeDecider
from hightide_broker.core.events import DirectoryFailed
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.data.delete_records import RecordDeletion
from hightide_broker.data.describe_producers import ProducerDescriptions
from hightide_broker.data.fetch import FetchHandler
from hightide_broker.data.list_offsets import OffsetLookup
from hightide_broker.data.log_start_writer import LogStartWriter
from hightide_broker.data.plain_records import PlainRecords
from hightide_broker.data.produce import ProduceHandler
from hightide_broker.data.producer_ids import ProducerIds
from hightide_broker.data.producer_owners import ProducerOwners
from hightide_broker.directories.disk_space import DiskSpace
from hightide_broker.directories.healing import ReplicaHealing
from hightide_broker.directories.hung_disks import HungDisks
from hightide_broker.directories.log_directories import LogDirectories, LogDirectory
from hightide_broker.directories.maintenance import Maintenance, MaintenanceSettings
from hightide_broker.directories.replica_descriptions import ReplicaDescriptions
from hightide_broker.directories.scrub import ReplicaScrub, ScrubSettings
from hightide_broker.hosting.registration import Registration
from hightide_broker.hosting.restart_checks import (
    begin_anew,
    check_readable,
    confirm_all,
    disown,
    leave_doubtful_isrs,
    look_at_disks,
)
from hightide_broker.metrics import MeasuredParts, broker_readings
from hightide_broker.ports import BrokerPorts
from hightide_broker.replica.group_commit import GroupCommit, GroupCommits
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import EffectPorts, ReplicaShell
from hightide_broker.replication.comparison import LeaderComparison
from hightide_broker.replication.digests import DigestServer
from hightide_broker.replication.fetchers import Fetchers, FetchSettings
from hightide_broker.replication.replica_server import ReplicaServer
from hightide_broker.servicer import ClientRpcs, ReplicaRpcs, services
from hightide_broker.settings import BrokerSettings
from hightide_broker.storage import StorageError

log = logging.getLogger(__name__)

READING_THREADS: Final = 2
"""Threads for reads of what is only on disk: while one waits for a slow disk or a long read, the other serves
the rest."""


class Assembly:
    """Builds the parts in one order; `close` stops them in the reverse order."""

    def __init__(
        self,
        settings: BrokerSettings,
        ports: BrokerPorts,
        telemetry: Telemetry,
        cluster_id: str,
        directories: LogDirectories,
        worker: Executor,
        make_decider: MakeDecider = ControllerDecider,
        *,
        is_measured: bool,
    ) -> None:
        """`make_decider` makes whoever decides about the replicas. `is_measured`: whether any exporter reads
        the metrics."""
        clock, session = ports.clock, ports.session
        self._settings = settings
        self._session = session
        self._directories = directories
        broker_id = settings.broker_id
        self.failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Done when the broker cannot go on, for example because no data directory is left: it stops, so
        that its leaderships move."""
        self._metadata = MetadataCache(cluster_id)
        self._replicas = HostedReplicas()
        self._coordinators = Coordinators(session, self._metadata)
        self.registration = Registration(
            session, broker_id, _znode_of(settings, clock), self._coordinators.take
        )
        # Session ids start at the time, so that those of an earlier life of this broker are not mistaken.
        self._sessions: LeaderSessions[PartitionKey] = LeaderSessions(clock.wall_us())
        self.answers = answer_budgets(settings.in_flight_answer_bytes_max)
        """The bytes of unread answers: of clients, and of followers and other members of the cluster."""
        self.quotas = LiveQuotas()
        """What each principal may take; whoever builds this tells it of changes."""
        self._shell = ReplicaShell(clock, self._sessions, telemetry, self.storage_failed)
        self._shell.counters.counts_what_is_sent = is_measured
        self._reads = ports.threads(READING_THREADS, "reads")
        self._at_rest = ports.threads(1, "at-rest")
        follow = ports.follow or ports.connect
        self._fetchers = Fetchers(self._replicas, self._shell, self._fetch_settings(), follow)
        self._replica_server = ReplicaServer(
            cluster_id, clock, self._replicas, self._sessions, self._shell, self._reads,
            self.answers[Plane.CONTROL],
        )  # fmt: skip
        self.decider = make_decider(self._host(ports, telemetry, cluster_id))
        self.hung_disks = HungDisks(self._replicas, self._fetchers, self.decider.reports)
        self._healing, self._comparison, self._scrub = self._care_for_data_at_rest(ports)
        self._log_starts = LogStartWriter(directories, self.storage_failed)
        self._shell.perform_with(self._effect_ports())
        # A connection has many batches under way, and shares with others only what is left.
        self._in_flight = FairLimit(settings.in_flight_produce_bytes_max, part=1)
        self._producer_owners = ProducerOwners()
        self._producing = ProduceHandler(
            broker_id, clock, self._replicas, self._metadata, self._shell, self._in_flight,
            self._producer_owners,
        )  # fmt: skip
        self._fetching = FetchHandler(
            broker_id, self._replicas, self._metadata, settings.parked_fetches_max, self._reads,
            self.answers[Plane.DATA], self._shell.counters,
        )  # fmt: skip
        self._offsets = OffsetLookup(broker_id, self._replicas, self._metadata, worker)
        self._producers = ProducerDescriptions(broker_id, self._replicas, self._metadata, worker)
        self._plain = PlainRecords(clock, self._producing, self._fetching, worker)
        self._maintenances = [self._maintenance(clock, each) for each in directories.online]
        directories.tell_of_failures(self._went_offline)
        directories.tell_of_damage(self._healing.met)

    def _care_for_data_at_rest(
        self, ports: BrokerPorts
    ) -> tuple[ReplicaHealing, LeaderComparison, ReplicaScrub]:
        """What looks for damage at rest and mends it. Its own thread does so: no read and no write waits."""
        settings, replicas, reports = self._settings, self._replicas, self.decider.reports
        address_of, at_rest = self._address_of, self._at_rest
        healing = ReplicaHealing(
            settings.broker_id, replicas, self._fetchers, reports, address_of, at_rest, ports.connect
        )
        comparison = LeaderComparison(replicas, self._follower, address_of, reports, at_rest, ports.connect)
        scrubbing = ScrubSettings(settings.scrub_bytes_per_s, settings.scrub_interval_ms)
        return healing, comparison, ReplicaScrub(replicas, at_rest, scrubbing, comparison)

    def _host(self, ports: BrokerPorts, telemetry: Telemetry, cluster_id: str) -> Host:
        """What the decider gets."""
        return Host(
            self._settings, ports, telemetry, cluster_id, self._directories, self._metadata, self._replicas,
            self._shell, self.registration, self._replica_server.limit_moves, self._tell_again, self.fail,
        )  # fmt: skip

    def _effect_ports(self) -> EffectPorts:
        """Who performs the effects of replicas that the shell does not perform itself."""
        commits = {path: self._group_commit(each) for path, each in self._directories.by_path.items()}
        return EffectPorts(
            fetching=self._fetchers,
            isr=self.decider.isr,
            stopped=self.decider,
            log_starts=self._log_starts,
            divergences=self.decider.reports,
            group_commit=GroupCommits(commits, lambda replica: replica.log.data_directory),
        )

    def _tell_again(self) -> None:
        """A new controller knows of nothing that was reported to earlier ones."""
        self._healing.tell_again()
        self._comparison.tell_again()
        self.hung_disks.tell_again()

    def _group_commit(self, directory: LogDirectory) -> GroupCommit[HostedReplica]:
        return GroupCommit(
            directory.executor, self._shell.flushed, self.storage_failed, self._shell.counters.fsync_s
        )

    def _fetch_settings(self) -> FetchSettings:
        settings = self._settings
        return FetchSettings(
            settings.replica_fetch_max_wait_ms, settings.replica_fetch_max_bytes,
            self._follower, self._address_of, self.registration.until_known,
        )  # fmt: skip

    def _maintenance(self, clock: Clock, directory: LogDirectory) -> Maintenance:
        settings = self._settings
        return Maintenance(
            clock, self._replicas, self._shell, directory.data, directory.executor,
            MaintenanceSettings(
                settings.high_watermark_checkpoint_interval_ms, settings.flush_interval_ms,
                settings.retention_check_interval_ms,
            ),
            self.storage_failed,
        )  # fmt: skip

    def services(self) -> list[Service]:
        """What the server serves."""
        return [*services(*self.rpcs()), *self.decider.services()]

    def rpcs(self) -> tuple[ClientRpcs, ReplicaRpcs]:
        """The RPCs of every broker, whoever decides."""
        client = ClientRpcs(
            self._settings.broker_id, self._metadata, self._replicas, self._producing, self._fetching,
            self._offsets, self._plain, ProducerIds(self._session), self._producer_owners,
            ReplicaDescriptions(self._replicas, self._metadata, self._directories), self._producers,
            RecordDeletion(
                self._settings.broker_id, self._replicas, self._metadata, self._shell, self._log_starts
            ),
            DiskSpace(self._directories), self.quotas,
        )  # fmt: skip
        digests = DigestServer(self._metadata.cluster_id, self._replicas, self._reads)
        return client, ReplicaRpcs(self._replica_server, digests)

    @property
    def measure(self) -> Measure:
        """The readings of this broker, as `Metrics.report` takes them."""
        return broker_readings(
            MeasuredParts(
                self._replicas, self._directories, self._shell, self.decider.isr, self._fetchers,
                self._fetching, self._sessions, self._in_flight, self.quotas, self.answers, self._healing,
                self._scrub, self._comparison,
            )
        )  # fmt: skip

    async def take_over_from_zookeeper(self, patience_s: float) -> None:
        """Find out how far the logs can be trusted, leave the ISRs that expect more, and start what ZooKeeper
        assigns to this broker (V3 section E).

        `patience_s`: how long to wait until another registration of our id is gone. Raises ZooKeeperError,
        StorageError, StartupError.
        """
        started = time.monotonic()
        await self.registration.begin_life(patience_s)
        if self._settings.knows_callers:
            await self._producer_owners.load(self._session)
        cluster, broker_id = self.decider.cluster, self._settings.broker_id
        stored = await cluster.read()
        broker_trust = await look_at_disks(
            self._directories, broker_id, stored.decisions, self.registration.incarnation
        )
        check_readable(broker_trust, stored.unreadable)
        stored = await leave_doubtful_isrs(self._session, cluster, broker_id, broker_trust, stored)
        await begin_anew(self._directories, broker_id, broker_trust, stored.decisions)
        await confirm_all(self._directories, self.registration.incarnation)
        self._metadata.apply(stored.metadata)
        await self.decider.begin(stored)
        self._coordinators.start()
        log.info(
            "took over %d replicas from ZooKeeper in %.0f ms",
            len(self._replicas),
            (time.monotonic() - started) * 1000,
        )

    async def stop_following(self) -> None:
        """Stop following. Called on SIGTERM, before leadership is handed over."""
        await self._fetchers.retire()

    def access_changed(self) -> None:
        """Let clients whose fetches wait ask again: the ACLs of the cluster have changed."""
        self._fetching.release()

    def answer_waiters(self) -> None:
        """Answer parked requests, so that the server can drain at once."""
        self.quotas.lift()
        self._fetching.close()
        self._replica_server.close()

    def storage_failed(self, error: Exception) -> None:
        """Handle an I/O error: if a data directory failed by it, its replicas go offline at once."""
        log.debug("an I/O error: %s", error)
        self._directories.look()

    def _went_offline(self, directory: LogDirectory) -> None:
        """Handle the failure of a data directory: its replicas stop serving, and the controller gets a
        report. Other replicas go on. The broker stops when no directory is left."""
        gone = [replica for replica in self._replicas if replica.log.data_directory == directory.path]
        for replica in gone:
            self._shell.feed(replica, DirectoryFailed())
        self.hung_disks.forget(directory)
        directory.executor.submit(disown, directory.data)
        if self._directories.online:
            self.decider.reports.report([replica.key for replica in gone])
        else:
            self.fail(StorageError(f"no data directory is left: {directory.failure}"))

    def fail(self, reason: Exception) -> None:
        """Stop the broker: it cannot go on."""
        if not self.failure.done():
            log.critical("the broker stops, since %s", reason)
            self.failure.set_result(reason)

    async def close(self) -> None:
        """Stop all parts, and store the high watermarks once more."""
        await self._scrub.close()
        await self._healing.close()
        await self.hung_disks.close()
        await self._coordinators.close()
        await self.decider.close()
        await self._fetchers.close()
        await self.decider.isr.close()
        await asyncio.gather(*(maintenance.close() for maintenance in self._maintenances))
        await self._log_starts.close()
        self._shell.close()
        await asyncio.gather(*(maintenance.checkpoint_last() for maintenance in self._maintenances))
        answers = not any(each.is_given_up for each in self._directories.all)
        self._reads.shutdown(wait=answers, cancel_futures=True)
        self._at_rest.shutdown(wait=answers, cancel_futures=True)

    def _follower(self) -> Follower:
        return Follower(
            self._metadata.cluster_id, self._settings.broker_id, self.registration.broker_epoch,
            self.registration.incarnation,
        )  # fmt: skip

    def _address_of(self, broker_id: int) -> HostPort | None:
        endpoint = self._metadata.brokers.get(broker_id)
        return None if endpoint is None else endpoint.address


def _znode_of(settings: BrokerSettings, clock: Clock) -> BrokerZnode:
    """The content of this broker's registration."""
    inside, outside = settings.advertised, settings.external_advertised
    return BrokerZnode(
        inside.host,
        inside.port,
        clock.wall_us() // 1000,
        external_host="" if outside is None else outside.host,
        external_port=0 if outside is None else outside.port,
    )
