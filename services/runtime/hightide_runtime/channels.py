"""The one place where services open gRPC channels to each other."""

from collections.abc import Callable, Sequence
from typing import Any

import grpc

from hightide_runtime.addresses import HostPort
from hightide_runtime.serving import DEFAULT_MAX_MESSAGE_BYTES
from hightide_runtime.trace_context import METADATA_KEY, current_traceparent


def open_channel(
    address: HostPort,
    *,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    traced: bool = False,
    credentials: grpc.ChannelCredentials | None = None,
) -> grpc.aio.Channel:
    """A channel to one process. `traced`: every call carries the current traceparent (control plane).

    Close it when the process is gone: after a restart, a new channel connects at once.
    """
    interceptors: Sequence[grpc.aio.ClientInterceptor] = [_TraceparentSender()] if traced else []
    options = _channel_options(max_message_bytes)
    if credentials is None:
        return grpc.aio.insecure_channel(str(address), options, interceptors=interceptors)
    return grpc.aio.secure_channel(str(address), credentials, options, interceptors=interceptors)


def _channel_options(max_message_bytes: int) -> list[tuple[str, int]]:
    return [
        # 4 MiB by default; as servers take (serving.py).
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        # Notice within 15 s that the other machine is gone without a word, also between calls.
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # The default grows to two minutes; a broker that is back must be found at once.
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 200),
        # In spite of its name, how long one attempt to connect may take: a busy machine needs a moment.
        ("grpc.min_reconnect_backoff_ms", 5_000),
        # Channels to the same address share connection and backoff otherwise: a new one would not be fresh.
        ("grpc.use_local_subchannel_pool", 1),
        # Whether a call is repeated is decided by who knows what it does.
        ("grpc.enable_retries", 0),
        # A proxy of the environment is never meant for the inside of a cluster.
        ("grpc.enable_http_proxy", 0),
    ]


class _TraceparentSender(grpc.aio.UnaryUnaryClientInterceptor):
    """Adds the traceparent of the current span to the metadata of unary calls."""

    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Any],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        """Called for each call of a traced channel."""
        traceparent = current_traceparent()
        if traceparent:
            metadata = grpc.aio.Metadata(*(client_call_details.metadata or ()), (METADATA_KEY, traceparent))
            client_call_details = grpc.aio.ClientCallDetails(
                method=client_call_details.method,
                timeout=client_call_details.timeout,
                metadata=metadata,
                credentials=client_call_details.credentials,
                wait_for_ready=client_call_details.wait_for_ready,
            )
        return await continuation(client_call_details, request)
