"""Loopback ports that stay ours while a process is down."""

import fcntl
import os
import random
import socket
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

from hightide_local.errors import ClusterError

HOST = "127.0.0.1"
#: Below the range from which the kernel picks the ports of outgoing connections (32768 and up): a port of
#: that range can be taken by any client while the process behind it is restarted, even by a client that is
#: trying to connect to it, which then talks to itself.
_FIRST, _LAST = 15_000, 31_999
_ATTEMPTS = 200


class _Claims:
    """The ports that this process has chosen. Others choose none of them as long as it lives, also where
    nobody listens yet, or nobody for a moment: of tests that run side by side two would meet sooner or later.

    Each is a lock on one byte of a file that the processes of a user share; it goes with the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ports: set[int] = set()
        self._file: int | None = None
        """Never closed: a process that closes such a file gives up all its locks in it."""

    def __contains__(self, port: int) -> bool:
        return port in self._ports

    def take(self, port: int) -> bool:
        """Whether the port is ours from now on, or was before."""
        with self._lock:
            try:
                file = self._file = self._open() if self._file is None else self._file
            except OSError:
                return True  # Nowhere to write it down: ports are as free as they look.
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            except OSError:
                return False
            self._ports.add(port)
            return True

    @staticmethod
    def _open() -> int:
        path = Path(tempfile.gettempdir(), f"hightide-ports-{os.getuid()}")
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


_claims = _Claims()


def is_free(port: int) -> bool:
    """Whether a process could listen on the port now."""
    with socket.socket() as probe:
        # As servers do it: connections in TIME_WAIT from before do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port(taken: Iterable[int] = (), preferred: int | None = None) -> int:
    """A port to listen on, not one of `taken`, nor one that a process that lives was given here before;
    `preferred` where it is free. Raises ClusterError."""
    excluded = set(taken)
    if preferred is not None and preferred not in excluded and is_free(preferred) and _claims.take(preferred):
        return preferred
    choice = random.SystemRandom()
    for _ in range(_ATTEMPTS):
        port = choice.randint(_FIRST, _LAST)
        if port not in excluded and port not in _claims and is_free(port) and _claims.take(port):
            return port
    raise ClusterError(f"found no free port between {_FIRST} and {_LAST} on {HOST}")
