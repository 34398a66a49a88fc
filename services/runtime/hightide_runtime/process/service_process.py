"""A service as a process: what all three services need besides what they serve, from their mains to the exit
code."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from hightide_runtime.access.authoriser import Authoriser
from hightide_runtime.access.callers import UnknownIdentity
from hightide_runtime.access.identities import check_own_identity
from hightide_runtime.errors import StartupError
from hightide_runtime.process.idle_collection import IdleCollection
from hightide_runtime.process.logs import set_up_logging
from hightide_runtime.process.loop_watchdog import LoopWatchdog
from hightide_runtime.process.process_metrics import report_process
from hightide_runtime.process.running import StopSignal, end_process, run_service
from hightide_runtime.process.settings import Authorization, ServiceSettings
from hightide_runtime.serving.channels import OpenChannel, channel_opener
from hightide_runtime.telemetry.metric_export import Metrics
from hightide_runtime.telemetry.tracing import Telemetry
from hightide_runtime.tls.certificates import ReloadedCertificates
from hightide_runtime.tls.files import ClientAuth, ServerTls
from hightide_runtime.zookeeper.access_check import open_session
from hightide_runtime.zookeeper.session import ZooKeeperSession

__all__ = ["ServiceProcess", "run_process"]


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """What a service needs to run. Its creator closes it, the session first."""

    telemetry: Telemetry
    metrics: Metrics
    session: ZooKeeperSession
    open_channel: OpenChannel
    """How this process calls others: with TLS if its settings say so."""
    stopping: StopSignal
    """Set by SIGTERM and SIGINT."""
    loop_watchdog: LoopWatchdog
    """The watch over the event loop; its thread also checks other things that can hang."""
    authoriser: Authoriser | None
    """The ACLs that its callers are subject to; None: to none."""

    async def until_stopped(self, *others: asyncio.Event) -> None:
        """Wait until one of the others is set, a signal tells the process to stop, or the session is
        refused."""
        events = (self.stopping, self.session.refused, *others)
        waiting = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    async def unless_told_again(self, leaving: Coroutine[Any, Any, None]) -> bool:
        """Carry out what a service does for others before it stops, until a second signal comes. Returns
        whether it was carried out. Raises what it raises."""
        doing = asyncio.create_task(leaving)
        again = asyncio.create_task(self.stopping.again.wait())
        try:
            await asyncio.wait((doing, again), return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                await doing
                return True
            return False
        finally:
            for task in (doing, again):
                task.cancel()
            await asyncio.wait((doing, again))


def run_process(
    role: str,
    number: int,
    settings: ServiceSettings,
    serve: Callable[[ServiceProcess], Awaitable[None]],
) -> NoReturn:
    """Run `serve` until it returns, and end the process with its exit code. Mains call it with their command
    line; `role` and `number`: `broker`, 2.

    The exit code is 1, with one line on stderr, if `serve` raises StartupError, or if ZooKeeper cannot be
    reached or is another cluster's.
    """
    set_up_logging(settings.log_level, f"{role}-{number}", settings.log_format)
    # The state of ten thousand partitions or consumers lives for ever, and the collector need not check it
    # with every 700 new objects. Reference counts free what a request allocates. The second number bounds a
    # stop: a collection of the middle generation goes through all that was made since the last one. Most
    # collections are those of an idle process (`IdleCollection`).
    gc.set_threshold(100_000, 1, 1_000)

    async def service(stopping: StopSignal) -> None:
        async with _open(role, number, settings, stopping) as process:
            await serve(process)

    end_process(run_service(f"hightide-{role}", service))


def _check_certificate(role: str, number: int, tls: ServerTls | None) -> None:
    """Refuse the certificate of another process, where callers are known by theirs. Raises StartupError."""
    if tls is None or tls.client_auth is ClientAuth.NONE:
        return
    try:
        check_own_identity(ReloadedCertificates(tls.files).current().uris, role, number)
    except UnknownIdentity as error:
        raise StartupError(
            f"other processes would not know this one by {tls.files.certificate}: {error}; issue its own "
            f"certificate by `hightide certs issue {role}/{number}`"
        ) from None


def _authoriser(settings: ServiceSettings) -> Authoriser | None:
    """The ACLs of a process, if it has any; they are read later."""
    if settings.authorization is Authorization.NONE:
        return None
    return Authoriser(settings.super_users)


@asynccontextmanager
async def _open(
    role: str, number: int, settings: ServiceSettings, stopping: StopSignal
) -> AsyncIterator[ServiceProcess]:
    # First, so that a wrong certificate is found before other processes notice that this one exists.
    open_channel = channel_opener(settings.tls_files)
    _check_certificate(role, number, settings.server_tls)
    telemetry = Telemetry.set_up(role, str(number))
    metrics = Metrics.set_up(role, str(number), settings.prometheus_listen)
    try:
        session = await open_session(
            settings.zookeeper,
            settings.zookeeper_security(),
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
            connect_timeout_ms=settings.zookeeper_connect_timeout_ms,
        )
        report_process(metrics, session)
        loop_watchdog = LoopWatchdog(session)
        idle_collection = IdleCollection()
        authoriser = _authoriser(settings)
        if authoriser is not None:
            authoriser.start(session)
        try:
            yield ServiceProcess(
                telemetry, metrics, session, open_channel, stopping, loop_watchdog, authoriser
            )
        finally:
            if authoriser is not None:
                await authoriser.close()
            await idle_collection.close()
            loop_watchdog.close()
            # Ends the session, so that what it holds is free at once and another process takes over.
            await session.close()
            if session.refusal is not None:
                # Even if something else has failed by then.
                raise session.refusal
    finally:
        telemetry.shut_down()
        metrics.shut_down()
