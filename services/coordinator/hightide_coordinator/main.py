"""`hightide-coordinator`: settings, ZooKeeper, the server and the shell, until SIGTERM."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import NoReturn

from hightide.v1 import coordinator_service_pb2_grpc as coordinator_grpc
from hightide_runtime.errors import StartupError
from hightide_runtime.logs import set_up_logging
from hightide_runtime.metrics import Metrics
from hightide_runtime.process_figures import report_process
from hightide_runtime.rpc_figures import report_rpcs
from hightide_runtime.running import end_process, first_of, run_service
from hightide_runtime.server_identity import identity_service
from hightide_runtime.serving import Service, serve
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry import Telemetry
from hightide_runtime.zookeeper import ZooKeeperSession

from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.figures import FIGURES, coordinator_readings
from hightide_coordinator.peers import COORDINATOR_SERVICE
from hightide_coordinator.servicer import CoordinatorServicer
from hightide_coordinator.settings import CoordinatorSettings
from hightide_coordinator.shards import fix_shard_count
from hightide_coordinator.shell import Shell

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point, until SIGTERM or SIGINT; ends the process with its exit code."""
    settings = CoordinatorSettings.from_command_line(arguments)
    set_up_logging(settings.log_level, f"coordinator-{settings.coordinator_id}")
    # What is known of thousands of consumers lives as long as they do, and need not be looked at over and
    # over while one of their groups is shared out anew.
    gc.set_threshold(100_000, 50, 100)
    end_process(run_service("hightide-coordinator", lambda stopping: _serve(settings, stopping)))


async def _serve(settings: CoordinatorSettings, stopping: asyncio.Event) -> None:
    telemetry = Telemetry.set_up("coordinator", str(settings.coordinator_id))
    metrics = Metrics.set_up("coordinator", str(settings.coordinator_id), settings.prometheus_listen)
    session = await ZooKeeperSession.connect(
        settings.zookeeper,
        session_timeout_ms=settings.zookeeper_session_timeout_ms,
        connect_timeout_ms=settings.zookeeper_connect_timeout_ms,
    )
    report_process(metrics, session)
    try:
        await _serve_with(settings, session, telemetry, metrics, stopping)
    finally:
        # Ends the session, so that whatever is left of the handover goes with it.
        await session.close()
        telemetry.shut_down()
        metrics.shut_down()


async def _serve_with(
    settings: CoordinatorSettings,
    session: ZooKeeperSession,
    telemetry: Telemetry,
    metrics: Metrics,
    stopping: asyncio.Event,
) -> None:
    telemetry.cluster_id = await session.ensure_cluster_id()
    await fix_shard_count(session, settings.shards)
    advertised = settings.advertised
    outside = settings.external_advertised
    identity = Endpoint(
        settings.coordinator_id,
        advertised.host,
        advertised.port,
        "" if outside is None else outside.host,
        0 if outside is None else outside.port,
    )
    shell = Shell(settings, identity, session, telemetry, SystemClock())
    metrics.report(FIGURES, coordinator_readings(shell))
    server = await serve(
        settings.listen,
        [
            Service(
                COORDINATOR_SERVICE,
                CoordinatorServicer(shell),
                coordinator_grpc.add_CoordinatorServiceServicer_to_server,
                without_deadline=frozenset({"RegisterConsumer"}),
            ),
            identity_service("coordinator", settings.coordinator_id, settings, session, SystemClock()),
        ],
        external=settings.external_listen,
        small_messages=True,
    )
    report_rpcs(metrics, server.timings)
    try:
        # A standby serves too: it answers who is active.
        shell.start()
        await server.set_serving(True)
        await first_of(stopping, shell.failed, session.refused)
    finally:
        await shell.close()
        await server.drain_for_good()
    if session.refusal is not None:
        raise session.refusal
    if shell.failed.is_set():
        raise StartupError("this coordinator could not go on, its log says why; a standby takes over")


if __name__ == "__main__":
    main()
