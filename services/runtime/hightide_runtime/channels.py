"""The one place where services open gRPC channels to each other."""

import grpc

from hightide_runtime.addresses import HostPort
from hightide_runtime.serving import DEFAULT_MAX_MESSAGE_BYTES


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
    raise NotImplementedError
