"""Whose connection it is, told by the port that it comes from."""

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from hightide_local.processes import socket_owners

Owners = Callable[[frozenset[int], Mapping[str, int]], dict[int, str]]
WAYS: Iterable[Owners] = [socket_owners._by_psutil] + (
    [socket_owners._by_proc] if Path("/proc/net/tcp").exists() else []
)


@pytest.mark.parametrize("owners", WAYS)
def test_a_connection_is_found_in_the_process_that_made_it(owners: Owners) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        port = client.getsockname()[1]
        pids = {"parent": os.getppid(), "us": os.getpid(), "nobody": 2**22 - 1}
        assert owners(frozenset({port, 1}), pids) == {port: "us"}
        assert owners(frozenset({port}), {"parent": os.getppid()}) == {}
