"""The attack by connections: bytes that are no calls, at any port; read, left unread, held or cut off."""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Final

from fuzz.attack import Attack
from fuzz.channels import open_socket
from fuzz.frames import ATTACKS
from fuzz.plan import SCRAPE, AttackPlan

_HELD_MAX: Final = 30
_READ_S: Final = 0.3
_READ_BYTES: Final = 65_536
#: What a port for Prometheus gets: it speaks HTTP/1.
_FOR_SCRAPES: Final = (
    "HTTP/1",
    "HTTP/1",
    "random bytes",
    "preface, random bytes",
    "half a TLS hello",
    "nothing",
)


class ConnectionAttack(Attack):
    """Connects, sends one of the attacks of `fuzz.frames`, and ends the connection in one of four ways."""

    def __init__(self, name: str, plan: AttackPlan) -> None:
        super().__init__(name, f"{plan.seed} {name}")
        self._plan = plan
        self._held: list[socket.socket] = []

    def strike(self) -> str:
        """One connection. What becomes of it is no finding: the watch over the processes finds."""
        port = self.chance.choice(self._plan.ports)
        scrape = port.kind == SCRAPE
        what = self.chance.choice(_FOR_SCRAPES if scrape else tuple(ATTACKS))
        with_tls = bool(self._plan.tls) and not scrape and self.chance.random() < 0.7
        ending = self.chance.choice(("read", "unread", "held", "reset"))
        pieces = list(ATTACKS[what](self.chance))
        try:
            connection = open_socket(self._plan, port, with_tls=with_tls)
        except OSError as error:
            return f"not connected: {type(error).__name__}"
        try:
            for piece in pieces:
                connection.sendall(piece)
                if ending == "read":
                    _drop_answers(connection, 0)
            if ending == "read":
                _drop_answers(connection, _READ_S)
        except OSError:
            pass  # It was closed on us, or does not read on: both are right.
        self._end(connection, ending)
        return what

    def _end(self, connection: socket.socket, ending: str) -> None:
        if ending == "held":
            self._held.append(connection)
            if len(self._held) > _HELD_MAX:
                self._held.pop(self.chance.randrange(len(self._held))).close()
            return
        if ending == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def close(self) -> None:
        """Close what is held."""
        for each in self._held:
            each.close()


def _drop_answers(connection: socket.socket, wait_s: float) -> None:
    """Read what there is, and what comes within this time."""
    end_s = time.monotonic() + wait_s
    while select.select([connection], [], [], max(0.0, end_s - time.monotonic()))[0]:
        if not connection.recv(_READ_BYTES):
            return
