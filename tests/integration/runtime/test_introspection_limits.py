"""Health, reflection and channelz have limits of their own: whoever fills them takes nothing from others."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from hightide_runtime.serving.health import WATCHES_MAX
from hightide_runtime.serving.introspection import CALLS_MAX
from integration.runtime.test_call_limits import CALL_S, Clients, clients
from integration.runtime.test_serving import failure_of

LIST = reflection_pb2.ServerReflectionRequest(list_services="")


async def watch(channel: grpc.aio.Channel) -> Any:
    """A stream that watches the health, of which the first status has come."""
    stream = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=CALL_S)
    await stream.read()
    return stream


async def reflect(channel: grpc.aio.Channel) -> Any:
    """An open stream of reflection, of which the first answer has come."""
    stream = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(timeout=CALL_S)
    await stream.write(LIST)
    await stream.read()
    return stream


async def check(each: Clients, channel: grpc.aio.Channel) -> None:
    await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=CALL_S)


def test_one_that_watches_all_it_can_leaves_others_their_share_and_is_told_its_own() -> None:
    async def story() -> None:
        async with clients(calls_max=2) as each:
            greedy, modest = await each.connect(), await each.connect()
            streams = [await watch(greedy) for _ in range(WATCHES_MAX // 5)]
            status, sentence, info = await failure_of(watch(greedy))
            assert (status, info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
            assert f"{WATCHES_MAX // 5} of them of this connection" in sentence
            streams.append(await watch(modest))
            # They take no place of other calls.
            await each.park(modest, 1)
            for stream in streams:
                stream.cancel()

    asyncio.run(story())


def test_a_check_is_answered_whatever_else_the_server_has_to_do() -> None:
    async def story() -> None:
        async with clients(calls_max=1) as each:
            await each.park(await each.connect(), 1)
            await each.park(await each.connect(), 1, "control")
            greedy = await each.connect()
            streams = [await watch(greedy) for _ in range(WATCHES_MAX // 5)]
            await failure_of(watch(greedy))
            await asyncio.gather(*(check(each, greedy) for _ in range(200)))
            await check(each, await each.connect())
            for stream in streams:
                stream.cancel()

    asyncio.run(story())


def test_a_watch_that_ends_leaves_its_place() -> None:
    async def story() -> None:
        async with clients() as each:
            channel = await each.connect()
            for _ in range(WATCHES_MAX // 4 + 1):
                (await watch(channel)).cancel()

    asyncio.run(story())


def test_reflection_and_channelz_share_a_limit_and_take_no_place_of_other_calls() -> None:
    async def story() -> None:
        async with clients(calls_max=2) as each:
            greedy, modest = await each.connect(), await each.connect()
            streams = [await reflect(greedy) for _ in range(CALLS_MAX // 5)]
            servers = channelz_pb2_grpc.ChannelzStub(greedy).GetServers
            for refused in (reflect(greedy), servers(channelz_pb2.GetServersRequest(), timeout=CALL_S)):
                _, sentence, info = await failure_of(refused)
                assert info.reason == "OVERLOADED"
                assert f"{CALLS_MAX // 5} of them of this connection" in sentence
            answer = await channelz_pb2_grpc.ChannelzStub(modest).GetServers(
                channelz_pb2.GetServersRequest(), timeout=CALL_S
            )
            assert answer.server
            await each.park(greedy, 1)
            for stream in streams:
                stream.cancel()

    asyncio.run(story())
