"""What the controller reads from a real ZooKeeper and writes to it, also among what hands have left there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hightide_controller.contract.convert import Identity
from hightide_controller.core import events as ev
from hightide_controller.core.effects import StoreLeaderAndIsr, StoreTopic
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.topic_rules import (
    ASSIGNMENT_BYTES_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    partition_bytes,
    size_fault,
)
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from hightide_controller.core.writes import LeaderAndIsrWrite, MarkerCreated, StoreWrites, TopicWrite
from hightide_controller.descriptions import described_topics, listed_reassignments, summary_of
from hightide_controller.zookeeper.admin_reader import AdminReader
from hightide_controller.zookeeper.store import ControllerStore
from hightide_controller.zookeeper.write_operations import topic_znode
from hightide_runtime.znodes.cluster_znodes import (
    ControllerEpochZnode,
    TopicConfigZnode,
    TopicIdZnode,
    TopicZnode,
)
from hightide_runtime.zookeeper.session import ZooKeeperSession

FLIGHTS = ev.Topic("flights", "0" * 31 + "1", ((1, 2),))


def with_store(hosts: str, test: Callable[[ZooKeeperSession, ControllerStore], Awaitable[None]]) -> None:
    async def run() -> None:
        session = await ZooKeeperSession.connect(hosts, session_timeout_ms=20_000)
        try:
            await session.ensure_cluster_id()
            await session.create(ControllerEpochZnode.path(), ControllerEpochZnode(1).encode())
            await test(session, ControllerStore(session))
        finally:
            await session.close()

    asyncio.run(run())


async def put(session: ZooKeeperSession, topic: ev.Topic) -> None:
    await session.create(TopicZnode.path(topic.name), topic_znode(topic).encode())
    await session.create(TopicIdZnode.path(bytes.fromhex(topic.topic_id)), TopicIdZnode(topic.name).encode())


def test_a_topic_that_an_operator_has_garbled_is_not_taken_for_one_that_is_gone(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        await session.create("/brokers/topics/flights", b"{")
        reading = asyncio.create_task(store.read_everything_about(["flights"], AdminReader(session)))
        while not reading.done():
            # As whoever else reads does, to bring complaints to the core.
            store.take_complaints()
            await asyncio.sleep(0)
        read = await reading
        assert read.topics == {}
        assert read.unreadable == ("flights",)

    with_store(zookeeper_hosts, test)


def test_settings_that_an_operator_has_garbled_are_not_taken_for_none(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        await put(session, FLIGHTS)
        await session.create(TopicConfigZnode.path("flights"), b"retention.ms=-1")
        read = (await store.read_everything_about(["flights"], AdminReader(session))).topics["flights"]
        assert read is not None
        assert read.has_garbled_configs
        assert read.config_version == 0

    with_store(zookeeper_hosts, test)


def test_nonsense_among_the_markers_is_complained_about_and_left_alone(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        orphan, illegal = "a" * 32, "b" * 32
        await put(session, FLIGHTS)
        await session.create(f"/brokers/topic_ids/{orphan}", b'{"topic":"old"}')
        await session.create(f"/brokers/topic_ids/{illegal}", b'{"topic":"../old"}')
        await session.create("/brokers/topic_ids/old", b'{"topic":"old"}')
        await session.create(f"/brokers/topic_ids/{'C' * 32}", b'{"topic":"old"}')
        snapshot = await store.read_snapshot(AdminReader(session))
        assert snapshot.orphan_markers == {orphan: "old"}
        complained = {path for path, message in snapshot.admin.complaints.items() if message}
        assert complained == {f"/brokers/topic_ids/{name}" for name in (illegal, "old", "C" * 32)}

    with_store(zookeeper_hosts, test)


def test_a_description_leaves_no_complaint_behind(zookeeper_hosts: str) -> None:
    """It would come up with whatever is read next, when an operator may have taken away what it is about:
    nothing would ever withdraw it. And whoever asks for a name that no topic can have tells nothing of
    ZooKeeper."""

    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        await put(session, FLIGHTS)
        for path in (
            "/brokers/topics/flights/0/leaderAndISR",
            "/brokers/topics/il legal",
            "/brokers/topics/garbled",
        ):
            await session.ensure_path(path)
        move = "/admin/partitions_reassigned/flights/0"
        await session.ensure_path(move.rpartition("/")[0])
        await session.create(move, b"[2,3]")
        state = ClusterState(1)
        state.add_topic(FLIGHTS)
        assert [each.topic for each in await described_topics(store, [], None)] == ["flights"]
        assert len(await described_topics(store, ["never/there"], None)) == 1
        await summary_of(store, state, Identity("cluster", 1, "host", 1))
        listed = await listed_reassignments(store, AdminReader(session), state, ())
        assert len(listed.reassignments) == 1
        assert store.take_complaints() == {}
        # The same read on behalf of the core does complain.
        await store.read_topics(await store.topic_names())
        assert set(store.take_complaints()) == {"/brokers/topics/il legal", "/brokers/topics/garbled"}

    with_store(zookeeper_hosts, test)


def test_the_largest_topic_that_may_be_can_be_written(zookeeper_hosts: str) -> None:
    two = (2_000_000_000, 2_000_000_001)
    size_bytes = sum(partition_bytes(*pair) for pair in enumerate((two,) * PARTITIONS_PER_TOPIC_MAX))
    with_three = (ASSIGNMENT_BYTES_MAX - size_bytes) // 11
    three = (*two, 2_000_000_002)
    assignment = (three,) * with_three + (two,) * (PARTITIONS_PER_TOPIC_MAX - with_three)
    assert size_fault(assignment) is None
    assert size_fault((three, *assignment)) is not None
    epochs = dict.fromkeys(range(PARTITIONS_PER_TOPIC_MAX), 2_000_000_000)
    largest = ev.Topic("flights", FLIGHTS.topic_id, assignment, first_leader_epochs=epochs)
    assert len(topic_znode(largest).encode()) > ASSIGNMENT_BYTES_MAX

    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        await put(session, FLIGHTS)
        outcome = await store.store_writes(StoreWrites(7, 0, (TopicWrite(largest, 0),)), "")
        assert outcome == ev.StoreCommitted(7)
        (read,) = await store.read_topics(["flights"])
        assert read.assignment == assignment

    with_store(zookeeper_hosts, test)


def test_a_topic_whose_id_an_operator_has_overwritten_is_no_other_topic(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        path = TopicZnode.path("flights")
        await put(session, FLIGHTS)
        await session.set(path, b'{"0":[2,1]}', 0)
        read = await store.read_everything_about(["flights"], AdminReader(session))
        assert read.unreadable == ("flights",)
        assert FLIGHTS.topic_id in (read.admin.complaints[path] or "")
        snapshot = await store.read_snapshot(AdminReader(session))
        assert snapshot.topics == ()
        assert snapshot.orphan_markers == {}

    with_store(zookeeper_hosts, test)


def test_a_topic_that_is_adopted_while_it_is_read_is_not_taken_for_one_whose_id_was_overwritten(
    zookeeper_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read as it was before, and the marker as it was after."""

    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        await session.create(TopicZnode.path("flights"), b'{"0":[1,2]}')
        children = session.children

        async def children_after_the_adoption(path: str, *, watch: bool = False) -> list[str]:
            monkeypatch.undo()
            adoption = (TopicWrite(FLIGHTS, 0), MarkerCreated("flights", FLIGHTS.topic_id))
            assert await store.store_writes(StoreWrites(7, 0, adoption), "") == ev.StoreCommitted(7)
            return await children(path, watch=watch)

        monkeypatch.setattr(session, "children", children_after_the_adoption)
        (read,) = await store.read_topics(["flights"])
        assert (read.topic_id, read.has_marker, read.version) == (FLIGHTS.topic_id, True, 1)
        assert store.take_complaints() == {}

    with_store(zookeeper_hosts, test)


def test_a_topic_that_an_operator_has_deleted_and_created_again_is_another_one(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        await put(session, FLIGHTS)
        await session.delete(TopicZnode.path("flights"))
        await session.create(TopicZnode.path("flights"), b'{"0":[2,1]}')
        (read,) = await store.read_topics(["flights"])
        assert read.is_bare
        assert read.topic_id != FLIGHTS.topic_id

    with_store(zookeeper_hosts, test)


def test_nobody_is_advised_to_take_away_a_znode_that_records_hang_on(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        await put(session, FLIGHTS)
        state = "/brokers/topics/flights/0/leaderAndISR"
        await session.ensure_path(state)
        await session.create("/brokers/topics/garbled", b"{")
        await session.create("/brokers/ids/seven", b"")
        found = (await store.read_snapshot(AdminReader(session))).admin.complaints
        assert "do not delete it" in (found[state] or "")
        assert "do not delete it" in (found["/brokers/topics/garbled"] or "")
        assert "correct it or delete it" in (found["/brokers/ids/seven"] or "")

    with_store(zookeeper_hosts, test)


def test_settings_that_change_while_a_topic_is_created_fence_nobody(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        path = TopicConfigZnode.path("flights")
        await session.create(path, TopicConfigZnode({"flush": "fsync"}).encode())
        creating = asyncio.create_task(store.store_topic(StoreTopic(1, 0, FLIGHTS)))
        # It has asked for what stands there, and not heard it yet.
        await asyncio.sleep(0)
        await session.set(path, TopicConfigZnode({"flush": "replicated"}).encode(), 0)
        assert await creating == ev.TopicStored(1)
        assert await session.exists(path) is None

    with_store(zookeeper_hosts, test)


def test_without_the_controller_epoch_nothing_is_written_over_and_over(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        await session.delete(ControllerEpochZnode.path())
        await put(session, FLIGHTS)
        outcome = await store.store_writes(StoreWrites(7, 0, (TopicWrite(FLIGHTS, 0),)), "")
        assert outcome == ev.Fenced(is_write=True)

    with_store(zookeeper_hosts, test)


def test_what_zookeeper_will_never_take_is_not_tried_in_a_hot_loop(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        await put(session, FLIGHTS)
        # Nothing can be created below it.
        await session.create("/brokers/topics/flights/0", b"", ephemeral=True)
        name = TopicPartition("flights", 0)
        await store.read_states([name])
        change = LeaderAndIsrWrite(name, None, LeaderAndIsr(1, 0, (1, 2), 1, 0))
        began_s = asyncio.get_running_loop().time()
        outcome = store.submit(StoreLeaderAndIsr(7, 0, (change,)), "")
        assert await outcome == ev.StoreUnknown(7)
        # By the loop's timer, which may ring a moment early.
        assert asyncio.get_running_loop().time() - began_s > 0.9

    with_store(zookeeper_hosts, test)


def test_a_topic_that_no_write_could_hold_is_left_alone_with_a_complaint(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        replicas = ",".join(str(2_000_000_000 + number) for number in range(40))
        znode = "{" + ",".join(f'"{number}":[{replicas}]' for number in range(1_000)) + "}"
        await session.create("/brokers/topics/flights", znode.encode())
        snapshot = await store.read_snapshot(AdminReader(session))
        assert snapshot.topics == ()
        assert "bytes" in (snapshot.admin.complaints["/brokers/topics/flights"] or "")
        read = await store.read_everything_about(["flights"], AdminReader(session))
        assert read.unreadable == ("flights",)

    with_store(zookeeper_hosts, test)
