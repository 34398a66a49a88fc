"""A console that cannot listen, or cannot watch the cluster any more, does not go on."""

import asyncio
import errno
import signal
import socket
from typing import Any

import click
import pytest
import uvicorn
from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_cli.command_line.interrupts import interruptible
from hightide_console.app import application
from hightide_console.looks import Survey
from hightide_console.server import Server, run_until_interrupted, serve
from unit.console.canned_cluster import CannedDoor, canned_console


class Forbidden(socket.socket):
    """A socket of somebody who may not have the port."""

    def bind(self, _: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")


def test_a_port_that_the_user_may_not_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", Forbidden)
    with pytest.raises(
        click.ClickException, match=r"port 81 of 127\.0\.0\.1 cannot be used: Permission denied"
    ):
        serve(
            ClientArguments(), cluster="c", origin="what it says", port=81, allows_changes=False,
            announce=lambda _, __: None, trace_directories=(),
        )  # fmt: skip


def test_it_stops_by_itself_when_the_watch_of_the_cluster_has_failed() -> None:
    class WithBug(CannedDoor):
        async def survey(self) -> Survey:
            raise ZeroDivisionError

    async def run() -> BaseException | None:
        console = canned_console(door=WithBug())
        config = uvicorn.Config(application(console), log_level="warning", ws="none")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            console.watch.want()
            await Server(config, console).serve(sockets=[listener])
        return console.watch.failure

    assert isinstance(asyncio.run(run()), ZeroDivisionError)


def test_ctrl_c_runs_no_callback_twice(caplog: pytest.LogCaptureFixture) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    received: list[bytes] = []

    async def interrupted_while_a_callback_is_due() -> None:
        asyncio.get_running_loop().add_reader(near, lambda: received.append(near.recv(1)))
        far.send(b"x")
        await asyncio.sleep(0)
        assert not received, "the callback is due after this task"
        signal.raise_signal(signal.SIGINT)

    with near, far, interruptible(), pytest.raises(KeyboardInterrupt):
        run_until_interrupted(interrupted_while_a_callback_is_due())
    assert received == [b"x"]
    assert [record.getMessage() for record in caplog.records] == []
