"""Ending the ZooKeeper session of a process that goes on running, as an expiry does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kazoo.client import KazooClient

_SUPER_SECRET: Final = 0xB3415C00
"""Of ZooKeeper's SessionTrackerImpl: the password of a session is drawn from its id and this."""
_MULTIPLIER: Final = 0x5DEECE66D
_BITS: Final = (1 << 48) - 1
_ATTEMPTS: Final = 20


def end_session_of(hosts: str, ephemeral: str) -> None:
    """A twin of the client that holds this ephemeral znode takes its session over, and closes it."""
    with _started(KazooClient(hosts, timeout=10.0)) as looker:
        session_id = looker.get(ephemeral)[1].owner_session_id
    assert session_id, f"{ephemeral} is ephemeral"
    end_session(hosts, session_id, password_of(session_id))


def end_session(hosts: str, session_id: int, password: bytes) -> None:
    """A twin takes the session over and closes it, until it is gone.

    The client that is robbed may take it back before the twin has closed it.
    """
    for attempt in range(_ATTEMPTS):
        with _started(KazooClient(hosts, timeout=10.0, client_id=(session_id, password))) as twin:
            # None where it was taken back already: the twin has no connection then.
            found = twin.client_id
        is_gone = found is not None and found[0] != session_id
        if is_gone:
            assert attempt, f"session {session_id:#x} was not there to be ended"
            return
    raise AssertionError(f"session {session_id:#x} was taken back {_ATTEMPTS} times")


@contextmanager
def _started(client: KazooClient) -> Iterator[KazooClient]:
    """Its session ends with the block, however that ends."""
    try:
        # Not start(): that fails where the connection is lost again by the time it looks.
        client.start_async().wait(60)
        yield client
    finally:
        client.stop()
        client.close()


def password_of(session_id: int) -> bytes:
    """As `java.util.Random(session_id ^ secret).nextBytes(16)` draws it."""
    state = ((session_id ^ _SUPER_SECRET) ^ _MULTIPLIER) & _BITS
    drawn = bytearray()
    for _ in range(4):
        state = (state * _MULTIPLIER + 0xB) & _BITS
        drawn += (state >> 16 & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(drawn)
