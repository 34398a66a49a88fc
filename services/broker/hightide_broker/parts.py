"""The parts of one broker, and what is built on what."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import Executor

from hightide_runtime.addresses import HostPort
from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import Telemetry
from hightide_runtime.znodes import BrokerZnode
from hightide_runtime.zookeeper import ZooKeeperSession

from hightide_broker.control import Control, on_disk_but_unassigned
from hightide_broker.core.events import StorageFailed
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.decisions import PartitionKey
from hightide_broker.fetch import Fetching
from hightide_broker.fetchers import Fetchers, FetchSettings
from hightide_broker.group_commit import GroupCommit
from hightide_broker.hosted import HostedReplicas
from hightide_broker.isr_store import IsrStore
from hightide_broker.limits import Budget
from hightide_broker.list_offsets import OffsetLookup
from hightide_broker.metadata import MetadataCache
from hightide_broker.plain_records import PlainRecords
from hightide_broker.produce import Producing
from hightide_broker.producer_ids import ProducerIds
from hightide_broker.registration import Registration
from hightide_broker.replica_calls import Follower
from hightide_broker.replica_server import ReplicaServer
from hightide_broker.servicer import ClientRpcs, ControlRpcs, ReplicaRpcs
from hightide_broker.settings import BrokerSettings
from hightide_broker.shell import ReplicaShell
from hightide_broker.startup import read_cluster
from hightide_broker.storage import DataDirectory
from hightide_broker.trust import assess, confirm, damaged_logs, leave_doubtful_isrs, suspend
from hightide_broker.upkeep import Upkeep, UpkeepSettings

log = logging.getLogger(__name__)


class Parts:
    """Builds them, in one order; `close` stops them in the other."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        telemetry: Telemetry,
        session: ZooKeeperSession,
        cluster_id: str,
        data: DataDirectory,
        disk: Executor,
        worker: Executor,
    ) -> None:
        self._settings = settings
        self._session = session
        self._data = data
        self._disk = disk
        broker_id = settings.broker_id
        self.failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Done when the data directory has failed: the broker stops, so that its leaderships move."""
        self._metadata = MetadataCache(cluster_id)
        self._replicas = HostedReplicas()
        advertised = settings.advertised
        self.registration = Registration(
            session, broker_id, BrokerZnode(advertised.host, advertised.port, clock.wall_us() // 1000)
        )
        # Session ids start at the time, so that those of an earlier life of this broker are not mistaken.
        sessions: LeaderSessions[PartitionKey] = LeaderSessions(time.time_ns() // 1000)
        self._shell = ReplicaShell(clock, sessions, telemetry, self.storage_failed)
        self._shell.group_commit = GroupCommit(disk, self._shell.flushed, self.storage_failed)
        self._isr_store = IsrStore(broker_id, clock, session, self._shell)
        self._shell.isr = self._isr_store
        self._fetchers = Fetchers(
            self._replicas,
            self._shell,
            FetchSettings(
                settings.replica_fetch_max_wait_ms,
                settings.replica_fetch_max_bytes,
                self._follower,
                self._address_of,
                self.registration.until_known,
            ),
        )
        self._shell.fetching = self._fetchers
        self._control = Control(
            broker_id, clock, self._replicas, self._metadata, self._shell, data, disk, self.registration,
            telemetry, settings.replica_lag_time_max_ms, settings.min_insync_replicas,
        )  # fmt: skip
        self._shell.stopping = self._control
        in_flight = Budget(settings.in_flight_produce_bytes_max)
        self._producing = Producing(broker_id, clock, self._replicas, self._metadata, self._shell, in_flight)
        self._fetching = Fetching(broker_id, self._replicas, self._metadata, settings.parked_fetches_max)
        self._offsets = OffsetLookup(broker_id, self._replicas, self._metadata, worker)
        self._plain = PlainRecords(clock, self._producing, self._fetching, worker)
        self._replica_server = ReplicaServer(cluster_id, clock, self._replicas, sessions, self._shell)
        self._upkeep = Upkeep(
            clock, self._replicas, self._shell, data, disk,
            UpkeepSettings(
                settings.high_watermark_checkpoint_interval_ms, settings.flush_interval_ms,
                settings.retention_check_interval_ms,
            ),
            self.storage_failed,
        )  # fmt: skip

    def rpcs(self) -> tuple[ClientRpcs, ReplicaRpcs, ControlRpcs]:
        """What the server serves."""
        client = ClientRpcs(
            self._settings.broker_id, self._metadata, self._replicas, self._producing, self._fetching,
            self._offsets, self._plain, ProducerIds(self._session),
        )  # fmt: skip
        return client, ReplicaRpcs(self._replica_server), ControlRpcs(self._control)

    async def take_over_from_zookeeper(self) -> None:
        """Start the replicas that ZooKeeper assigns to this broker, in the roles that it says (V3 section E).

        Raises ZooKeeperError, StorageError, StartupError.
        """
        started = time.monotonic()
        settings = self._settings
        loop = asyncio.get_running_loop()
        stored = await read_cluster(self._session, settings.broker_id)
        trust = await loop.run_in_executor(
            self._disk, assess, settings.data_dir, self._data.was_closed_cleanly
        )
        if not self._data.was_closed_cleanly:
            await loop.run_in_executor(self._disk, suspend, settings.data_dir)
        damaged = await loop.run_in_executor(self._disk, damaged_logs, self._data, stored.decisions)
        stored = await leave_doubtful_isrs(self._session, settings.broker_id, trust, damaged, stored)
        await loop.run_in_executor(self._disk, confirm, settings.data_dir)
        self._metadata.apply(stored.metadata)
        self._control.controller_epoch = stored.controller_epoch
        await self._control.decide(None, stored.decisions)
        for topic_id, partition in on_disk_but_unassigned(self._data, self._replicas):
            log.warning(
                "partition %d of topic id %s is on disk but not assigned to this broker: it is kept as it is",
                partition,
                topic_id.hex(),
            )
        log.info(
            "took over %d replicas from ZooKeeper in %.0f ms",
            len(self._replicas),
            (time.monotonic() - started) * 1000,
        )

    async def stop_following(self) -> None:
        """Follow nobody any more. Called on SIGTERM, before leadership is handed over."""
        await self._fetchers.retire()

    def answer_waiters(self) -> None:
        """Answer what is parked, so that the server can drain at once."""
        self._fetching.close()
        self._replica_server.close()

    def storage_failed(self, error: Exception) -> None:
        """The data directory is out of service: so are all replicas, and the broker stops."""
        if self.failure.done():
            return
        log.critical("the data directory failed, the broker stops: %s", error)
        self.failure.set_result(error)
        for replica in self._replicas:
            self._shell.feed(replica, StorageFailed())

    async def close(self) -> None:
        """Stop what runs, and write the high watermarks down once more."""
        await self._fetchers.close()
        await self._isr_store.close()
        await self._upkeep.close()
        self._shell.close()
        if not self.failure.done():
            await self._upkeep.checkpoint()

    def _follower(self) -> Follower:
        return Follower(self._metadata.cluster_id, self._settings.broker_id, self.registration.broker_epoch)

    def _address_of(self, broker_id: int) -> HostPort | None:
        endpoint = self._metadata.brokers.get(broker_id)
        return None if endpoint is None else endpoint.address
