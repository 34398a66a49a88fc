"""A ZooKeeper server's report about itself, and the session timeouts that it grants: two short conversations
over a socket, both bounded in time and size. It uses no client library, which would reconnect and
wait."""

import re
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from hightide_runtime.zookeeper.tls_socket import ZooKeeperTls

_Connect: TypeAlias = Callable[[], socket.socket]

_ANSWER_BYTES_MAX: Final = 64 << 10
# A ConnectRequest: protocol version, last zxid seen, timeout asked for, session id, password.
_CONNECT = struct.Struct(">iiqiqi16s")
_CONNECT_ANSWER = struct.Struct(">iiq")
# closeSession, with xid 1 and opcode -11.
_CLOSE: Final = struct.pack(">iii", 8, 1, -11)
_FIELD = re.compile(r"^([A-Za-z ]+?)(?: version| min/avg/max)?:\s*(.*)$", re.MULTILINE)


class ZooKeeperProbeError(Exception):
    """The server cannot be reached, or the answer is not from ZooKeeper; the message says which."""


@dataclass(frozen=True, slots=True)
class ZooKeeperFacts:
    """The facts about one server. `version` and `mode` are None if it does not answer `srvr`. The session
    timeouts are the least and the most that it grants, in milliseconds: by default two and twenty of its
    ticks."""

    address: str
    connect_ms: float
    session_timeout_min_ms: int
    session_timeout_max_ms: int
    version: str | None = None
    mode: str | None = None
    latency_average_ms: float | None = None


def servers_in(connection: str) -> list[str]:
    """The host:port of each server of host:port[,host:port…][/chroot]; the default port is 2181."""
    hosts, _, _ = connection.partition("/")
    named = [each.strip() for each in hosts.split(",") if each.strip()]
    return [each if ":" in each else f"{each}:2181" for each in named][:20]


def look_at(address: str, timeout_s: float, tls: "ZooKeeperTls | None" = None) -> ZooKeeperFacts:
    """Ask one server. Raises ZooKeeperProbeError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ZooKeeperProbeError(f"{address!r} is not host:port")
    connect = partial(_connect, (host.strip("[]"), int(port)), timeout_s, tls)
    try:
        begun_s = time.monotonic()
        least_ms = _granted(connect, 1)
        connect_ms = (time.monotonic() - begun_s) * 1000
        most_ms = _granted(connect, 2**31 - 1)
        told = _four_letters(connect)
    except (struct.error, ConnectionResetError, BrokenPipeError) as error:
        or_else = (
            "it refuses the certificate of --zookeeper-tls-certificate, or wants one"
            if tls
            else "it wants TLS (--zookeeper-tls-ca)"
        )
        raise ZooKeeperProbeError(
            f"the process that answers at {address} is not ZooKeeper, or {or_else}"
        ) from error
    except OSError as error:
        why = _tls_failure(error) or error.strerror or error
        raise ZooKeeperProbeError(f"{address} cannot be reached: {why}") from error
    fields = {name.strip().lower(): value.strip() for name, value in _FIELD.findall(told)}
    version = re.match(r"[0-9.]+", fields.get("zookeeper", ""))
    latency = re.fullmatch(r"[0-9.]+/([0-9.]+)/[0-9.]+", fields.get("latency", ""))
    return ZooKeeperFacts(
        address,
        connect_ms,
        least_ms,
        most_ms,
        version.group() if version else None,
        fields.get("mode"),
        float(latency.group(1)) if latency else None,
    )


def _connect(where: tuple[str, int], timeout_s: float, tls: "ZooKeeperTls | None") -> socket.socket:
    """A connection that waits for each answer this long. Raises OSError."""
    plain = socket.create_connection(where, timeout_s)
    if tls is None:
        return plain
    try:
        return tls.context().wrap_socket(plain, server_hostname=where[0])
    except BaseException:
        plain.close()
        raise


def _tls_failure(error: OSError) -> str:
    """Why TLS with the server failed, with the next step; empty if it is not TLS that failed."""
    if not isinstance(error, ssl.SSLError):
        return ""
    from hightide_runtime.zookeeper.tls_socket import tls_failure

    return tls_failure(error)


def _granted(connect: _Connect, asked_ms: int) -> int:
    """Open a session, close it, and return the granted timeout. Raises OSError, struct.error."""
    with connect() as connection:
        connection.sendall(_CONNECT.pack(_CONNECT.size - 4, 0, 0, asked_ms, 0, 16, bytes(16)))
        (length,) = struct.unpack(">i", _read(connection, 4))
        if not _CONNECT_ANSWER.size <= length <= 1024:
            raise struct.error("the answer to a connect request has some 40 bytes")
        _, granted_ms, session_id = _CONNECT_ANSWER.unpack_from(_read(connection, length))
        if not session_id or granted_ms <= 0:
            raise struct.error("no session was granted")
        connection.sendall(_CLOSE)
        # This is its answer: the session is gone, and does not linger on a server.
        connection.recv(64)
    return int(granted_ms)


def _read(connection: socket.socket, length: int) -> bytes:
    read = b""
    while len(read) < length:
        chunk = connection.recv(length - len(read))
        if not chunk:
            raise struct.error("the connection ended early")
        read += chunk
    return read


def _four_letters(connect: _Connect) -> str:
    """The answer to `srvr`, which a server may not be willing to give. Raises OSError."""
    read = b""
    with connect() as connection:
        connection.sendall(b"srvr")
        while len(read) < _ANSWER_BYTES_MAX and (chunk := connection.recv(4096)):
            read += chunk
    return read.decode(errors="replace")
