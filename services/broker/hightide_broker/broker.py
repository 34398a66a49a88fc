"""One broker, and the order in which it starts and stops.

Start: ZooKeeper and the cluster id, data directories, ZooKeeper's content about our partitions, server,
registration. No other process learns of the broker before it can serve. Stop: end following, hand over
leadership, answer parked requests, drain the server, remove the registration, close logs, write the clean
marker.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

import grpc
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import StartupError
from hightide_runtime.process.server_identity import identity_service
from hightide_runtime.process.service_process import ServiceProcess
from hightide_runtime.quotas.watched_quotas import watch_quotas
from hightide_runtime.serving.call_stream_channel import CallStreamChannel
from hightide_runtime.serving.rpc_metrics import report_rpcs
from hightide_runtime.serving.server import Server, serve
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.znodes.coordination_znode import Coordination
from hightide_runtime.zookeeper.coordination import fix_coordination
from hightide_runtime.zookeeper.session import InconsistentClusterId, ZooKeeperError, ZooKeeperSession

from hightide_broker.assembly import Assembly
from hightide_broker.coordination.by_controller import ControllerDecider
from hightide_broker.coordination.by_leaders import LeadersDecider
from hightide_broker.coordination.decider import MakeDecider
from hightide_broker.directories.disk_watch import DiskWatch, patience_s
from hightide_broker.directories.log_directories import LogDirectories, LogDirectory, cluster_ids
from hightide_broker.metrics import METRICS
from hightide_broker.ports import BrokerPorts, os_threads
from hightide_broker.settings import BrokerSettings
from hightide_broker.storage import StorageError

log = logging.getLogger(__name__)

DRAIN_S: Final = 1.0
REGISTRATION_PATIENCE_SESSIONS: Final = 2.5
"""How many session timeouts to wait until another registration of our id expires."""


DECIDERS: Final[Mapping[Coordination, MakeDecider]] = {
    Coordination.CONTROLLER: ControllerDecider,
    Coordination.LEADERS: LeadersDecider,
}
"""By the setting `coordination`: who decides about the replicas."""


class Broker:
    """One life of one broker process. `main` calls `run` only."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._worker = os_threads(1, "records")

    async def run(self, process: ServiceProcess) -> None:
        """Start, serve until the process is told to stop, and stop. Raises StartupError."""
        try:
            await self._run(process)
        except ZooKeeperError as error:
            raise StartupError(f"ZooKeeper at {self._settings.zookeeper}: {error}; start it again") from error
        finally:
            self._worker.shutdown()

    async def _run(self, process: ServiceProcess) -> None:
        settings, session = self._settings, process.session
        disks = [LogDirectory(number, path) for number, path in enumerate(settings.data_dir)]
        watch = DiskWatch(
            disks, settings.disk_timeout_ms / 1000, lambda: patience_s(session.granted_timeout_ms)
        )
        process.loop_watchdog.look_also(watch.look)
        try:
            cluster_id = await self._join_cluster(session, disks)
            directories = await LogDirectories.open_all(disks, cluster_id, settings.broker_id)
        except StorageError as error:
            raise StartupError(str(error)) from error
        clean = False
        try:
            parts = Assembly(
                settings, _ports(process, session), process.telemetry,
                cluster_id, directories, self._worker, DECIDERS[settings.coordination],
                is_measured=process.metrics.enabled,
            )  # fmt: skip
            process.metrics.report(METRICS, parts.measure)
            process.metrics.report(*parts.decider.metrics)
            watch.tell(parts.hung_disks.does_not_answer, parts.hung_disks.answers)
            try:
                await parts.take_over_from_zookeeper(_patience_s(settings))
                await self._serve(process, parts)
            finally:
                await parts.close()
            clean = True
        except StorageError as error:
            where = ", ".join(map(str, settings.data_dir))
            raise StartupError(f"{error}; the data is in {where}") from error
        finally:
            await directories.close(clean)
        if parts.failure.done():
            raise StartupError(f"stopped, since {parts.failure.result()}")

    async def _join_cluster(self, session: ZooKeeperSession, disks: Sequence[LogDirectory]) -> str:
        """The cluster's id, which must be that of our data, if there is any. Raises StorageError,
        StartupError."""
        known = await cluster_ids(disks)
        try:
            cluster_id = await session.ensure_cluster_id(known)
        except InconsistentClusterId as error:
            raise StartupError(
                f"{error}, or with an empty --data-dir; what it has is in {', '.join(map(str, disks))}"
            ) from error
        await fix_coordination(session, self._settings.coordination, f"broker {self._settings.broker_id}")
        return cluster_id

    async def _serve(self, process: ServiceProcess, parts: Assembly) -> None:
        """Listen, register, and serve until the broker is told to stop, or cannot go on."""
        settings, session = self._settings, process.session
        if process.authoriser is not None:
            process.authoriser.followers.append(parts.access_changed)
        identity = identity_service("broker", settings.broker_id, settings, session, SystemClock())
        server = await serve(
            settings.listen,
            [*parts.services(), identity],
            external=settings.external_listen,
            external_introspection=settings.external_introspection,
            tls=settings.server_tls,
            clients=settings.client_identities,
            authoriser=process.authoriser,
            answers=parts.answers,
            quotas=parts.quotas,
            call_streams=True,
        )
        report_rpcs(process.metrics, server.timings)
        patience_s = _patience_s(settings)
        quotas = watch_quotas(session, parts.quotas)
        quotas.start()
        watching = asyncio.create_task(parts.registration.keep(session.session_id, patience_s))
        try:
            await parts.decider.join(patience_s)
            await server.set_serving(True)
            log.info("broker %d serves at %s", settings.broker_id, settings.advertised)
            told = asyncio.create_task(process.until_stopped())
            await asyncio.wait((told, parts.failure, watching), return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            if watching.done():
                watching.result()  # Its error is ours.
            if not await process.unless_told_again(self._leave(process, parts, server)):
                log.warning(
                    "broker %d waits neither for leadership to move nor for clients; its logs are closed",
                    settings.broker_id,
                )
        finally:
            watching.cancel()
            await asyncio.wait([watching])
            await quotas.close()
            await server.drain_for_good(0)

    async def _leave(self, process: ServiceProcess, parts: Assembly, server: Server) -> None:
        """Leave the cluster in good order: until the new leaders are known, clients are still served or
        referred to them. This may be cut short at any point; the logs are closed afterwards."""
        started = time.monotonic()
        settings = self._settings
        await parts.stop_following()
        await parts.decider.hand_over()
        handed_over = time.monotonic()
        parts.answer_waiters()
        await server.drain_for_good(DRAIN_S)
        await parts.registration.withdraw()
        log.info(
            "broker %d stops: leadership handed over in %.0f ms, drained in %.0f ms",
            settings.broker_id,
            (handed_over - started) * 1000,
            (time.monotonic() - handed_over) * 1000,
        )


def _ports(process: ServiceProcess, session: ZooKeeperSession) -> BrokerPorts:
    """The ports of a broker that is a process. Its followers call their leaders all the time."""

    def follow(address: HostPort, *, ping_ms: int | None = None) -> grpc.aio.Channel:
        return CallStreamChannel(process.open_channel(address, ping_ms=ping_ms))

    return BrokerPorts(SystemClock(), session, process.open_channel, follow=follow)


def _patience_s(settings: BrokerSettings) -> float:
    return settings.zookeeper_session_timeout_ms / 1000 * REGISTRATION_PATIENCE_SESSIONS
