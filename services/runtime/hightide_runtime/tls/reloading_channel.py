"""A channel that is opened again when it is broken and the certificates have changed.

A gRPC channel connects again by itself, but for ever with the certificates with which it was opened. Ours
may have expired meanwhile, and the CA may be another one. So the next call after a failure to connect looks
at the files. While they are as they were, gRPC's own attempts are all that is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from hightide_runtime.tls.certificates import ReloadedCertificates
from hightide_runtime.tls.credentials import channel_credentials

__all__ = ["ReloadingChannel"]


class ReloadingChannel(grpc.aio.Channel):
    """A channel as generated stubs use it. Its methods are called on the event loop."""

    def __init__(
        self,
        certificates: ReloadedCertificates,
        open_with: Callable[[grpc.ChannelCredentials], grpc.aio.Channel],
    ) -> None:
        """`open_with` opens a channel to the process with these credentials."""
        self._certificates = certificates
        self._open_with = open_with
        self._used = certificates.current()
        self._channel = open_with(channel_credentials(self._used))
        self._closing: set[asyncio.Task[None]] = set()

    def unary_unary(self, *arguments: Any, **named: Any) -> Any:
        """As grpc.aio.Channel."""
        return self._method("unary_unary", arguments, named)

    def unary_stream(self, *arguments: Any, **named: Any) -> Any:
        """As grpc.aio.Channel."""
        return self._method("unary_stream", arguments, named)

    def stream_unary(self, *arguments: Any, **named: Any) -> Any:
        """As grpc.aio.Channel."""
        return self._method("stream_unary", arguments, named)

    def stream_stream(self, *arguments: Any, **named: Any) -> Any:
        """As grpc.aio.Channel."""
        return self._method("stream_stream", arguments, named)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """As grpc.aio.Channel."""
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """As grpc.aio.Channel."""
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """As grpc.aio.Channel."""
        await self._channel.channel_ready()

    async def close(self, grace: float | None = None) -> None:
        """Close it; calls under way get `grace` seconds to end."""
        await self._channel.close(grace)
        await asyncio.gather(*self._closing)

    async def __aenter__(self) -> ReloadingChannel:
        """The channel itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    def _method(self, kind: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Callable[..., Any]:
        """A method of the channel, whichever that is when it is called."""
        made_of: grpc.aio.Channel | None = None
        method: Callable[..., Any]

        def call(*given: Any, **options: Any) -> Any:
            nonlocal made_of, method
            channel = self._usable()
            if channel is not made_of:
                made_of, method = channel, getattr(channel, kind)(*arguments, **named)
            return method(*given, **options)

        return call

    def _usable(self) -> grpc.aio.Channel:
        """The channel for the next call."""
        if self._channel.get_state() is not grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            return self._channel
        now = self._certificates.current()
        if now is not self._used:
            broken, self._used = self._channel, now
            self._channel = self._open_with(channel_credentials(now))
            task = asyncio.get_running_loop().create_task(broken.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        return self._channel
