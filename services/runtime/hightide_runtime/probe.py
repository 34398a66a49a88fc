"""`python -m hightide_runtime.probe HOST:PORT…`: whether processes say over gRPC that they serve.

A healthcheck runs every few seconds in every container, and gRPC's library alone takes a quarter of a second
of CPU to load. So this speaks the little of HTTP/2 that one Health/Check takes (RFC 9113), from the standard
library: the request is always the same bytes, and of the answer only the message is looked at.

Exit code 0: all serve; 1: one does not, and a line on stderr says which and why; 2: wrong usage. With
`--watch` it goes on looking, and prints each change. `--tls-of HIGHTIDE_BROKER` makes it use TLS if the
environment has HIGHTIDE_BROKER_TLS_CERTIFICATE, _TLS_KEY and _TLS_CA, the settings of the process itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hightide_runtime.addresses import HostPort

if TYPE_CHECKING:
    import ssl

USAGE = "usage: python -m hightide_runtime.probe [--watch] [--tls-of HIGHTIDE_SERVICE] HOST:PORT…"
PATIENCE_S = 2.0
WATCH_INTERVAL_S = 2.0
ANSWER_MAX_BYTES = 64 * 1024
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, END_HEADERS, ACK = 0x1, 0x4, 0x1
#: HealthCheckResponse.status, by number.
STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


class NotServing(Exception):
    """Why a process does not count as serving, as a sentence."""


def check(address: HostPort, tls: ssl.SSLContext | None = None) -> None:
    """Ask grpc.health.v1.Health/Check about the server as a whole. Raises NotServing."""
    try:
        with contextlib.ExitStack() as open_ones:
            connection = socket.create_connection((address.host, address.port), PATIENCE_S)
            open_ones.enter_context(connection)
            if tls is not None:
                connection = open_ones.enter_context(tls.wrap_socket(connection))
            connection.sendall(_request(address))
            status = _status_in(_Frames(connection))
    except OSError as error:
        raise NotServing(f"{address} cannot be asked: {error.strerror or error}") from None
    if status != 1:
        name = STATUSES[status] if status < len(STATUSES) else str(status)
        raise NotServing(f"{address} says that it is {name}")


def tls_of(prefix: str, environment: Mapping[str, str]) -> ssl.SSLContext | None:
    """The TLS of the process whose settings begin with `prefix`; None: it has none. Raises NotServing."""
    files = [environment.get(f"{prefix}_TLS_{name}") for name in ("CA", "CERTIFICATE", "KEY")]
    if not all(files):
        return None
    import ssl  # It takes a while, and most have no TLS.

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The process is asked by the address at which it listens, which its certificate need not name.
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    ca, certificate, key = files
    try:
        context.load_verify_locations(ca)
        context.load_cert_chain(str(certificate), key)
    except OSError as error:
        raise NotServing(f"{ca}, {certificate} and {key} cannot be used: {error}") from None
    return context


def _request(address: HostPort) -> bytes:
    """Preface, settings, and one call on stream 1: about everything, hence an empty message."""
    headers = b"".join(
        _header(name, value)
        for name, value in (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/grpc.health.v1.Health/Check"),
            (":authority", str(address)),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("grpc-timeout", f"{int(PATIENCE_S * 1000)}m"),
        )
    )
    return b"".join(
        (
            PREFACE,
            _frame(SETTINGS, 0, 0, b""),
            _frame(HEADERS, END_HEADERS, 1, headers),
            _frame(DATA, END_STREAM, 1, struct.pack(">BI", 0, 0)),
        )
    )


def _header(name: str, value: str) -> bytes:
    """A literal without indexing, neither name nor value compressed (RFC 7541, 6.2.2)."""
    return b"\x00" + b"".join(bytes((len(text),)) + text.encode() for text in (name, value))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class _Frames:
    """The frames that a server sends, each at most 16 KiB, and not more of them than an answer takes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._left_bytes = ANSWER_MAX_BYTES
        self._deadline = time.monotonic() + PATIENCE_S

    def next(self) -> tuple[int, int, bytes]:
        """The kind, the flags and the payload. Raises OSError."""
        head = self._read(9)
        length = int.from_bytes(head[:3], "big")
        return head[3], head[4], self._read(length)

    def acknowledge_settings(self) -> None:
        """A server may wait for it."""
        self._connection.sendall(_frame(SETTINGS, ACK, 0, b""))

    def _read(self, size_bytes: int) -> bytes:
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            raise OSError("it answers more than a health check can be")
        parts = b""
        while len(parts) < size_bytes:
            left_s = self._deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"no answer within {PATIENCE_S:g} s")
            self._connection.settimeout(left_s)
            part = self._connection.recv(size_bytes - len(parts))
            if not part:
                raise OSError("it closed the connection; is it a gRPC server?")
            parts += part
        return parts


def _status_in(frames: _Frames) -> int:
    """The status in the one message of the answer, 0 where the message is empty."""
    message = b""
    while True:
        kind, flags, payload = frames.next()
        if kind == SETTINGS and not flags & ACK:
            frames.acknowledge_settings()
        elif kind == DATA:
            message += payload
            if len(message) >= 5:
                # A flag and a length, then field 1 as a varint: no status needs a second byte.
                return message[6] if len(message) >= 7 and message[5] == 0x08 else 0
        elif kind in (RST_STREAM, GOAWAY) or (kind == HEADERS and flags & END_STREAM):
            raise OSError("it answered the call with an error")


def watch(addresses: Sequence[HostPort], tls: ssl.SSLContext | None = None) -> None:
    """Look again and again, and print each change, until the process is ended."""
    told: dict[HostPort, str] = {}
    while True:
        for address in addresses:
            try:
                check(address, tls)
                now = f"{address} serves"
            except NotServing as why:
                now = str(why)
            if told.get(address) != now:
                told[address] = now
                print(now, flush=True)
        time.sleep(WATCH_INTERVAL_S)


def main(arguments: Sequence[str]) -> int:
    """The exit code. Called by the HEALTHCHECK of the images, and by the compose service `broker`."""
    left = [each for each in arguments if each != "--watch"]
    watching = len(left) < len(arguments)
    tls = None
    try:
        if "--tls-of" in left[:-1]:
            at = left.index("--tls-of")
            tls = tls_of(left[at + 1], os.environ)
            del left[at : at + 2]
        addresses = [HostPort.parse(each) for each in left]
    except NotServing as why:
        print(why, file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"{error}\n{USAGE}", file=sys.stderr)
        return 2
    if not addresses:
        print(USAGE, file=sys.stderr)
        return 2
    if watching:
        with contextlib.suppress(KeyboardInterrupt):
            watch(addresses, tls)
        return 0
    failed = False
    for address in addresses:
        try:
            check(address, tls)
        except NotServing as why:
            print(why, file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
