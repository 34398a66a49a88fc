"""Real controller processes and a real ZooKeeper: election, takeover, fencing, topics, failover."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_status import rpc_status
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_runtime.znodes.cluster_znodes import (
    CONTROLLER_CANDIDATES,
    CandidateZnode,
    ControllerEpochZnode,
    ControllerZnode,
    LeaderAndIsrZnode,
    TopicZnode,
)
from hightide_runtime.zookeeper.session import BadVersion, Check, Create, Operation, SetData
from integration.controller.controller_harness import (
    CALL_S,
    SESSION_TIMEOUT_MS,
    Cluster,
    cluster,
    paused,
    until,
)
from integration.controller.session_theft import end_session_of

TOPIC_ID = bytes(range(16))
LONG_BEFORE_S = SESSION_TIMEOUT_MS / 1000 * 2 / 3
"""Whoever waits for the end of a session waits for longer, also on a busy machine."""


async def create(running: Cluster, name: str, partitions: int = 3, replicas: int = 3, **configs: str) -> Any:
    stub = await running.stub()
    request = controller_pb2.CreateTopicRequest(
        topic=name, partition_count=partitions, replication_factor=replicas, configs=configs
    )
    return await stub.CreateTopic(request, timeout=CALL_S)


async def reason_of(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    status = rpc_status.from_call(caught.value)
    assert status is not None
    assert status.message
    return str(status.details[0].value)


def test_a_topic_is_created_led_and_described(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path) as running:
            created = await create(running, "flights", 6)
            assert sorted(p.leader for p in created.topic.partitions) == [1, 1, 2, 2, 3, 3]
            for broker in running.brokers.values():
                assert sorted(broker.told("flights")) == list(range(6)), "before the answer"
                assert broker.updates[-1].topics[0].topic == "flights"
                assert len(broker.updates[-1].brokers) == 3
            stub = await running.stub()
            described = await stub.DescribeTopics(
                controller_pb2.DescribeTopicsRequest(topics=["flights", "no-such", "../x"]), timeout=10
            )
            assert [len(topic.partitions) for topic in described.topics] == [6, 0, 0]
            assert described.topics[0] == created.topic
            whole = await stub.DescribeCluster(controller_pb2.DescribeClusterRequest(), timeout=CALL_S)
            assert (whole.topic_count, whole.partition_count, whole.offline_partition_count) == (1, 6, 0)
            assert [(b.endpoint.id, b.alive, b.leader_count) for b in whole.brokers] == [
                (1, True, 2),
                (2, True, 2),
                (3, True, 2),
            ]

    asyncio.run(scenario())


def test_those_that_stand_by_are_told_as_long_as_they_are_there(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path, controllers=(1, 2)) as running:
            stub = await running.stub()

            async def controllers() -> list[tuple[int, str, int]]:
                told = await stub.DescribeCluster(controller_pb2.DescribeClusterRequest(), timeout=CALL_S)
                return [(each.id, each.host, each.port) for each in told.controllers]

            there = [(number, "127.0.0.1", running.ports[number]) for number in (1, 2)]

            async def both() -> bool:
                return await controllers() == there

            await until(both, "both controllers are told")
            # An operator takes the standby's session: the process goes on, and stands again.
            (standby,) = [
                name
                for name in await running.session.children(CONTROLLER_CANDIDATES)
                if name.startswith("2-")
            ]
            end_session_of(zookeeper_hosts, f"{CONTROLLER_CANDIDATES}/{standby}")

            async def another() -> bool:
                names = await running.session.children(CONTROLLER_CANDIDATES)
                return standby not in names and any(name.startswith("2-") for name in names)

            await until(another, "the standby stands under another session")
            garbage = f"{CONTROLLER_CANDIDATES}/by-hand"
            await running.session.create(garbage, b"nonsense", ephemeral=True)
            # What an earlier life left behind at the same address is told once, and the later one of both.
            earlier = CandidateZnode(7, "127.0.0.1", running.ports[2]).encode()
            await running.session.create(f"{CONTROLLER_CANDIDATES}/7-1", earlier, ephemeral=True)
            assert await controllers() == [there[0], (7, *there[1][1:])]
            await running.session.delete(f"{CONTROLLER_CANDIDATES}/7-1")
            await asyncio.to_thread(running.controllers[2].terminate, CALL_S)

            async def alone() -> bool:
                return await controllers() == there[:1]

            await until(alone, "the controller that was stopped is told no more")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"topic": "../x", "partition_count": 1, "replication_factor": 1}, "INVALID_TOPIC_NAME"),
        ({"topic": "x", "partition_count": 1_000_000, "replication_factor": 1}, "INVALID_PARTITION_COUNT"),
        ({"topic": "x", "partition_count": 1, "replication_factor": 4}, "INVALID_REPLICATION_FACTOR"),
        (
            {"topic": "x", "partition_count": 1, "replication_factor": 1, "configs": {"a": "b"}},
            "INVALID_CONFIG",
        ),
    ],
)
def test_bad_input_gets_a_typed_error(
    zookeeper_hosts: str, tmp_path: Path, request_: dict[str, Any], expected: str
) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path) as running:
            stub = await running.stub()
            call = stub.CreateTopic(controller_pb2.CreateTopicRequest(**request_), timeout=CALL_S)
            assert expected in await reason_of(call)
            described = await stub.DescribeTopics(controller_pb2.DescribeTopicsRequest(), timeout=CALL_S)
            assert list(described.topics) == []

    asyncio.run(scenario())


def test_a_topic_znode_written_by_hand_gets_leaders(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path) as running:
            await running.stub()
            by_hand = TopicZnode(TOPIC_ID, ((2, 1), (3, 2)))
            await running.session.create(TopicZnode.path("flights"), by_hand.encode())
            assert (await running.led_by("flights", 0, 2)).isr == (2, 1)
            assert (await running.led_by("flights", 1, 3)).isr == (3, 2)

    asyncio.run(scenario())


def test_a_topic_znode_of_garbage_harms_nobody(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path) as running:
            await running.session.create(TopicZnode.path("bad"), b"\xff{")
            await create(running, "good", 1)
            await running.led_by("good", 0, 1, 2, 3)

    asyncio.run(scenario())


def test_a_partition_znode_left_behind_does_not_stop_its_leader(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path) as running:
            path = TopicZnode.path("flights")
            await running.session.create(path, TopicZnode(TOPIC_ID, ((2, 1),)).encode())
            await running.led_by("flights", 0, 2)
            await running.session.delete(LeaderAndIsrZnode.path("flights", 0))
            await running.brokers[2].die()
            assert (await running.led_by("flights", 0, 1)).isr == (1,)

    asyncio.run(scenario())


def test_a_dead_broker_is_succeeded_long_before_its_session_expires(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def scenario() -> float:
        async with cluster(zookeeper_hosts, tmp_path) as running:
            await create(running, "flights", 6)
            for broker in running.brokers.values():
                broker.decisions.clear()
            died_at = asyncio.get_running_loop().time()
            await running.brokers[1].die()
            for partition in range(6):
                await running.led_by("flights", partition, 2, 3, without=1)

            async def told() -> bool:
                return all(len(running.brokers[b].told("flights")) == 6 for b in (2, 3))

            await until(told, "the others are told")
            took = asyncio.get_running_loop().time() - died_at
            decided = running.brokers[2].told("flights")
            epochs = {p.partition: p.leader_epoch for p in decided.values()}
            assert sorted(epochs.values()) == [0, 0, 0, 0, 1, 1], "a shrink is no new epoch"
            assert all(len(request.topics) == 1 for request in running.brokers[2].decisions)

            async def traced() -> bool:
                return any(span["name"] == "failover" for span in spans_of(tmp_path))

            await until(traced, "the acknowledgements have ended the trace")
            return took

    took = asyncio.run(scenario())
    assert took < LONG_BEFORE_S, f"it took {took:.3f} s"
    (root,) = [s for s in spans_of(tmp_path) if s["name"] == "failover"]
    attributes = root["attributes"]
    assert attributes["partition_count"] == 6
    assert attributes["broker_ids"] == "1"
    for duration in ("detect_ms", "elect_ms", "zookeeper_ms", "fan_out_ms"):
        assert 0 <= attributes[duration] < 1000 * LONG_BEFORE_S
    names = [s["name"] for s in spans_of(tmp_path) if s["trace_id"] == root["trace_id"]]
    assert names.count("inform_broker") >= 2
    assert names.count("zookeeper_multi") == 2
    assert {"failover.broker_down", "failover.broker_watcher_triggered", "failover.leadership_change"} <= set(
        names
    )


def spans_of(directory: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in (directory / "traces").glob("*.jsonl")
        # The last line may be half written.
        for line in file.read_text().rpartition("\n")[0].splitlines()
    ]


def test_a_leaders_own_isr_write_does_not_mislead_the_controller(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path) as running:
            assignment = [controller_pb2.ReplicaAssignment(replicas=[1, 2, 3])] * 50
            stub = await running.stub()
            request = controller_pb2.CreateTopicRequest(topic="flights", assignment=assignment)
            await stub.CreateTopic(request, timeout=CALL_S)
            for partition in range(0, 50, 7):
                state, znode = await running.state("flights", partition)
                smaller = LeaderAndIsrZnode(1, 0, (1, 3), state.controller_epoch)
                await running.session.set(znode.path, smaller.encode(), znode.version)
            await running.brokers[1].die()
            for partition in range(50):
                state = await running.led_by("flights", partition, 2, 3)
                assert state.leader == (3 if partition % 7 == 0 else 2)

    asyncio.run(scenario())


def test_a_broker_that_refuses_is_told_until_it_accepts(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path, brokers=(1,)) as running:
            running.brokers[1].failures_to_come = 3
            await create(running, "flights", 2, 1)
            assert running.brokers[1].failures_to_come == 0
            assert sorted(running.brokers[1].told("flights")) == [0, 1]

    asyncio.run(scenario())


def test_a_controlled_shutdown_moves_leaders_before_it_answers(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path) as running:
            await create(running, "flights", 6)
            stub = await running.stub()
            request = controller_pb2.ControlledShutdownRequest(
                broker_id=1, broker_epoch=running.brokers[1].broker_epoch
            )
            answer = await stub.ControlledShutdown(request, timeout=CALL_S)
            assert answer.remaining_leader_count == 0
            for partition in range(6):
                state, _ = await running.state("flights", partition)
                assert state.leader != 1
                assert 1 not in state.isr
                assert running.brokers[state.leader].told("flights")[partition].leader == state.leader
            request.broker_epoch += 1
            assert "STALE_BROKER_EPOCH" in await reason_of(stub.ControlledShutdown(request, timeout=CALL_S))

    asyncio.run(scenario())


def test_a_standby_names_the_active_controller(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path, brokers=(1,), controllers=(1, 2)) as running:
            assert (await running.active()).controller_id == 1
            standby = await running.stub(2)
            call = standby.DescribeCluster(controller_pb2.DescribeClusterRequest(), timeout=CALL_S)
            assert "NOT_CONTROLLER" in await reason_of(call)

    asyncio.run(scenario())


def test_the_standby_takes_over_when_the_active_one_is_killed(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def scenario() -> float:
        async with cluster(zookeeper_hosts, tmp_path, controllers=(1, 2)) as running:
            await create(running, "flights", 6)
            before = [await running.state("flights", partition) for partition in range(6)]
            first = await running.active()
            await running.stub(2)
            killed_at = asyncio.get_running_loop().time()
            running.kill_controller(first.controller_id)
            second = await running.active(after_epoch=first.controller_epoch)
            took = asyncio.get_running_loop().time() - killed_at
            assert second.controller_id == 2

            async def told() -> bool:
                return all(b.newest_controller_epoch == 2 for b in running.brokers.values())

            await until(told, "brokers hear of the new controller")
            after = [await running.state("flights", partition) for partition in range(6)]
            assert after == before, "what exists is not initialised again"
            await running.brokers[3].die()
            for partition in range(6):
                state = await running.led_by("flights", partition, 1, 2)
                assert state.controller_epoch in (1, 2)
            running.start_controller(1)
            old = await running.stub(1)
            call = old.DescribeCluster(controller_pb2.DescribeClusterRequest(), timeout=CALL_S)
            assert "NOT_CONTROLLER" in await reason_of(call)
            return took

    took = asyncio.run(scenario())
    assert took < LONG_BEFORE_S, f"it took {took:.3f} s"


def test_a_controller_that_stops_on_purpose_is_succeeded_at_once(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path, brokers=(1,), controllers=(1, 2)) as running:
            await running.stub(2)
            first = await running.active()
            process = running.controllers[first.controller_id]
            assert await asyncio.to_thread(process.terminate, CALL_S)
            assert process.exit_code == 0
            assert (await running.active(first.controller_epoch)).controller_id == 2

    asyncio.run(scenario())


def test_a_lone_controller_that_restarts_does_not_wait_for_its_old_session(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path, brokers=(1,)) as running:
            first = await running.active()
            running.kill_controller(1)
            running.start_controller(1)
            began = asyncio.get_running_loop().time()
            await running.active(first.controller_epoch)
            assert asyncio.get_running_loop().time() - began < LONG_BEFORE_S

    asyncio.run(scenario())


def test_a_paused_controller_stays_active_until_it_is_deposed_and_then_writes_nothing(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    """A stopped process refuses no connection, so it is not dead. Its epoch is what makes it harmless."""

    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path) as running:
            await create(running, "flights", 3)
            first = await running.active()
            with paused(running.controllers[1]):
                # Another controller is elected as the store does it, while this one cannot hear of it.
                epoch = await running.session.get(ControllerEpochZnode.path())
                moved = ControllerEpochZnode(first.controller_epoch + 1).encode()
                await running.session.multi([SetData(epoch.path, moved, epoch.version)])
                await running.brokers[1].die()
            before = [await running.state("flights", partition) for partition in range(3)]
            # It wakes up, sees the death, tries to write under its old epoch, is refused and resigns; as
            # its own znode stands, it gives that back, and is elected under an epoch of its own.
            second = await running.active(after_epoch=first.controller_epoch + 1)
            assert second.controller_epoch == first.controller_epoch + 2
            for partition in range(3):
                state = await running.led_by("flights", partition, 2, 3)
                changed = state != before[partition][0]
                assert not changed or state.controller_epoch == second.controller_epoch

    asyncio.run(scenario())


def test_an_epoch_that_makes_no_sense_stops_elections_and_is_told_in_a_sentence(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path, brokers=(1,)) as running:
            first = await running.active()
            epoch = await running.session.get(ControllerEpochZnode.path())
            running.kill_controller(1)
            await running.session.multi([SetData(epoch.path, b"{", epoch.version)])
            running.start_controller(1)
            log = running.directory / "controller-1.log"

            async def told() -> bool:
                return "no controller can be elected until an operator corrects it" in log.read_text()

            await until(told, "the controller says what is wrong")
            assert "Traceback" not in log.read_text()
            await running.session.multi([SetData(epoch.path, epoch.data, epoch.version + 1)])
            assert (await running.active(first.controller_epoch)).controller_id == 1

    asyncio.run(scenario())


def test_a_write_under_an_old_epoch_is_refused_by_zookeeper(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path, brokers=(1,), controllers=(1, 2)) as running:
            await running.stub(2)
            first = await running.active()
            old = await running.session.get(ControllerEpochZnode.path())
            running.kill_controller(first.controller_id)
            await running.active(first.controller_epoch)
            fenced: list[Operation] = [
                Check(ControllerEpochZnode.path(), old.version),
                Create(TopicZnode.path("x"), TopicZnode(TOPIC_ID, ((1,),)).encode()),
            ]
            with pytest.raises(BadVersion) as caught:
                await running.session.multi(fenced)
            assert caught.value.path == ControllerEpochZnode.path()

    asyncio.run(scenario())


def test_a_controller_whose_session_expires_is_succeeded_and_stands_by_when_it_wakes(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with cluster(zookeeper_hosts, tmp_path, controllers=(1, 2)) as running:
            await create(running, "flights", 3)
            first = await running.active()
            with paused(running.controllers[1]):
                end_session_of(zookeeper_hosts, ControllerZnode.path())
                second = await running.active(after_epoch=first.controller_epoch)
                assert second.controller_id == 2
                await running.brokers[1].die()
                for partition in range(3):
                    await running.led_by("flights", partition, 2, 3, without=1)
            woken = await running.stub(1)

            async def stands_by() -> bool:
                call = woken.DescribeCluster(controller_pb2.DescribeClusterRequest(), timeout=CALL_S)
                try:
                    await call
                except grpc.aio.AioRpcError as error:
                    return "controller 2 is" in str(error.details())
                return False

            await until(stands_by, "the one that woke up stands by")
            assert (await running.active()) == second

    asyncio.run(scenario())


def test_zookeeper_may_be_away_for_a_while(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        async with cluster(f"{server.address}/away", tmp_path) as running:
            await create(running, "flights", 6)
            first = await running.active()
            await asyncio.to_thread(server.stop)
            await running.brokers[1].die()
            await asyncio.to_thread(server.start)
            for partition in range(6):
                await running.led_by("flights", partition, 2, 3, without=1)
            assert (await running.active()) == first, "its session outlived the outage"
            await create(running, "more", 2, 2)

    with EmbeddedZooKeeper(tmp_path / "zookeeper", tick_time_ms=200) as server:
        asyncio.run(scenario(server))
