"""Opens channels: the one place of the SDK that says how, with which options, and with or without TLS."""

from collections.abc import Callable
from typing import Final

import grpc
import grpc.aio

from hightide.calls.tls_files import TlsFiles
from hightide.errors import InvalidArgumentError, TlsFault, TlsHandshakeError
from hightide.transport.tls_loading import load_tls

MESSAGE_BYTES_MAX: Final = 64 << 20

_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # A fetch may answer with a larger batch than asked for, so the limit is far above any setting.
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # A peer whose machine vanished is noticed within 15 s, even if no call reaches its deadline.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A broker that is back should be reached at once, not after gRPC's default of up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 200),
    # A channel shares its connection with no other channel: closing it ends the connection.
    ("grpc.use_local_subchannel_pool", 1),
    # A proxy from the environment never applies to brokers.
    ("grpc.enable_http_proxy", 0),
)


def channel_options(client_id: str | None = None) -> list[tuple[str, int | str]]:
    """The options of every channel of the SDK, and of other programs that use the protocol as its clients
    do."""
    options: list[tuple[str, int | str]] = list(_OPTIONS)
    if client_id:
        options.append(("grpc.primary_user_agent", client_id))
    return options


def channel_opener(tls: TlsFiles | None, client_id: str | None = None) -> Callable[[str], grpc.Channel]:
    """The way to open channels for threads. With `tls`, each channel has the files as they are when it is
    opened; then it may raise TlsHandshakeError. Raises InvalidArgumentError if the files cannot be used."""
    options = channel_options(client_id)
    if tls is None:
        return lambda address: grpc.insecure_channel(address, options=options)
    load_tls(tls)
    return lambda address: grpc.secure_channel(address, _credentials(tls, address), options=options)


def aio_channel_opener(
    tls: TlsFiles | None, client_id: str | None = None
) -> Callable[[str], grpc.aio.Channel]:
    """The way to open channels for a loop, as `channel_opener`. The few kilobytes of the files are read on
    the loop."""
    options = channel_options(client_id)
    if tls is None:
        return lambda address: grpc.aio.insecure_channel(address, options=options)
    load_tls(tls)
    return lambda address: grpc.aio.secure_channel(address, _credentials(tls, address), options=options)


def _credentials(tls: TlsFiles, address: str) -> grpc.ChannelCredentials:
    """The credentials of the files. Raises TlsHandshakeError: they could be used when the client began, so
    somebody is changing them, and the next attempt may find them whole."""
    try:
        loaded = load_tls(tls)
    except InvalidArgumentError as error:
        text = f"{address} is not connected to: {error.message}"
        raise TlsHandshakeError(text, address=address, fault=TlsFault.FILES, has_been_reached=False) from None
    return grpc.ssl_channel_credentials(loaded.ca, loaded.key, loaded.certificate)
