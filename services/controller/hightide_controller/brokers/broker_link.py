"""Sending decisions to one life of one broker: one RPC is in flight, and the latest decision replaces earlier
ones.

Each attempt has a deadline. It is repeated until it succeeds or the link is closed, which happens when that
life of the broker ends or the controller resigns. The controller sends nothing that is not in ZooKeeper.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import grpc
from hightide.calls.backoff import Backoff
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_control_service_pb2_grpc as control_grpc
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.addresses import HostPort
from hightide_runtime.clock import Clock
from hightide_runtime.errors import reason_of, reason_of_failure
from hightide_runtime.serving.channels import OpenChannel
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.trace_context import traceparent_metadata
from hightide_runtime.telemetry.tracing import Telemetry

from hightide_controller.core.brokers.outbox import BrokerDelivery, Outbox
from hightide_controller.core.effects import (
    Decision,
    ReplicaStop,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from hightide_controller.core.events import Broker, BrokerAnswers, BrokerSilent
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.tracing.control_trace import sample_of

if TYPE_CHECKING:
    from hightide.v1.broker_control_service_pb2_grpc import BrokerControlServiceAsyncStub

__all__ = ["BrokerLink", "LinkCallbacks"]

Leads: TypeAlias = tuple[tuple[TopicPartition, int], ...]
"""Partitions that a broker should lead, with the leader epoch."""

_log = logging.getLogger(__name__)

_LIST_PATIENCE_S: Final = 0.03
"""How long a bare list of brokers waits so that decisions go first. It is queued the moment a broker is lost.
Without the wait the link would be busy with it when the first decisions come, which carry the list in their
metadata."""
_AGAIN: Final = Backoff(initial_ms=20, maximum_ms=1_000)
_WORTH_REPEATING: Final = frozenset(
    {
        ErrorCode.ERROR_CODE_INTERNAL,
        ErrorCode.ERROR_CODE_OVERLOADED,
        ErrorCode.ERROR_CODE_TIMED_OUT,
        ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE,
        # This ends by itself. Until then the broker cannot store the epoch in which it is to lead.
        ErrorCode.ERROR_CODE_DISK_FULL,
    }
)
# Done, or the broker is stopping.
_HARMLESS: Final = frozenset({ErrorCode.ERROR_CODE_UNSPECIFIED, ErrorCode.ERROR_CODE_SHUTTING_DOWN})


@dataclass(frozen=True, slots=True)
class LinkCallbacks:
    """The callbacks of a link to its shell, all called on the loop."""

    leader_and_isr: Callable[[int, BrokerDelivery], control_pb2.LeaderAndISRRequest]
    """Makes the messages from the broker epoch and a delivery."""
    stop_replica: Callable[[int, BrokerDelivery], control_pb2.StopReplicaRequest]
    update_metadata: Callable[[int, BrokerDelivery], control_pb2.UpdateMetadataRequest]
    obeyed: Callable[[int, Iterable[Decision]], None]
    """The broker with this id has acted on a LeaderAndISR with these decisions."""
    acknowledged: Callable[[Broker, int], None]
    """The broker has everything up to this sequence."""
    fenced: Callable[[], None]
    """The broker knows a newer controller."""
    declined: Callable[[Broker, Decision], None]
    """The broker cannot lead in the epoch of this decision."""
    failed: Callable[[Broker, tuple[Decision, ...]], None]
    """The broker cannot hold the replicas of these decisions: their log directory failed."""
    traceparent_of: Callable[[str], str]
    """The traceparent of a cause; empty if it is not traced."""


class BrokerLink:
    """A link to one live broker of the active controller."""

    def __init__(
        self,
        broker: Broker,
        callbacks: LinkCallbacks,
        telemetry_: Telemetry,
        clock: Clock,
        timeout_ms: int,
        open_channel: OpenChannel,
    ) -> None:
        self.broker = broker
        self._callbacks = callbacks
        self._telemetry = telemetry_
        self._timeout_s = timeout_ms / 1000
        self._clock = clock
        self._outbox = Outbox()
        self._under_way: BrokerDelivery | None = None
        self._owed_since_ms: int | None = None
        """The time since which the broker owes an acknowledgement, or of the last one it gave; None: it owes
        none."""
        self._told_silent: Leads | None = None
        """The last event about its silence; None: there was none."""
        self._filled = asyncio.Event()
        self._pressing = asyncio.Event()
        """Set while more waits to be sent than a list of partitions."""
        self._channel = open_channel(HostPort(broker.host, broker.port))
        self._stub: BrokerControlServiceAsyncStub = control_grpc.BrokerControlServiceStub(self._channel)
        self._task = asyncio.create_task(self._run(), name=f"link-{broker.broker_id}")

    def put(self, effect: SendLeaderAndIsr | SendStopReplica | SendUpdateMetadata) -> None:
        """Queue an effect; it is sent with everything else that waits."""
        self._outbox.put(effect)
        if self._owed_since_ms is None:
            self._owed_since_ms = self._clock.monotonic_ms()
        self._filled.set()
        if not self._outbox.is_bare_list:
            self._pressing.set()

    def owes_for_ms(self) -> int:
        """How long the broker has not acknowledged anything that it owes; 0: it owes nothing. Any thread."""
        since_ms = self._owed_since_ms
        return 0 if since_ms is None else self._clock.monotonic_ms() - since_ms

    def silence(self, limit_ms: int) -> BrokerSilent | BrokerAnswers | None:
        """An event about whether the broker answers, for the core, or None. Called with each tick."""
        life = (self.broker.broker_id, self.broker.broker_epoch)
        if self._owed_since_ms is None:
            was_silent, self._told_silent = self._told_silent is not None, None
            return BrokerAnswers(*life) if was_silent else None
        if self.owes_for_ms() < limit_ms and self._told_silent is None:
            return None
        leads = tuple(self._unacknowledged_leads())
        if leads == self._told_silent:
            return None
        self._told_silent = leads
        return BrokerSilent(*life, leads)

    def _unacknowledged_leads(self) -> Iterator[tuple[TopicPartition, int]]:
        waiting = {**(self._under_way.decisions if self._under_way else {}), **self._outbox.decisions}
        for name, decision in waiting.items():
            if decision.state.leader == self.broker.broker_id:
                yield name, decision.state.leader_epoch

    def _has_progressed(self) -> None:
        """Take note that something was acknowledged, though perhaps not all."""
        self._owed_since_ms = self._clock.monotonic_ms()

    def close(self) -> None:
        """Stop sending; what waits is dropped."""
        self._task.cancel()

    async def closed(self) -> None:
        """Wait until it has ended."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        try:
            await self._tell()
        except asyncio.CancelledError:
            # Closed. A cancelled task keeps its exception and all that its frames refer to: a call under way
            # would hold the connection until the garbage collector ran.
            return
        finally:
            await self._channel.close()

    async def _tell(self) -> None:
        failures = 0
        while True:
            await self._filled.wait()
            # Decisions of a failover's multis that commit together are sent together.
            await asyncio.sleep(0)
            if self._outbox.is_bare_list:
                self._pressing.clear()
                with contextlib.suppress(TimeoutError):
                    # Not wait_for: that of Python 3.11 forgets a cancellation that comes just then.
                    async with asyncio.timeout(_LIST_PATIENCE_S):
                        await self._pressing.wait()
            delivery = self._under_way = self._outbox.take()
            self._filled.clear()
            is_delivered = await self._attempt(delivery)
            self._under_way = None
            if is_delivered:
                failures = 0
                self._owed_since_ms = None if self._outbox.is_empty else self._clock.monotonic_ms()
                if delivery.sequence:
                    self._callbacks.acknowledged(self.broker, delivery.sequence)
                if not self._outbox.is_empty:
                    self._filled.set()
                continue
            self._filled.set()
            failures += 1
            await asyncio.sleep(_AGAIN.pause_s(failures))

    async def _attempt(self, delivery: BrokerDelivery) -> bool:
        """Deliver once; False if some of it waits again."""
        parent = self._callbacks.traceparent_of(delivery.cause)
        span = self._telemetry.span(span_kinds.INFORM_BROKER, parent=parent) if parent else None
        try:
            with span if span is not None else contextlib.nullcontext():
                if span is not None:
                    span.set("broker_id", self.broker.broker_id)
                    span.set("broker_epoch", self.broker.broker_epoch)
                    span.set("partition_count", len(delivery.decisions) or len(delivery.stops))
                    if sample := sample_of(_partitions_of(delivery)):
                        span.set("partition_sample", sample)
                return await self._deliver(delivery)
        except grpc.aio.AioRpcError as error:
            self._explain(error)
        except Exception:  # noqa: BLE001 - the top of a task: one message that cannot be built stops no other
            _log.exception("broker %d could not be told, it is tried again", self.broker.broker_id)
        self._outbox.put_back(delivery)
        return False

    async def _deliver(self, delivery: BrokerDelivery) -> bool:
        epoch = self.broker.broker_epoch
        repeated: dict[TopicPartition, None] = {}
        unstopped: dict[tuple[str, int], ReplicaStop] = {}
        if delivery.decisions:
            request = self._callbacks.leader_and_isr(epoch, delivery)
            response = await self._stub.LeaderAndISR(
                request, timeout=self._timeout_s, metadata=traceparent_metadata()
            )
            self._callbacks.obeyed(self.broker.broker_id, delivery.decisions.values())
            repeated = self._refused(delivery, response)
            if len(repeated) < len(delivery.decisions):
                self._has_progressed()
        if delivery.stops:
            stop = self._callbacks.stop_replica(epoch, delivery)
            unstopped = self._not_stopped(
                delivery,
                await self._stub.StopReplica(stop, timeout=self._timeout_s, metadata=traceparent_metadata()),
            )
        if delivery.has_metadata:
            update = self._callbacks.update_metadata(epoch, delivery)
            await self._stub.UpdateMetadata(update, timeout=self._timeout_s, metadata=traceparent_metadata())
        if not repeated and not unstopped:
            return True
        self._outbox.put_back(
            BrokerDelivery(
                decisions={name: delivery.decisions[name] for name in repeated},
                stops=unstopped,
                metadata={},
                deleted_topic_ids=(),
                has_metadata=False,
                full=False,
                sequence=delivery.sequence,
                cause=delivery.cause,
            )
        )
        return False

    def _refused(
        self, delivery: BrokerDelivery, response: control_pb2.LeaderAndISRResponse
    ) -> dict[TopicPartition, None]:
        """The decisions to repeat. If a broker cannot obey one because its disk failed, it is decided
        anew."""
        refused = [result for result in response.partitions if result.error_code not in _HARMLESS]
        if not refused:
            return {}
        names = {
            (bytes.fromhex(decision.topic_id), name.partition): name
            for name, decision in delivery.decisions.items()
        }
        repeated: dict[TopicPartition, None] = {}
        failed: list[Decision] = []
        for result in refused:
            name = names.get((result.topic_id, result.partition))
            if result.error_code == ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH:
                self._callbacks.fenced()
            elif result.error_code == ErrorCode.ERROR_CODE_FENCED_LEADER_EPOCH:
                # Else the broker knows a newer decision already.
                if name is not None and delivery.decisions[name].state.leader == self.broker.broker_id:
                    self._callbacks.declined(self.broker, delivery.decisions[name])
            elif name is not None:
                _log.error(
                    "broker %d cannot act on the decision about %s-%d: %s",
                    *(self.broker.broker_id, name.topic, name.partition, reason_of(result.error_code)),
                )
                if result.error_code in _WORTH_REPEATING:
                    repeated[name] = None
                elif result.error_code == ErrorCode.ERROR_CODE_STORAGE_FAILED:
                    failed.append(delivery.decisions[name])
        if failed:
            self._callbacks.failed(self.broker, tuple(failed))
        return repeated

    def _not_stopped(
        self, delivery: BrokerDelivery, response: control_pb2.StopReplicaResponse
    ) -> dict[tuple[str, int], ReplicaStop]:
        """The stops to repeat, without replicas that were assigned again since, or are on a failed disk."""
        unstopped: dict[tuple[str, int], ReplicaStop] = {}
        for result in response.partitions:
            if result.error_code in _HARMLESS:
                continue
            if result.error_code == ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH:
                self._callbacks.fenced()
                continue
            stop = delivery.stops.get((result.topic_id.hex(), result.partition))
            if stop is None:
                continue
            _log.warning(
                "broker %d does not stop %s-%d: %s",
                *(self.broker.broker_id, stop.topic, stop.partition, reason_of(result.error_code)),
            )
            if result.error_code in _WORTH_REPEATING:
                unstopped[stop.topic_id, stop.partition] = stop
        return unstopped

    def _explain(self, error: grpc.aio.AioRpcError) -> None:
        reason = reason_of_failure(error)
        if reason == reason_of(ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH):
            self._callbacks.fenced()
            return
        _log.warning(
            "broker %d at %s:%d could not be told, it is tried again: %s %s",
            *(self.broker.broker_id, self.broker.host, self.broker.port),
            *(reason or error.code().name, error.details()),
        )


def _partitions_of(delivery: BrokerDelivery) -> Iterable[TopicPartition]:
    """The partitions in a delivery; if it only stops replicas, these."""
    if delivery.decisions:
        return delivery.decisions
    return (TopicPartition(stop.topic, stop.partition) for stop in delivery.stops.values())
