"""A channel whose calls all carry the token of the command line."""

from typing import Any

import grpc
from hightide.calls.credentials import Credentials
from hightide.transport.bearer_token import BearerToken, Metadata


def with_token(channel: grpc.Channel, address: str, credentials: Credentials) -> grpc.Channel:
    """The channel as it is, or with the token if there is one. Raises TokenNotSentError,
    InvalidArgumentError."""
    if credentials.token_file is None:
        return channel
    return grpc.intercept_channel(channel, _Authorising(BearerToken(credentials).metadata(address)))


class _Details(grpc.ClientCallDetails):
    """The details of a call, with other metadata."""

    def __init__(self, details: Any, metadata: Metadata) -> None:
        self.method, self.timeout, self.credentials = details.method, details.timeout, details.credentials
        self.wait_for_ready, self.compression = details.wait_for_ready, details.compression
        self.metadata = (*(details.metadata or ()), *metadata)


class _Authorising(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Adds the token to calls of all kinds."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """As grpc.UnaryUnaryClientInterceptor."""
        return continuation(_Details(client_call_details, self._metadata), request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """As grpc.UnaryStreamClientInterceptor."""
        return continuation(_Details(client_call_details, self._metadata), request)

    def intercept_stream_unary(
        self, continuation: Any, client_call_details: Any, request_iterator: Any
    ) -> Any:
        """As grpc.StreamUnaryClientInterceptor."""
        return continuation(_Details(client_call_details, self._metadata), request_iterator)

    def intercept_stream_stream(
        self, continuation: Any, client_call_details: Any, request_iterator: Any
    ) -> Any:
        """As grpc.StreamStreamClientInterceptor."""
        return continuation(_Details(client_call_details, self._metadata), request_iterator)
