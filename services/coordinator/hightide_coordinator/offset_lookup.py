"""Asking brokers where partitions begin or end, for groups without a committed offset of them (§7).

Any live broker knows the leaders, and the leaders know the offsets. This takes a few calls for any number of
partitions, each with a deadline. A partition that is not found soon is reported as failed, with the reason;
the core asks again with backoff. Thousands of groups that begin at once ask for the same partitions.
Questions that come while a few rounds are under way wait, and go into the next round together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1.broker_service_pb2_grpc import BrokerServiceStub
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import OpenChannel

from hightide_coordinator.core.effects import LookUpOffsets
from hightide_coordinator.core.events import Endpoint, OffsetsLookedUp
from hightide_coordinator.core.values.registration import OffsetReset, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["StartOffsets"]

_log = logging.getLogger(__name__)

_LOOK_UP_S: Final = 2.5
"""How long one look-up may take in all."""
_PARTLY_S: Final = 0.7
"""How long it tries to find all before it returns some: partitions that can start must not wait for those
that cannot. The leader of a new partition, or after a failover, is found sooner."""
_CALL_S: Final = 1.0
"""How long one call may take: a paused broker must not use up the time of the others."""
_PAUSE_S: Final = 0.1
_ROUNDS_MAX: Final = 4
"""Rounds at the same time. One with partitions that have no leader must not hold up all others."""
_PARTITIONS_MAX: Final = 5_000
"""Partitions in one request; brokers accept at most 10,000."""

_SPECS: Final = {
    OffsetReset.SMALLEST: broker_pb2.OFFSET_SPEC_EARLIEST,
    OffsetReset.LARGEST: broker_pb2.OFFSET_SPEC_LATEST,
}


@dataclass(frozen=True, slots=True)
class _Led:
    """The leader of a partition, as a broker knows it."""

    topic_id: bytes
    leader: Endpoint
    leader_epoch: int


class StartOffsets:
    """Looks up offsets at brokers. One for each process."""

    def __init__(self, open_channel: OpenChannel) -> None:
        self._open_channel = open_channel
        self._brokers: tuple[Endpoint, ...] = ()
        self._next = 0
        self._channels: dict[HostPort, grpc.aio.Channel] = {}
        self._waiting: list[_Asked] = []
        self._rounds: set[asyncio.Task[None]] = set()

    def know_brokers(self, brokers: tuple[Endpoint, ...]) -> None:
        """Set the live brokers; called with each BrokersChanged, and with what was loaded at an election."""
        self._brokers = brokers
        live = {HostPort(broker.host, broker.port) for broker in brokers}
        for address in self._channels.keys() - live:
            channel = self._channels.pop(address)
            # Calls under way end by themselves. To whoever waits for it, a call whose channel is closed seems
            # cancelled, and would end a task that nobody cancelled.
            task = asyncio.get_running_loop().create_task(channel.close(grace=2 * _CALL_S))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def coordinators(self) -> list[tuple[Endpoint, ...]]:
        """The coordinators by shard, as each answering broker knows them; an empty host: none."""

        async def ask(broker: Endpoint) -> tuple[Endpoint, ...] | None:
            try:
                response = await self._stub(broker).GetMetadata(
                    broker_pb2.GetMetadataRequest(), timeout=_CALL_S
                )
            except grpc.aio.AioRpcError as error:
                _log.debug("%s does not say who coordinates: %s", _who(broker), _why(error))
                return None
            return tuple(Endpoint(each.id, each.host, each.port) for each in response.coordinators)

        answers = await asyncio.gather(*map(ask, self._brokers))
        return [each for each in answers if each is not None]

    async def look_up(self, effect: LookUpOffsets) -> OffsetsLookedUp:
        """Carry out a LookUpOffsets, within a few seconds. Raises nothing."""
        loop = asyncio.get_running_loop()
        asked = _Asked(effect, loop.create_future())
        self._waiting.append(asked)
        if len(self._rounds) < _ROUNDS_MAX:
            task = loop.create_task(self._run_rounds())
            self._rounds.add(task)
            task.add_done_callback(self._rounds.discard)
        return await asked.answer

    async def _run_rounds(self) -> None:
        """Look up everything that waits, all of it together, until nothing waits."""
        while self._waiting:
            together, self._waiting = self._waiting, []
            wanted: dict[OffsetReset, dict[TopicPartition, OffsetReset]] = {}
            for asked in together:
                for name, reset in asked.effect.wanted.items():
                    wanted.setdefault(reset, {})[name] = reset
            searches = {reset: _Search(names) for reset, names in wanted.items()}
            try:
                await asyncio.gather(*map(self._search, searches.values()))
            finally:
                # Also when the coordinator stops: no caller waits for ever.
                for asked in together:
                    asked.tell(searches)

    async def _search(self, search: _Search) -> None:
        loop = asyncio.get_running_loop()
        content_at = loop.time() + _PARTLY_S
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                while search.missing:
                    await self._try(search)
                    if search.found and loop.time() > content_at:
                        break
                    if search.missing:
                        await asyncio.sleep(_PAUSE_S)
        except TimeoutError:
            pass
        except Exception as error:  # noqa: BLE001 - the top of a task
            # The groups would wait for ever for the answer.
            _log.exception("looking up where %d partitions start", len(search.wanted))
            search.fail_all(f"the coordinator failed: {error!r}")

    async def close(self) -> None:
        """End look-ups under way, and close the channels."""
        rounds = list(self._rounds)
        for each in rounds:
            each.cancel()
        await asyncio.gather(*rounds, return_exceptions=True)
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    async def _try(self, search: _Search) -> None:
        """Ask for the leaders, then all of them at the same time."""
        led = await self._leaders(search)
        by_leader: dict[Endpoint, list[TopicPartition]] = {}
        for name in search.missing:
            if name in led:
                by_leader.setdefault(led[name].leader, []).append(name)
        await asyncio.gather(
            *(
                self._ask(search, leader, part, led)
                for leader, names in by_leader.items()
                for part in _parts(names)
            )
        )

    async def _leaders(self, search: _Search) -> Mapping[TopicPartition, _Led]:
        if not self._brokers:
            search.fail_all("no broker is alive; start one")
            return {}
        # Another broker with each attempt: one that is cut off knows old leaders.
        self._next = (self._next + 1) % len(self._brokers)
        broker = self._brokers[self._next]
        topics = sorted({name.topic for name in search.missing})
        try:
            response = await self._stub(broker).GetMetadata(
                broker_pb2.GetMetadataRequest(topics=topics), timeout=_CALL_S
            )
        except grpc.aio.AioRpcError as error:
            search.fail_all(f"{_who(broker)} does not answer: {_why(error)}")
            return {}
        return _led_in(response, search)

    async def _ask(
        self,
        search: _Search,
        leader: Endpoint,
        asked: Sequence[TopicPartition],
        led: Mapping[TopicPartition, _Led],
    ) -> None:
        request = broker_pb2.ListOffsetsRequest()
        for name in asked:
            where = led[name]
            request.partitions.add(
                topic_id=where.topic_id,
                partition=name.partition,
                leader_epoch=where.leader_epoch,
                spec=_SPECS[search.wanted[name]],
            )
        try:
            response = await self._stub(leader).ListOffsets(request, timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            for name in asked:
                search.fail(name, f"its leader, {_who(leader)}, does not answer: {_why(error)}")
            return
        if len(response.partitions) != len(asked):
            for name in asked:
                search.fail(
                    name, f"its leader, {_who(leader)}, did not answer each of {len(asked)} questions"
                )
            return
        for name, result in zip(asked, response.partitions, strict=True):
            if result.error_code:
                search.fail(name, f"{_who(leader)} refuses: {result.error_message}")
            else:
                # Not the leader's epoch, in which nothing may have been written. No log keeps such an epoch,
                # and a consumer that names it later would get the error that it has read what is lost.
                search.find(name, StoredOffset(result.offset, result.epoch_before, led[name].topic_id))

    def _stub(self, broker: Endpoint) -> Any:
        address = HostPort(broker.host, broker.port)
        if address not in self._channels:
            self._channels[address] = self._open_channel(address)
        return BrokerServiceStub(self._channels[address])


@dataclass(frozen=True, slots=True)
class _Asked:
    """A LookUpOffsets that waits for its answer."""

    effect: LookUpOffsets
    answer: asyncio.Future[OffsetsLookedUp]

    def tell(self, searches: Mapping[OffsetReset, _Search]) -> None:
        """Answer it with the results for all."""
        if self.answer.done():
            return  # The caller is gone.
        found: dict[TopicPartition, StoredOffset] = {}
        failed: dict[TopicPartition, str] = {}
        for name, reset in self.effect.wanted.items():
            where = searches[reset].found.get(name)
            if where is None:
                failed[name] = searches[reset].reason(name)
            else:
                found[name] = where
        self.answer.set_result(OffsetsLookedUp(self.effect.look_up_id, found, failed))


class _Search:
    """The wanted partitions, the found offsets, and the reasons for the rest."""

    def __init__(self, wanted: Mapping[TopicPartition, OffsetReset]) -> None:
        self.wanted = {name: reset for name, reset in wanted.items() if reset in _SPECS}
        self.missing = dict.fromkeys(sorted(self.wanted), "there was no time to ask")
        self.found: dict[TopicPartition, StoredOffset] = {}
        self._never = {
            name: f"nothing is looked up where the offset reset is {reset.value}"
            for name, reset in wanted.items()
            if reset not in _SPECS
        }

    def find(self, name: TopicPartition, committed: StoredOffset) -> None:
        self.found[name] = committed
        del self.missing[name]

    def fail(self, name: TopicPartition, reason: str) -> None:
        self.missing[name] = reason

    def fail_all(self, reason: str) -> None:
        self.missing = dict.fromkeys(self.missing, reason)

    def reason(self, name: TopicPartition) -> str:
        return self._never.get(name) or self.missing[name]


def _led_in(response: broker_pb2.GetMetadataResponse, search: _Search) -> dict[TopicPartition, _Led]:
    brokers = {each.id: Endpoint(each.id, each.host, each.port) for each in response.brokers}
    led: dict[TopicPartition, _Led] = {}
    known: set[TopicPartition] = set()
    for topic in response.topics:
        for partition in topic.partitions:
            name = TopicPartition(topic.topic, partition.partition)
            known.add(name)
            if (leader := brokers.get(partition.leader)) is not None:
                led[name] = _Led(topic.topic_id, leader, partition.leader_epoch)
    for name in search.missing:
        if name not in led:
            search.fail(name, "it has no leader" if name in known else "brokers do not know it yet")
    return led


def _parts(names: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    for start in range(0, len(names), _PARTITIONS_MAX):
        yield names[start : start + _PARTITIONS_MAX]


def _who(broker: Endpoint) -> str:
    return f"broker {broker.id} at {HostPort(broker.host, broker.port)}"


def _why(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {error.details()}"
