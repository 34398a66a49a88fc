"""`hightide-coordinator`: the server and the shell, until SIGTERM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from hightide.v1 import coordinator_service_pb2_grpc as coordinator_grpc
from hightide_runtime.errors import StartupError
from hightide_runtime.process.server_identity import identity_service
from hightide_runtime.process.service_process import ServiceProcess, run_process
from hightide_runtime.quotas.live_quotas import LiveQuotas
from hightide_runtime.quotas.watched_quotas import watch_quotas
from hightide_runtime.serving.rpc_metrics import report_rpcs
from hightide_runtime.serving.server import Service, serve
from hightide_runtime.system_clock import SystemClock

from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.metrics import METRICS, coordinator_readings
from hightide_coordinator.servicer import CoordinatorServicer
from hightide_coordinator.settings import CoordinatorSettings
from hightide_coordinator.shell import CoordinatorShell
from hightide_coordinator.zookeeper.peers import COORDINATOR_SERVICE
from hightide_coordinator.zookeeper.shard_count import fix_shard_count

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point, until SIGTERM or SIGINT; ends the process with its exit code."""
    settings = CoordinatorSettings.from_command_line(arguments)
    run_process("coordinator", settings.coordinator_id, settings, partial(_serve, settings))


async def _serve(settings: CoordinatorSettings, process: ServiceProcess) -> None:
    session = process.session
    cluster_id = await session.ensure_cluster_id()
    shard_count = await fix_shard_count(session, settings.shards)
    advertised = settings.advertised
    outside = settings.external_advertised
    identity = Endpoint(
        settings.coordinator_id,
        advertised.host,
        advertised.port,
        "" if outside is None else outside.host,
        0 if outside is None else outside.port,
    )
    shell = CoordinatorShell(
        settings,
        shard_count,
        cluster_id,
        identity,
        session,
        process.telemetry,
        SystemClock(),
        process.open_channel,
    )
    process.metrics.report(METRICS, coordinator_readings(shell))
    quotas = LiveQuotas()
    watched = watch_quotas(session, quotas)
    if process.authoriser is not None:
        process.authoriser.followers.append(shell.access_changed)
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
        external_introspection=settings.external_introspection,
        tls=settings.server_tls,
        clients=settings.client_identities,
        authoriser=process.authoriser,
        small_messages=True,
        quotas=quotas,
    )
    report_rpcs(process.metrics, server.timings)
    try:
        # A standby serves too: it names the active coordinator.
        shell.start()
        watched.start()
        await server.set_serving(True)
        await process.until_stopped(shell.failed)
    finally:
        await watched.close()
        await shell.close()
        await server.drain_for_good()
    if shell.failed.is_set():
        raise StartupError("this coordinator could not go on, its log says why; a standby takes over")


if __name__ == "__main__":
    main()
