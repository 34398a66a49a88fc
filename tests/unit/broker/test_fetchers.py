"""The follower's side of replication asks what it must, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide_broker.core.effects import AskEpochEnd
from hightide_broker.core.events import BatchesReceived, LeaderAndIsrDecided, Span
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.machine import step
from hightide_broker.core.replica import Replica, ReplicaSettings, Role
from hightide_broker.fetchers import Fetchers, FetchSettings
from hightide_broker.hosted import HostedReplica, HostedReplicas
from hightide_broker.replica_calls import Follower
from hightide_broker.shell import ReplicaShell
from hightide_broker.storage import DataDirectory
from hightide_broker.topic_settings import TopicSettings
from hightide_runtime.addresses import HostPort
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry import Telemetry

TOPIC_ID = bytes(range(16))
ASKED_S = 10.0


def truncating(data: DataDirectory) -> HostedReplica:
    """A replica that has records of epoch 1 and is to follow broker 1 in epoch 2."""
    state = Replica.opened(ReplicaSettings(2, flush_on_disk=True))
    for event in (
        LeaderAndIsrDecided.dummy(leader=1, leader_epoch=1),
        BatchesReceived(1, 1, (Span(0, 3, 1),), 0, 0),
        LeaderAndIsrDecided.dummy(leader=1, leader_epoch=2),
    ):
        state, _ = step(state, event)
    assert state.role is Role.TRUNCATING
    settings = TopicSettings()
    return HostedReplica(
        (TOPIC_ID, 0), "flights", settings, state, data.log(TOPIC_ID, 0, True, "flights", settings.log)
    )


async def leader_that_notes(asked: asyncio.Queue[int]) -> tuple[grpc.aio.Server, HostPort]:
    """A leader that is asked where epochs end, and never answers."""

    async def note(request: bytes, context: object) -> bytes:
        for each in replica_pb2.EndOffsetForLeaderEpochRequest.FromString(request).partitions:
            asked.put_nowait(each.epoch)
        await asyncio.Event().wait()
        return b""

    server = grpc.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "EndOffsetForLeaderEpoch": grpc.unary_unary_rpc_method_handler(note)
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("hightide.v1.ReplicaService", handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, HostPort("127.0.0.1", port)


def test_a_flush_that_ends_while_an_epoch_is_asked_for_does_not_withdraw_the_question(tmp_path: Path) -> None:
    """Else the follower would wait for ever for an answer that nobody was asked for: with flush=fsync, a
    leader that changes right after an append."""
    data = DataDirectory.open(tmp_path, "the-cluster", 2)

    async def scenario() -> int:
        asked: asyncio.Queue[int] = asyncio.Queue()
        server, address = await leader_that_notes(asked)
        failures: list[Exception] = []
        replicas, replica = HostedReplicas(), truncating(data)
        replicas.add(replica)
        shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
        settings = FetchSettings(
            500, 1 << 20, lambda: Follower("the-cluster", 2, 7), lambda leader: address, registered
        )
        fetchers = Fetchers(replicas, shell, settings)
        fetchers.ask(replica, AskEpochEnd(1, 2, 1))
        fetchers.resume(replica)
        epoch = await asyncio.wait_for(asked.get(), ASKED_S)
        await fetchers.close()
        await server.stop(None)
        return epoch

    assert asyncio.run(scenario()) == 1
    data.close()


async def registered() -> None:
    """This broker is registered."""
