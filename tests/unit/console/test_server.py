"""A console that cannot listen says where, and why."""

import errno
import socket
from typing import Any

import click
import pytest
from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_console.server import serve


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
