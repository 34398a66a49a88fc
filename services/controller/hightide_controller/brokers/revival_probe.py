"""Connecting again to a broker that was declared dead, to find out whether that very life of it still
answers.

A port that refuses connections for a while (a firewall that is reloaded, a proxy that is restarted), or a
process that is paused, looks like a dead process, and its registration exists as long as its session does.
So the controller repeats an UpdateMetadata that is addressed to the broker epoch. Another process at the
port, or a later life, has another epoch and refuses it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import grpc
from hightide.calls.backoff import Backoff
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_control_service_pb2_grpc as control_grpc
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import reason_of_failure
from hightide_runtime.process.process_watcher import is_refused
from hightide_runtime.serving.channels import OpenChannel

from hightide_controller.core.events import Broker

if TYPE_CHECKING:
    from hightide.v1.broker_control_service_pb2_grpc import BrokerControlServiceAsyncStub

__all__ = ["PROBES", "RevivalProbe"]

_log = logging.getLogger(__name__)

PROBES: Final = Backoff(initial_ms=250, maximum_ms=16_000)
"""Between two probes at a broker's life that was dead and alive again before. The pauses grow with each time,
because each costs elections."""


class RevivalProbe:
    """Repeats the attempt for one broker that is registered and was declared dead. Calls back at most once,
    then ends."""

    def __init__(
        self,
        broker: Broker,
        open_channel: OpenChannel,
        message: Callable[[], control_pb2.UpdateMetadataRequest],
        on_answer: Callable[[], None],
        pause_s: float,
        timeout_ms: int,
    ) -> None:
        """`message`: addressed to this life. `on_answer` is called on the loop when it was accepted."""
        self.broker = broker
        self._address = HostPort(broker.host, broker.port)
        self._open_channel = open_channel
        self._message = message
        self._on_answer = on_answer
        self._pause_s = pause_s
        self._timeout_s = timeout_ms / 1000
        self._task = asyncio.create_task(self._run(), name=f"probe-{broker.broker_id}")

    def close(self) -> None:
        """Stop trying."""
        self._task.cancel()

    async def closed(self) -> None:
        """Wait until it has ended."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._pause_s)
                if await self._is_answered():
                    break
        except asyncio.CancelledError:
            return  # Closed; see BrokerLink on why it ends in this way.
        except Exception:  # noqa: BLE001 - the top of a task; the end of the registration still tells
            _log.exception("broker %d is not asked any more whether it lives", self.broker.broker_id)
            return
        _log.warning(
            "broker %d at %s was declared dead, and answers again: it lives",
            *(self.broker.broker_id, self._address),
        )
        self._on_answer()

    async def _is_answered(self) -> bool:
        if await is_refused(self._address):
            return False
        async with self._open_channel(self._address) as channel:
            stub: BrokerControlServiceAsyncStub = control_grpc.BrokerControlServiceStub(channel)
            try:
                await stub.UpdateMetadata(self._message(), timeout=self._timeout_s)
            except grpc.aio.AioRpcError as error:
                reason = reason_of_failure(error) or error.code().name
                _log.debug("broker %d does not answer for this life: %s", self.broker.broker_id, reason)
                return False
        return True
