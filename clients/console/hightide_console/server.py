"""Serves a console on loopback until it is told to stop."""

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import click
import uvicorn
from hightide_cli.command_line.client_arguments import ClientArguments

from hightide_console.access import TOKEN_PARAMETER, Access, hosts_of
from hightide_console.app import application
from hightide_console.console import Console
from hightide_console.door import ClusterDoor
from hightide_console.identity import identity_of
from hightide_console.reading import RecordReading
from hightide_console.settings import ConsoleSettings

HOST: Final = "127.0.0.1"
_CONNECTIONS_MAX: Final = 200
_GRACE_S: Final = 1


def serve(
    arguments: ClientArguments,
    *,
    cluster: str,
    origin: str,
    port: int,
    allows_changes: bool,
    announce: Callable[[str, str], None],
    trace_directories: tuple[Path, ...],
) -> None:
    """Serve until Ctrl-C or SIGTERM. `announce` gets the address to open, and one that opens a session once,
    as soon as requests are accepted. Raises ClickException if the port cannot be had, and what ended the
    watch of the cluster."""
    listener = _listener(port)
    own_port: int = listener.getsockname()[1]
    settings = ConsoleSettings(
        HOST, own_port, cluster, origin, allows_changes=allows_changes, acts_as=identity_of(arguments)
    )
    with listener:
        run_until_interrupted(_serve(settings, arguments, trace_directories, listener, announce))


def run_until_interrupted(serving: Coroutine[Any, Any, None]) -> None:
    """Run it in an event loop of its own. Called by `serve`. Raises KeyboardInterrupt for Ctrl-C, but only
    when the loop has ended: uvicorn sends itself the signal that ended it once more. If that left the loop
    from one of its callbacks, others that are due would stay in it and run twice while it closes. That of
    gRPC then has nothing to read, and asyncio writes a traceback."""
    if asyncio.run(_is_interrupted(serving)):
        raise KeyboardInterrupt


async def _is_interrupted(serving: Coroutine[Any, Any, None]) -> bool:
    try:
        await serving
    except KeyboardInterrupt:
        return True
    return False


class Server(uvicorn.Server):
    """Ends the streams of open windows first; uvicorn waits for them, and they have no end of their own.
    Stops by itself if the watch of the cluster has failed."""

    def __init__(self, config: uvicorn.Config, console: Console) -> None:
        super().__init__(config)
        self._console = console

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second; tells whether to stop."""
        return await super().on_tick(counter) or self._console.watch.failure is not None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn when it is to stop."""
        self._console.ending.set()
        await super().shutdown(sockets)


async def _serve(
    settings: ConsoleSettings,
    arguments: ClientArguments,
    trace_directories: tuple[Path, ...],
    listener: socket.socket,
    announce: Callable[[str, str], None],
) -> None:
    access = Access(hosts_of(settings.host, settings.port), settings.port)
    door = ClusterDoor(arguments)
    reading = RecordReading(door.admin, arguments)
    console = Console(settings, access, door, reading, trace_directories)
    server = Server(
        uvicorn.Config(
            application(console),
            log_level="warning",
            access_log=False,
            server_header=False,
            # It has no web sockets, and there is no proxy whose headers it would believe.
            ws="none",
            proxy_headers=False,
            limit_concurrency=_CONNECTIONS_MAX,
            timeout_graceful_shutdown=_GRACE_S,
        ),
        console,
    )
    listener.listen(128)
    address = f"http://{settings.host}:{settings.port}/?{TOKEN_PARAMETER}="
    announce(f"{address}{access.secret}", f"{address}{access.new_pass()}")
    await server.serve(sockets=[listener])
    if (failure := console.watch.failure) is not None:
        raise failure


def _listener(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise click.ClickException(
                f"port {port} of {HOST} is taken, perhaps by another console: give --port 0 for a free one"
            ) from error
        reason = error.strerror or error
        raise click.ClickException(f"port {port} of {HOST} cannot be used: {reason}") from error
    return listener
