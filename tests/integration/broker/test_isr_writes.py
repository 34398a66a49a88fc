"""What a leader writes into ZooKeeper, and what it must not (V3 G, KIP-903)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from hightide_runtime.znodes.cluster_znodes import BrokerIncarnationZnode, LeaderAndIsrZnode
from hightide_runtime.zookeeper.session import Znode
from integration.broker.scripted_controller import ME, Scripted, Topic, scripted
from integration.controller.controller_harness import until

OTHER = 2
OK = [0]
LAG_MS = 1000


def run(zookeeper: str, directory: Path, test: Callable[[Scripted], Awaitable[None]]) -> None:
    async def main() -> None:
        async with scripted(
            zookeeper, directory, ("--replica-lag-time-max-ms", str(LAG_MS), "--min-insync-replicas", "1")
        ) as broker:
            await test(broker)

    asyncio.run(main())


async def state_of(broker: Scripted, topic: Topic) -> Znode:
    return await broker.session.get(LeaderAndIsrZnode.path(topic.name, 0))


def test_a_leader_that_nobody_told_of_the_end_of_its_topic_writes_nothing_into_its_namesake(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    """The znodes of both have version 0: nothing but the marker of the topic's id tells them apart."""

    async def test(broker: Scripted) -> None:
        old = await broker.create("flights", (ME, OTHER))
        decided = await broker.decisions(old, 0)
        await broker.delete(old)
        new = await broker.create("flights", (OTHER, ME))
        before = await state_of(broker, new)
        # It leads only now, so that it cannot have written anything before the end.
        assert await broker.send(decided) == OK

        async def given_up() -> bool:
            return (old.topic_id, 0) not in await broker.held()

        # The other one never fetches: soon the leader wants it out of the ISR, and finds out.
        await until(given_up, "the leader gives up what is deleted")
        assert await state_of(broker, new) == before
        assert before.version == 0

    run(zookeeper_hosts, tmp_path, test)


def test_a_follower_joins_in_its_present_life_only(zookeeper_hosts: str, tmp_path: Path) -> None:
    async def test(broker: Scripted) -> None:
        path = BrokerIncarnationZnode.path(OTHER)
        await broker.session.create(path, b"")
        topic = await broker.create("flights", (ME, OTHER))
        await broker.set_state(topic, 0, ME, 0, (ME,))
        marked = await broker.create("marked", (ME, OTHER))
        await broker.set_state(marked, 0, ME, 0, (ME,))
        assert await broker.decide(topic, 0) == OK
        assert await broker.decide(marked, 0) == OK
        assert await broker.session.set(path, b"", 0) == 1
        # By the word of the life before, and then in a topic of its own by that of this life.
        await broker.follow(OTHER, topic, 0, incarnation=0)
        await broker.follow(OTHER, marked, 0, incarnation=1)

        async def joined(where: Topic) -> bool:
            return LeaderAndIsrZnode.decode((await state_of(broker, where)).data).isr == (ME, OTHER)

        await until(lambda: joined(marked), "the follower joins in its present life")
        assert not await joined(topic)

        async def heard_anew() -> bool:
            await broker.follow(OTHER, topic, 0, incarnation=1)
            return await joined(topic)

        await until(heard_anew, "the follower is heard anew, and joins")

    run(zookeeper_hosts, tmp_path, test)
