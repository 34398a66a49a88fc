"""The leader's side of replication: what one round's answer holds."""

from __future__ import annotations

import asyncio
from pathlib import Path

from adversary.batches import good_batch
from hightide.batch.header import iterate
from hightide_broker.core.events import LeaderAndIsrDecided, ProduceArrived
from hightide_broker.core.fetch_session import LeaderSessions, Position, SessionRequest
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.hosted import HostedReplica, HostedReplicas
from hightide_broker.replica_calls import Follower, ReplicaFetchCall
from hightide_broker.replica_server import ReplicaServer
from hightide_broker.shell import Payload, ReplicaShell
from hightide_broker.storage import DataDirectory
from hightide_broker.topic_settings import TopicSettings
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry import Telemetry

TOPIC_ID = bytes(range(16))
FOLLOWER = Follower("the-cluster", 2, 7)
KEYS = ((TOPIC_ID, 0), (TOPIC_ID, 1))


def leader(data: DataDirectory, shell: ReplicaShell, partition: int, value: bytes) -> HostedReplica:
    """A leader that has one record, and broker 2 for a follower in its ISR."""
    topic = TopicSettings()
    replica = HostedReplica(
        (TOPIC_ID, partition), "flights", topic, Replica.opened(ReplicaSettings(1)),
        data.log(TOPIC_ID, partition, True, "flights", topic.log),
    )  # fmt: skip
    shell.feed(replica, LeaderAndIsrDecided.dummy(1, 1, (1, 2), replicas=(1, 2)))
    batch = good_batch(TOPIC_ID, partition, (value,))
    headers = [header for _, header in iterate(batch)]
    shell.feed(replica, ProduceArrived.dummy(acks_all=False), Payload(batch, headers))
    return replica


def test_a_batch_that_does_not_fit_beside_the_others_comes_alone_in_the_next_round(tmp_path: Path) -> None:
    # Else the answer could be larger than a gRPC message may be, and so it would be each time.
    data = DataDirectory.open(tmp_path, "the-cluster", 1)

    async def scenario() -> None:
        failures: list[Exception] = []
        sessions: LeaderSessions[tuple[bytes, int]] = LeaderSessions(1)
        shell = ReplicaShell(SystemClock(), sessions, Telemetry.off(), failures.append)
        hosted = HostedReplicas()
        hosted.add(leader(data, shell, 0, b"small"))
        hosted.add(leader(data, shell, 1, bytes(5_000)))
        server = ReplicaServer("the-cluster", SystemClock(), hosted, sessions, shell)
        everything = tuple((key, Position(1, 0)) for key in KEYS)
        opened = await server.fetch(
            ReplicaFetchCall(FOLLOWER, SessionRequest(0, 0, everything, ()), 10_000, 1_000)
        )
        assert [each.partition for each in opened.partitions if each.batches] == [0]
        moved = ((KEYS[0], Position(1, 1)),)
        request = SessionRequest(opened.session_id, 1, moved, ())
        answer = await server.fetch(ReplicaFetchCall(FOLLOWER, request, 10_000, 1_000))
        assert [each.partition for each in answer.partitions if each.batches] == [1]
        shell.close()

    asyncio.run(scenario())
    data.close()
