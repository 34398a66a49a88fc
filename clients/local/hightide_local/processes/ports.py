"""Chooses loopback ports that no other cluster takes while a process is down."""

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
#: Below the range from which the kernel takes ports for outgoing connections (32768 and up). A client could
#: take a port of that range while its process restarts. If it connects to this same port, it even talks to
#: itself.
_FIRST, _LAST = 15_000, 31_999
_ATTEMPTS = 200


class _Claims:
    """The ports that this process has chosen. No other process chooses one of them while this one lives, even
    if nothing listens on it at the moment. Otherwise two parallel tests would sometimes choose the same port.

    A claim is a lock on one byte of a file that all processes of a user share. It ends with the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ports: set[int] = set()
        self._file: int | None = None
        """Never closed, since a process that closes the file loses all its locks in it."""

    def __contains__(self, port: int) -> bool:
        return port in self._ports

    def take(self, port: int) -> bool:
        """Claim a port. Returns whether this process has it now."""
        with self._lock:
            try:
                file = self._file = self._open() if self._file is None else self._file
            except OSError:
                return True  # Without the file there are no claims.
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
    """Whether a process could listen on this port now."""
    with socket.socket() as probe:
        # Servers set it, too, so that old connections in TIME_WAIT do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port(taken: Iterable[int] = (), preferred: int | None = None) -> int:
    """Choose a port to listen on: `preferred` if it is free, else a random one. It is none of `taken`, and
    none that a living process has claimed. Raises ClusterError."""
    excluded = set(taken)
    if preferred is not None and preferred not in excluded and is_free(preferred) and _claims.take(preferred):
        return preferred
    choice = random.SystemRandom()
    for _ in range(_ATTEMPTS):
        port = choice.randint(_FIRST, _LAST)
        if port not in excluded and port not in _claims and is_free(port) and _claims.take(port):
            return port
    raise ClusterError(f"found no free port between {_FIRST} and {_LAST} on {HOST}")
