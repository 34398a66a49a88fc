"""The coordinator dies, stops, or stands still, under consumers that are raw messages on streams (§10)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import grpc
import pytest
from hightide import Admin
from hightide.v1 import broker_service_pb2
from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.broker_service_pb2_grpc import BrokerServiceStub
from hightide.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from hightide_local.cluster import LocalCluster
from hightide_local.traces.trace_lookup import SpanRecord, read_spans, traces_of
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.telemetry import span_kinds as kinds
from integration.controller.controller_harness import until
from integration.coordinator.raw_consumer import Ended, Ending, RawConsumer, ending_of

pytestmark = pytest.mark.cluster

TOPIC = "flights"
PARTITIONS = 6
SESSION_TIMEOUT_MS = 60_000
"""Of consumers that all come back, one after the other."""
GIVEN_UP_MS = 12_000
"""Where one is to be given up that does not; the others have so long."""
ANSWER_S = 20
ALL = frozenset((TOPIC, number) for number in range(PARTITIONS))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("failover"), brokers=1, controllers=1, coordinators=2
    ) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1)
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> Iterator[LocalCluster]:
    """Both coordinators run, whatever the test before did to them."""
    yield shared
    for name in ("coordinator-1", "coordinator-2"):
        if name in shared.running():
            shared.resume(name)
        else:
            shared.restart(name, wait=False)
    shared.wait_ready()


class Group:
    """Three consumers of a group, which follow it to whichever coordinator is active."""

    def __init__(
        self, name: str, cluster: LocalCluster, stack: contextlib.AsyncExitStack, session_timeout_ms: int
    ) -> None:
        self.name = name
        self._session_timeout_ms = session_timeout_ms
        self._cluster = cluster
        self._stack = stack
        self.consumers: list[RawConsumer] = []

    async def channel(self) -> grpc.aio.Channel:
        """A channel to the active coordinator, as a broker names it."""
        address = await until(self.named_by_the_broker, "a broker names the coordinator")
        channel = open_channel(HostPort.parse(address))
        return await self._stack.enter_async_context(channel)

    async def named_by_the_broker(self) -> str:
        async with open_channel(HostPort.parse(self._cluster.brokers[1])) as channel:
            stub: Any = BrokerServiceStub(channel)
            reply = await stub.GetMetadata(broker_service_pb2.GetMetadataRequest(), timeout=ANSWER_S)
        endpoint = reply.coordinators[0]
        return f"{endpoint.host}:{endpoint.port}" if endpoint.host else ""

    async def form(self) -> Group:
        """Join all three, and wait until each has its two partitions."""
        channel = await self.channel()
        self.consumers = [
            RawConsumer(
                channel, self.name, TOPIC, session_timeout_ms=self._session_timeout_ms, auto_commit=True
            )
            for _ in range(3)
        ]
        for consumer in self.consumers:
            await consumer.register()
        await until(self.is_shared_out, "each consumer has its partitions")
        return self

    async def is_shared_out(self) -> bool:
        owned = [set(consumer.owned) for consumer in self.consumers]
        return [len(each) for each in owned] == [2, 2, 2] and set().union(*owned) == ALL

    async def come_back(self) -> None:
        """Each consumer finds the active coordinator, however long it takes, and registers again."""
        for consumer in self.consumers:

            async def is_back(consumer: RawConsumer = consumer) -> bool:
                try:
                    await consumer.come_back(await self.channel())
                except Ended:
                    return False  # The one that the broker named is gone, or not yet active.
                return True

            await until(is_back, "the consumer is registered again")

    async def described(self) -> pb.DescribeGroupResponse:
        stub: Any = CoordinatorServiceStub(await self.channel())
        described: pb.DescribeGroupResponse = await stub.DescribeGroup(
            pb.DescribeGroupRequest(group=self.name), timeout=ANSWER_S
        )
        return described

    async def state(self) -> pb.DescribeGroupResponse | None:
        with contextlib.suppress(grpc.aio.AioRpcError):
            described = await self.described()
            return described if described.state == pb.GROUP_STATE_STABLE else None
        return None

    async def leave(self) -> None:
        for consumer in self.consumers:
            assert (await consumer.leave()).status is grpc.StatusCode.OK


@contextlib.asynccontextmanager
async def a_group(cluster: LocalCluster, name: str, session_timeout_ms: int) -> AsyncIterator[Group]:
    async with contextlib.AsyncExitStack() as stack:
        yield await Group(name, cluster, stack, session_timeout_ms).form()


def with_group(
    cluster: LocalCluster,
    name: str,
    test: Callable[[Group], Awaitable[None]],
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
) -> None:
    async def run() -> None:
        async with asyncio.timeout(100), a_group(cluster, name, session_timeout_ms) as group:
            await test(group)

    asyncio.run(run())


def takeovers(cluster: LocalCluster) -> list[SpanRecord]:
    """In the order of time, whichever coordinator wrote them."""
    spans = [span for span in read_spans(cluster.trace_directory) if span.name == kinds.COORDINATOR_FAILOVER]
    return sorted(spans, key=lambda span: span.start_us)


def metrics_of(cluster: LocalCluster, name: str) -> Mapping[str, int]:
    """The last metrics of a process that has ended; those with attributes are added up."""
    text = (cluster.trace_directory / f"{name}.metrics").read_text()
    exported = [json.loads(line) for line in text.splitlines()]
    last_us = max(line["time_us"] for line in exported)
    metrics: Counter[str] = Counter()
    for line in exported:
        if line["time_us"] == last_us:
            metrics[line["name"]] += line.get("value", 0)
    return metrics


def test_when_the_active_coordinator_dies_a_standby_takes_the_group_over_as_it_is(
    cluster: LocalCluster,
) -> None:
    async def test(group: Group) -> None:
        before = await group.described()
        owned = [dict(consumer.owned) for consumer in group.consumers]
        known = len(takeovers(cluster))
        await asyncio.to_thread(cluster.kill, cluster.active_coordinator())
        for consumer in group.consumers:
            await consumer.ended()
        await group.come_back()
        after = await until(group.state, "the group is stable")
        assert after.coordinator_epoch == before.coordinator_epoch + 1
        assert after.generation == before.generation, "nobody came or went, so nothing is shared out anew"
        assert [dict(consumer.owned) for consumer in group.consumers] == owned

        async def traced_anew() -> list[SpanRecord]:
            return takeovers(cluster)[known:]

        (takeover,) = await until(traced_anew, "the takeover is traced")
        steps = {
            span.name: span
            for span in read_spans(cluster.trace_directory)
            if span.trace_id == takeover.trace_id
        }
        assert set(steps) == {
            kinds.COORDINATOR_FAILOVER,
            kinds.COORDINATOR_DETECTION,
            kinds.COORDINATOR_ELECTION,
            kinds.COORDINATOR_LOAD,
            kinds.COORDINATOR_RECOVERY,
        }
        assert takeover.attributes["cause"] == "process_died"
        await group.leave()

    with_group(cluster, "dying", test)


def test_a_coordinator_that_is_stopped_hands_over_at_once(cluster: LocalCluster) -> None:
    async def test(group: Group) -> None:
        before = await group.described()
        active = cluster.active_coordinator()
        await asyncio.to_thread(cluster.terminate, active)
        reasons = {(await consumer.ended()).reason for consumer in group.consumers}
        assert reasons == {"SHUTTING_DOWN"}
        metrics = metrics_of(cluster, active)
        assert metrics["hightide.coordinator.active_shards"] == 1
        assert metrics["hightide.coordinator.members"] >= 3
        assert metrics["hightide.coordinator.rebalances"] >= 1
        assert metrics["hightide.coordinator.groups_failed"] == 0
        await group.come_back()
        after = await until(group.state, "the group is stable")
        assert (after.generation, after.coordinator_epoch) == (
            before.generation,
            before.coordinator_epoch + 1,
        )
        await group.leave()

    with_group(cluster, "stopping", test)


def test_a_coordinator_ends_soon_though_zookeeper_does_not_answer(cluster: LocalCluster) -> None:
    async def test(group: Group) -> None:
        active = cluster.active_coordinator()
        await asyncio.to_thread(cluster.pause, "zookeeper")
        try:
            await asyncio.to_thread(cluster.terminate, active, 30)
        finally:
            await asyncio.to_thread(cluster.resume, "zookeeper")
        assert {(await consumer.ended()).reason for consumer in group.consumers} == {"SHUTTING_DOWN"}
        await group.come_back()
        await until(group.state, "the group is stable")
        await group.leave()

    with_group(cluster, "forsaken", test)


def test_a_member_that_does_not_come_back_is_given_up_after_its_session_timeout(
    cluster: LocalCluster,
) -> None:
    async def test(group: Group) -> None:
        known = len(takeovers(cluster))
        await asyncio.to_thread(cluster.kill, cluster.active_coordinator())
        for consumer in group.consumers:
            await consumer.ended()
            consumer.orders.clear()
        lost = group.consumers.pop()
        assert lost.owned
        await group.come_back()

        async def is_shared_out() -> bool:
            return set().union(*(set(consumer.owned) for consumer in group.consumers)) == ALL

        await until(is_shared_out, "the others have what it had")

        async def is_traced() -> bool:
            return len(takeovers(cluster)) == known + 1

        await until(is_traced, "the takeover is traced, with the rebalance that it caused")
        spans = [
            s for s in read_spans(cluster.trace_directory) if s.trace_id == takeovers(cluster)[-1].trace_id
        ]
        (root,) = traces_of(spans)[0].roots
        assert root.span.name == kinds.COORDINATOR_FAILOVER
        (rebalance,) = [child for child in root.children if child.span.name == kinds.GROUP_REBALANCE]
        assert rebalance.span.attributes["group"] == "orphans"
        assert [step.span.name for step in rebalance.children] == [
            kinds.REBALANCE_COMMIT,
            kinds.REBALANCE_OWNERS,
            kinds.REBALANCE_START,
        ], "nobody had to stop, since nobody read what it had"
        orders = [order for consumer in group.consumers for order in consumer.orders]
        assert {order.traceparent for order in orders if order.HasField("start_fetcher")} == {
            f"00-{rebalance.span.trace_id}-{rebalance.span.span_id}-01"
        }
        await group.leave()

    with_group(cluster, "orphans", test, GIVEN_UP_MS)


def test_who_has_waited_for_a_coordinator_that_stood_still_is_not_let_in_by_it(cluster: LocalCluster) -> None:
    async def test(group: Group) -> None:
        zombie = cluster.active_coordinator()
        address = cluster.address_of(zombie)
        async with open_channel(HostPort.parse(address)) as channel:
            stub: Any = CoordinatorServiceStub(channel)
            await stub.DescribeGroup(pb.DescribeGroupRequest(group=group.name), timeout=ANSWER_S)
            await asyncio.to_thread(cluster.pause, zombie)
            waiting = RawConsumer(channel, group.name, TOPIC, session_timeout_ms=SESSION_TIMEOUT_MS)
            await waiting.open()

            async def is_replaced() -> bool:
                return await group.named_by_the_broker() not in ("", address)

            await until(is_replaced, "the paused coordinator's session has expired")
            await asyncio.to_thread(cluster.resume, zombie)
            assert (await waiting.ended()).reason == "NOT_COORDINATOR"
            assert waiting.welcome is None
        await group.come_back()
        await until(group.state, "the group is stable")
        await group.leave()

    with_group(cluster, "waiting", test)


def test_a_coordinator_that_stood_still_ends_its_streams_when_it_wakes_up(cluster: LocalCluster) -> None:
    async def test(group: Group) -> None:
        before = await group.described()
        zombie = cluster.active_coordinator()
        address = cluster.address_of(zombie)
        await asyncio.to_thread(cluster.pause, zombie)

        async def is_replaced() -> bool:
            return await group.named_by_the_broker() not in ("", address)

        await until(is_replaced, "the paused coordinator's session has expired")
        await asyncio.to_thread(cluster.resume, zombie)
        reasons = {(await consumer.ended()).reason for consumer in group.consumers}
        assert reasons == {"NOT_COORDINATOR"}
        async with open_channel(HostPort.parse(address)) as channel:
            stub: Any = CoordinatorServiceStub(channel)

            async def refused() -> Ending | None:
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await stub.ListGroups(pb.ListGroupsRequest(), timeout=ANSWER_S)
                refusal = ending_of(raised.value)
                assert (refusal.reason, refusal.metadata["shard"]) == ("NOT_COORDINATOR", "0")
                return refusal if "coordinator_address" in refusal.metadata else None

            refusal = await until(refused, "it knows who is active")
        assert refusal.metadata["coordinator_address"] == await group.named_by_the_broker()
        await group.come_back()
        after = await until(group.state, "the group is stable")
        assert after.coordinator_epoch > before.coordinator_epoch
        await group.leave()

    with_group(cluster, "zombie", test)
