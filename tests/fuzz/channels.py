"""Connections of attackers: gRPC channels and bare sockets, with TLS where the plan has it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import grpc
from fuzz.plan import AttackPlan, Port

SOCKET_S: Final = 3.0
"""A bare socket waits so long, then gives up."""


def open_channel(plan: AttackPlan, port: Port) -> grpc.Channel:
    """A channel that shares its connection with no other."""
    options: Sequence[tuple[str, Any]] = (
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.max_receive_message_length", -1),
    )
    if not plan.tls:
        return grpc.insecure_channel(port.address, options)
    ca, certificate, key = (Path(each).read_bytes() for each in plan.tls)
    # No certificate of a test names the address of the external listener.
    named = (*options, ("grpc.ssl_target_name_override", "localhost"))
    return grpc.secure_channel(port.address, grpc.ssl_channel_credentials(ca, key, certificate), named)


def open_socket(plan: AttackPlan, port: Port, *, with_tls: bool) -> socket.socket:
    """A connected socket, behind a handshake with TLS. Raises OSError."""
    plain = socket.create_connection((port.host, port.number), timeout=SOCKET_S)
    if not with_tls:
        return plain
    ca, certificate, key = plan.tls
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])
    try:
        return context.wrap_socket(plain, server_hostname="localhost")
    except OSError:
        plain.close()
        raise
