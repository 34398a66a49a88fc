"""A simulated producer: the real core of the SDK's producer, idempotent, with its retries and metadata.

It is driven as its shells drive it: its calls are sent when it asks for them, and it hears of each outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol

import grpc
from hightide.batch import wire
from hightide.calls.call import Call, Method
from hightide.cluster.metadata import ClusterMetadata as KnownCluster
from hightide.errors import HightideError
from hightide.producing.producer_core import ProducerCore
from hightide.producing.producer_settings import ProducerSettings
from hightide.transport.transport import error_of
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import ServiceError
from sim.messages import CallFailed, Envelope
from sim.topics.batches import crc_of, values_in
from sim.topics.channel import rpc_error
from sim.topics.messages import Body, Rpc, RpcAnswer
from sim.topics.tree import Client

SETTINGS: Final = ProducerSettings(linger_ms=0, request_timeout_ms=2_000, delivery_timeout_ms=60_000)
START_MS: Final = 1_000_000


class Surroundings(Protocol):
    """What a producer may do to the world."""

    values: dict[int, tuple[int, ...]]
    failed: set[int]

    @property
    def now_ms(self) -> int: ...

    def call(self, source: int, target: int, body: Body, then: Callable[[Any], None]) -> int: ...

    def node_at(self, address: HostPort) -> int: ...


class SimProducer:
    """One process that produces. It never dies; it can stand still."""

    alive = True
    session = 0
    end = ""

    def __init__(self, world: Surroundings, node_id: int, bootstrap: tuple[str, ...]) -> None:
        self._world = world
        self.node_id = node_id
        self.client = Client(node_id, 0)
        self.paused = False
        self._bootstrap = bootstrap
        self._calls: dict[Call[Any], float] = {}
        """Under way, each with the time at which it is given up."""
        self._deliveries: dict[int, Any] = {}
        """Of the values whose outcome is not known yet."""
        self._begin()

    @property
    def loop(self) -> SimProducer:
        """It has no other."""
        return self

    def _begin(self) -> None:
        self._calls.clear()
        cluster = KnownCluster(self._bootstrap)
        owner: Any = self
        self._core = ProducerCore(SETTINGS, cluster, owner, random=Random(self.node_id))
        self._has_news = True
        """Since the core was asked for its calls."""

    @property
    def _now_ms(self) -> float:
        return float(START_MS + self._world.now_ms)

    def start(self) -> None:
        """Nothing: it has begun."""

    def crash(self) -> None:
        """The world ends."""

    def tick(self) -> None:
        """Time passed."""
        now_ms = self._now_ms
        for call in [each for each, end_ms in self._calls.items() if end_ms <= now_ms]:
            self._end(call, error_of(rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED, None), call))

    @property
    def due_ms(self) -> int | None:
        """When it has something to do if nothing else happens, or a moment before."""
        if self._has_news:
            return self._world.now_ms
        wake_at_ms = self._core.wake_at_ms
        ends_ms = (*self._calls.values(), *(() if wake_at_ms is None else (wake_at_ms,)))
        return int(min(ends_ms)) - START_MS if ends_ms else None

    def send(self, topic: str, partition: int, value: int) -> bool:
        """Produce one record; whether it was taken, which it is not before the topic is known."""
        core = self._core
        if core.fatal is not None:
            self._begin()
            core = self._core
        home = core.queues_of(topic)
        if home is None or partition >= home.partition_count:
            core.seeker.want_again([topic], now_ms=self._now_ms)
            self._has_news = True
            self.settle()
            return False
        core.seeker.topics.add(topic)
        try:
            delivery = core.append(
                home, home.queues[partition], None, str(value).encode(), 1_000, None, self._now_ms
            )
        except HightideError:
            return False
        if delivery is not None:
            self._deliveries[value] = delivery
        self._has_news = True
        self.settle()
        return True

    def settle(self) -> bool:
        """Make the calls that the core asks for, where anything is new to it or its time has come. Returns
        whether it was asked."""
        was_asked = False
        while self._has_news or self._is_woken():
            self._has_news = False
            was_asked = True
            calls = self._core.poll(self._now_ms)
            cancelled, self._core.cancelled = self._core.cancelled, []
            self._core.callbacks.clear()
            for call in cancelled:
                self._end(call, error_of(rpc_error(grpc.StatusCode.CANCELLED, None), call))
            for call in calls:
                self._make(call)
            self._has_news = self._has_news or bool(calls or cancelled)
        if was_asked:
            self._note_failures()
        return was_asked

    def _note_failures(self) -> None:
        for value, delivery in tuple(self._deliveries.items()):
            if delivery.done():
                del self._deliveries[value]
                if delivery.exception() is not None:
                    self._world.failed.add(value)

    def _is_woken(self) -> bool:
        wake_at_ms = self._core.wake_at_ms
        return wake_at_ms is not None and wake_at_ms <= self._now_ms

    def _make(self, call: Call[Any]) -> None:
        request = call.encode()
        if call.method is Method.PRODUCE:
            for each in wire.parse_produce_request(request).partitions:
                if (crc := crc_of(each.batches)) not in self._world.values:
                    self._world.values[crc] = values_in(each.batches)
        self._calls[call] = self._now_ms + call.timeout_ms

        def answered(body: Any) -> None:
            value = body.value if isinstance(body, RpcAnswer) else body
            outcome: Any
            try:
                if isinstance(value, CallFailed):
                    outcome = error_of(rpc_error(grpc.StatusCode.UNAVAILABLE, None), call)
                elif isinstance(value, ServiceError):
                    outcome = error_of(rpc_error(value.status, value.to_rich_status()), call)
                else:
                    assert isinstance(value, bytes)
                    outcome = call.decode(value)
            except HightideError as error:
                outcome = error
            self._end(call, outcome)

        target = self._world.node_at(HostPort.parse(call.address))
        self._world.call(self.node_id, target, Rpc(call.method.value.rpartition("/")[2], request), answered)

    def _end(self, call: Call[Any], outcome: Any) -> None:
        if self._calls.pop(call, None) is not None:
            self._core.completed(call, outcome, self._now_ms)
            self._has_news = True

    def receive(self, envelope: Envelope) -> None:
        """Nobody asks anything of a producer."""
        raise AssertionError(envelope)
