"""`hightide-controller`: settings, ZooKeeper, the server and the shell, until SIGTERM."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import NoReturn

from hightide.v1 import controller_service_pb2_grpc as controller_grpc
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

from hightide_controller.convert import Identity
from hightide_controller.figures import FIGURES, controller_readings
from hightide_controller.servicer import ControllerServicer
from hightide_controller.settings import ControllerSettings
from hightide_controller.shell import CONTROLLER_SERVICE, Shell

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point, until SIGTERM or SIGINT; ends the process with its exit code."""
    settings = ControllerSettings.from_command_line(arguments)
    set_up_logging(settings.log_level, f"controller-{settings.controller_id}")
    # As in a broker: what is known of ten thousand partitions lives for ever, and need not be looked at over
    # and over while a failover makes as many new decisions.
    gc.set_threshold(100_000, 50, 100)
    end_process(run_service("hightide-controller", lambda stopping: _serve(settings, stopping)))


async def _serve(settings: ControllerSettings, stopping: asyncio.Event) -> None:
    telemetry = Telemetry.set_up("controller", str(settings.controller_id))
    metrics = Metrics.set_up("controller", str(settings.controller_id), settings.prometheus_listen)
    session = await ZooKeeperSession.connect(
        settings.zookeeper,
        session_timeout_ms=settings.zookeeper_session_timeout_ms,
        connect_timeout_ms=settings.zookeeper_connect_timeout_ms,
    )
    report_process(metrics, session)
    try:
        await _serve_with(settings, session, telemetry, metrics, stopping)
    finally:
        # Ends the session, so that /controller goes at once and a standby takes over.
        await session.close()
        telemetry.shut_down()
        metrics.shut_down()


async def _serve_with(
    settings: ControllerSettings,
    session: ZooKeeperSession,
    telemetry: Telemetry,
    metrics: Metrics,
    stopping: asyncio.Event,
) -> None:
    cluster_id = await session.ensure_cluster_id()
    advertised = settings.advertised
    outside = settings.external_advertised
    identity = Identity(
        cluster_id,
        settings.controller_id,
        advertised.host,
        advertised.port,
        "" if outside is None else outside.host,
        0 if outside is None else outside.port,
    )
    shell = Shell(settings, identity, session, telemetry, SystemClock())
    metrics.report(FIGURES, controller_readings(lambda: shell.state, shell.inbox, shell.tallies))
    server = await serve(
        settings.listen,
        [
            Service(
                CONTROLLER_SERVICE,
                ControllerServicer(shell),
                controller_grpc.add_ControllerServiceServicer_to_server,
            ),
            identity_service("controller", settings.controller_id, settings, session, SystemClock()),
        ],
        external=settings.external_listen,
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
        raise StartupError("this controller could not go on, its log says why; a standby takes over")


if __name__ == "__main__":
    main()
