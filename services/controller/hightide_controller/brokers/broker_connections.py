"""The active controller's connections to all brokers: for each live one a link that sends and a watcher of
its process, and for each that was declared dead, while it is registered, repeated attempts to connect."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from hightide_runtime.addresses import HostPort
from hightide_runtime.clock import Clock
from hightide_runtime.process.process_watcher import Pings, ProcessWatcher, answers
from hightide_runtime.serving.channels import OpenChannel
from hightide_runtime.telemetry.tracing import Telemetry

from hightide_controller.brokers.broker_link import BrokerLink, LinkCallbacks
from hightide_controller.brokers.revival_probe import PROBES, RevivalProbe
from hightide_controller.core.brokers.outbox import BrokerDelivery
from hightide_controller.core.effects import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from hightide_controller.core.events import Broker, BrokerAnswers, BrokerSilent

__all__ = ["BrokerConnections"]

BROKER_SERVICE = "hightide.v1.BrokerControlService"
_OTHERS_ASKED_MAX: Final = 9


class BrokerConnections:
    """Kept equal to the brokers of the core after each event; empty on a standby."""

    def __init__(
        self,
        callbacks: LinkCallbacks,
        on_death: Callable[[Broker, int, str], None],
        on_revival: Callable[[Broker], None],
        telemetry: Telemetry,
        clock: Clock,
        open_channel: OpenChannel,
        rpc_timeout_ms: int,
        ping_timeout_ms: int,
    ) -> None:
        """`on_death`: a broker, the wall-clock time in us at which its stream broke, and the reason:
        `process_died`, or `pings_unanswered` for one that may live on. `on_revival`: a broker that was
        declared dead answers as the same life. `ping_timeout_ms` 0: no pings."""
        self._callbacks = _numbered(callbacks)
        self._on_death = on_death
        self._on_revival = on_revival
        self._telemetry = telemetry
        self._clock = clock
        self._open_channel = open_channel
        self._rpc_timeout_ms = rpc_timeout_ms
        self._ping_timeout_ms = ping_timeout_ms
        self._links: dict[int, BrokerLink] = {}
        self._watchers: dict[int, ProcessWatcher] = {}
        self._probes: dict[int, RevivalProbe] = {}
        self._revivals: dict[int, tuple[int, int]] = {}
        """By id: a broker epoch, and how often that life was dead and alive again."""

    def reconcile(self, live: tuple[Broker, ...], dead: tuple[Broker, ...]) -> None:
        """Open and close links, watchers and probes."""
        self._probe_all(dead)
        wanted = {broker.broker_id: broker for broker in live}
        gone = [broker_id for broker_id, link in self._links.items() if wanted.get(broker_id) != link.broker]
        for broker_id in gone:
            self._links.pop(broker_id).close()
            self._watchers.pop(broker_id).close()
        for broker_id, broker in wanted.items():
            if broker_id not in self._links:
                self._open(broker)

    def _open(self, broker: Broker) -> None:
        self._links[broker.broker_id] = BrokerLink(
            broker, self._callbacks, self._telemetry, self._clock, self._rpc_timeout_ms, self._open_channel
        )
        self._watchers[broker.broker_id] = ProcessWatcher(
            HostPort(broker.host, broker.port),
            BROKER_SERVICE,
            self._clock,
            self._open_channel,
            lambda broke_at_us: self._on_death(broker, broke_at_us, "process_died"),
            self._pings(broker),
        )

    def _pings(self, broker: Broker) -> Pings | None:
        if not self._ping_timeout_ms:
            return None
        return Pings(
            self._ping_timeout_ms,
            lambda: self._others_answer(broker.broker_id),
            lambda broke_at_us: self._on_death(broker, broke_at_us, "pings_unanswered"),
        )

    async def _others_answer(self, broker_id: int) -> bool:
        """Whether at least half of this broker and others answer, of which some are asked. Otherwise this
        controller may be the one that is cut off, and the brokers may serve on."""
        timeout_ms = self._ping_timeout_ms // 3
        others = [link.broker for other_id, link in self._links.items() if other_id != broker_id]
        asked = random.sample(others, min(len(others), _OTHERS_ASKED_MAX))
        answered = await asyncio.gather(
            *(answers(HostPort(other.host, other.port), self._open_channel, timeout_ms) for other in asked)
        )
        return 2 * sum(answered) >= len(asked) + 1

    def _probe_all(self, dead: tuple[Broker, ...]) -> None:
        wanted = {broker.broker_id: broker for broker in dead}
        for broker_id, probe in tuple(self._probes.items()):
            if wanted.get(broker_id) != probe.broker:
                self._probes.pop(broker_id).close()
        for broker_id, broker in wanted.items():
            if broker_id not in self._probes:
                self._probes[broker_id] = self._probe(broker)

    def _probe(self, broker: Broker) -> RevivalProbe:
        epoch, revivals = self._revivals.get(broker.broker_id, (broker.broker_epoch, 0))
        if epoch != broker.broker_epoch:
            revivals = 0

        def answered() -> None:
            self._revivals[broker.broker_id] = (broker.broker_epoch, revivals + 1)
            self._on_revival(broker)

        return RevivalProbe(
            broker,
            self._open_channel,
            lambda: self._callbacks.update_metadata(broker.broker_epoch, BrokerDelivery.bare_list()),
            answered,
            PROBES.pause_s(revivals + 1),
            self._rpc_timeout_ms,
        )

    def silences(self, limit_ms: int) -> list[BrokerSilent | BrokerAnswers]:
        """Events about brokers that have acknowledged nothing for so long, or answer again. Called with each
        tick."""
        found = (link.silence(limit_ms) for link in self._links.values())
        return [news for news in found if news is not None]

    def longest_owed_ms(self) -> int:
        """The longest time for which any broker has acknowledged nothing that it owes. Any thread; for
        metrics."""
        return max((link.owes_for_ms() for link in tuple(self._links.values())), default=0)

    def put(self, effect: SendLeaderAndIsr | SendStopReplica | SendUpdateMetadata) -> None:
        """Pass an effect to the links of its receivers; a receiver that is gone needs nothing any more."""
        receivers = (
            effect.brokers
            if isinstance(effect, SendUpdateMetadata)
            else ((effect.broker_id, effect.broker_epoch),)
        )
        for broker_id, broker_epoch in receivers:
            link = self._links.get(broker_id)
            if link is not None and link.broker.broker_epoch == broker_epoch:
                link.put(effect)

    async def close(self) -> None:
        """Close all of them."""
        links, watchers = list(self._links.values()), list(self._watchers.values())
        probes = list(self._probes.values())
        self.reconcile((), ())
        for link in links:
            await link.closed()
        for watcher in watchers:
            await watcher.closed()
        for probe in probes:
            await probe.closed()


def _numbered(callbacks: LinkCallbacks) -> LinkCallbacks:
    """The same, but each message that they make has a higher number than those before it."""
    numbers = itertools.count(1)

    def number(make: Callable[[int, BrokerDelivery], Any]) -> Callable[[int, BrokerDelivery], Any]:
        def made(broker_epoch: int, delivery: BrokerDelivery) -> Any:
            request = make(broker_epoch, delivery)
            request.stamp.sequence = next(numbers)
            return request

        return made

    return replace(
        callbacks,
        leader_and_isr=number(callbacks.leader_and_isr),
        stop_replica=number(callbacks.stop_replica),
        update_metadata=number(callbacks.update_metadata),
    )
