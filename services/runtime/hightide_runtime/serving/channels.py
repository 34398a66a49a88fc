"""Opening gRPC channels between services, in one place."""

from typing import Protocol

import grpc

from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.server import DEFAULT_MAX_MESSAGE_BYTES
from hightide_runtime.tls.certificates import ReloadedCertificates
from hightide_runtime.tls.files import TlsFiles
from hightide_runtime.tls.reloading_channel import ReloadingChannel


class OpenChannel(Protocol):
    """Opens a channel to another process. Mains pass one, of `channel_opener`, to all that call others, so
    nobody else decides about TLS."""

    def __call__(self, address: HostPort, *, ping_ms: int | None = None) -> grpc.aio.Channel:
        """A channel to one process. `ping_ms`: its connection is pinged so often, and breaks when an answer
        takes as long; None: as is enough for calls."""
        ...


def channel_opener(tls: TlsFiles | None) -> OpenChannel:
    """How this process opens channels: with its certificate, to processes whose certificate is of its CA and
    names the host that is called. None: in plaintext. Raises StartupError if the files cannot be used."""
    if tls is None:
        return open_channel
    certificates = ReloadedCertificates(tls)

    def open_with_tls(address: HostPort, *, ping_ms: int | None = None) -> grpc.aio.Channel:
        return ReloadingChannel(
            certificates, lambda credentials: open_channel(address, ping_ms=ping_ms, credentials=credentials)
        )

    return open_with_tls


def open_channel(
    address: HostPort,
    *,
    ping_ms: int | None = None,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    credentials: grpc.ChannelCredentials | None = None,
) -> grpc.aio.Channel:
    """A channel to one process. Close it when the process is gone: a new one finds the next process at once.

    There are no interceptors. grpc.aio makes a reference cycle of each call through one, which holds the
    connection until the garbage collector runs. In our processes that may be never (service_process.py).
    """
    options = _channel_options(max_message_bytes, ping_ms)
    if credentials is None:
        return grpc.aio.insecure_channel(str(address), options)
    return grpc.aio.secure_channel(str(address), credentials, options)


def _channel_options(max_message_bytes: int, ping_ms: int | None) -> list[tuple[str, int]]:
    return [
        # 4 MiB by default; as servers take (server.py).
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        # Notice within 15 s that the other machine vanished, also between calls.
        ("grpc.keepalive_time_ms", 10_000 if ping_ms is None else ping_ms),
        # This is how long an answer may take; grpc.keepalive_timeout_ms changes nothing in gRPC 1.78.
        ("grpc.http2.ping_timeout_ms", 5_000 if ping_ms is None else ping_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # The default grows to two minutes, but a broker that is back must be found at once.
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 200),
        # Despite its name: how long one attempt to connect may take. A busy machine needs a moment.
        ("grpc.min_reconnect_backoff_ms", 5_000),
        # Channels to the same address share connection and backoff otherwise: a new one would not be fresh.
        ("grpc.use_local_subchannel_pool", 1),
        # The caller decides whether a call is repeated, because it knows what the call does.
        ("grpc.enable_retries", 0),
        # A proxy in the environment is never meant for connections inside a cluster.
        ("grpc.enable_http_proxy", 0),
    ]
