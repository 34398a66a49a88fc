"""Loopback ports that stay ours while a process is down."""

import random
import socket
from collections.abc import Iterable

from hightide_local.errors import ClusterError

HOST = "127.0.0.1"
#: Below the range from which the kernel picks the ports of outgoing connections (32768 and up): a port of
#: that range can be taken by any client while the process behind it is restarted, even by a client that is
#: trying to connect to it, which then talks to itself.
_FIRST, _LAST = 15_000, 31_999
_ATTEMPTS = 200


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
    """A port to listen on, not one of `taken`; `preferred` where it is free. Raises ClusterError."""
    excluded = set(taken)
    if preferred is not None and preferred not in excluded and is_free(preferred):
        return preferred
    choice = random.SystemRandom()
    for _ in range(_ATTEMPTS):
        port = choice.randint(_FIRST, _LAST)
        if port not in excluded and is_free(port):
            return port
    raise ClusterError(f"found no free port between {_FIRST} and {_LAST} on {HOST}")
