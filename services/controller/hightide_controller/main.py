"""`hightide-controller`: the server and the shell, until SIGTERM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from hightide.v1 import controller_service_pb2_grpc as controller_grpc
from hightide_runtime.cluster_settings.acl_requests import AclRequests
from hightide_runtime.cluster_settings.quota_requests import QuotaRequests
from hightide_runtime.errors import StartupError
from hightide_runtime.process.server_identity import identity_service
from hightide_runtime.process.service_process import ServiceProcess, run_process
from hightide_runtime.process.settings import Authorization
from hightide_runtime.quotas.live_quotas import LiveQuotas
from hightide_runtime.quotas.watched_quotas import watch_quotas
from hightide_runtime.serving.interceptors.interceptor import Plane
from hightide_runtime.serving.rpc_metrics import report_rpcs
from hightide_runtime.serving.server import Service, serve
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.znodes.coordination_znode import Coordination
from hightide_runtime.zookeeper.coordination import fix_coordination

from hightide_controller.authority import authority_of
from hightide_controller.contract.convert import Identity
from hightide_controller.metrics import METRICS, controller_readings
from hightide_controller.mutation_quota import MutationQuota
from hightide_controller.servicer import ControllerServicer
from hightide_controller.settings import ControllerSettings
from hightide_controller.shell import CONTROLLER_SERVICE, ControllerShell

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point, until SIGTERM or SIGINT; ends the process with its exit code."""
    settings = ControllerSettings.from_command_line(arguments)
    run_process("controller", settings.controller_id, settings, partial(_serve, settings))


async def _serve(settings: ControllerSettings, process: ServiceProcess) -> None:
    cluster_id = await process.session.ensure_cluster_id()
    await fix_coordination(process.session, Coordination.CONTROLLER, f"controller {settings.controller_id}")
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
    shell = ControllerShell(
        settings, identity, process.session, process.telemetry, SystemClock(), process.open_channel
    )
    quotas = LiveQuotas()
    watched = watch_quotas(process.session, quotas)
    authority = authority_of(shell)
    servicer = ControllerServicer(
        shell,
        AclRequests(
            process.session,
            authority,
            is_enforced=settings.authorization is Authorization.ACLS,
            super_users=settings.super_users,
        ),
        QuotaRequests(process.session, authority),
        MutationQuota(shell.counters, quotas),
    )
    process.metrics.report(
        METRICS,
        controller_readings(lambda: shell.state, shell.inbox, shell.counters, shell.longest_owed_ms),
    )
    server = await serve(
        settings.listen,
        [
            Service(
                CONTROLLER_SERVICE,
                servicer,
                controller_grpc.add_ControllerServiceServicer_to_server,
                plane=Plane.CONTROL,
            ),
            identity_service("controller", settings.controller_id, settings, process.session, SystemClock()),
        ],
        external=settings.external_listen,
        external_introspection=settings.external_introspection,
        tls=settings.server_tls,
        clients=settings.client_identities,
        quotas=quotas,
        authoriser=process.authoriser,
    )
    report_rpcs(process.metrics, server.timings)
    try:
        # A standby serves too: it names the active controller.
        shell.start()
        watched.start()
        await server.set_serving(True)
        await process.until_stopped(shell.failed)
    finally:
        await watched.close()
        await shell.close()
        await server.drain_for_good()
    if shell.failed.is_set():
        raise StartupError("this controller could not go on, its log says why; a standby takes over")


if __name__ == "__main__":
    main()
