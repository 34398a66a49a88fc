"""Anything may stand anywhere in ZooKeeper: an operator wrote it, or half of it. The controller takes it as
it is.

A seed chooses what stands where. The real store and the real reader read it, the core decides, what it
decides is written to the same ZooKeeper, and so on until nothing is left to do.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterable

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.invariants import check
from hightide_controller.core.machine import step
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.writes import StoreWrites
from hightide_controller.zookeeper.admin_reader import AdminReader
from hightide_controller.zookeeper.store import ControllerStore
from hightide_runtime.znodes.cluster_znodes import ControllerEpochZnode
from hightide_runtime.zookeeper.session import ZooKeeperSession

SEEDS = range(40)
EFFECTS_MAX = 300  # What comes to rest at all does so after a few dozen.

TOPIC_ID, OTHER_TOPIC_ID = f"{1:032x}", f"{2:032x}"
BROKER = b'{"host":"h","port":1,"started_at_ms":0}'
TOPIC = f'{{"topic_id":"{TOPIC_ID}","partitions":{{"0":[1,2],"1":[2,3]}}}}'.encode()
MARKER = b'{"topic":"t"}'
CONTENTS = (
    *(b"", b"{", b"{}", b"null", b"[]", b"[1]", b"[1,2]", b"[2,3]", b"[1,1]"),
    b'{"replicas":[3,1]}',
    b'{"replicas":[3],"original":[1,2]}',
    b'{"replicas":[3],"original":[9]}',
    b'{"replicas":[2147483647]}',
    b'{"0":[1,2]}',
    b'{"0":[1,2],"1":[2,1]}',
    b'{"0":[1],"1":[2],"2":[3]}',
    TOPIC,
    f'{{"topic_id":"{OTHER_TOPIC_ID}","partitions":{{"0":[1,2]}}}}'.encode(),
    f'{{"topic_id":"{TOPIC_ID}","partitions":{{"0":[3]}},"first_leader_epochs":{{"1":4,"7":2}}}}'.encode(),
    f'{{"topic_id":"{TOPIC_ID}"}}'.encode(),
    *(MARKER, b'{"topic":"u"}', b'{"topic":"a/b"}'),
    b'{"leader":1,"leader_epoch":0,"isr":[1,2],"controller_epoch":1}',
    b'{"leader":-1,"leader_epoch":3,"isr":[9],"controller_epoch":1}',
    b'{"leader":7,"leader_epoch":3,"isr":[1,7],"controller_epoch":99}',
    b'{"leader":2,"leader_epoch":2147483647,"isr":[2],"controller_epoch":1}',
    BROKER,
    b'{"host":"\\ud800","port":1,"started_at_ms":0}',
    b'{"configs":{"min.insync.replicas":"9"}}',
    b'{"configs":{"flush":"\\ud800"}}',
    b'{"configs":{"nonsense":"1"}}',
    b'{"configs":{"unclean.leader.election.enable":"true"}}',
    b'{"throttle_bytes_per_s":1}',
    b'{"throttle_bytes_per_s":-1}',
)
OF_A_TOPIC = (
    "/brokers/topics/{t}",
    *(f"/brokers/topics/{{t}}/{number}" for number in ("0", "1", "2", "01", "x")),
    *(f"/brokers/topics/{{t}}/{number}/leaderAndISR" for number in range(4)),
    "/brokers/topics/{t}/0/other",
    "/config/topics/{t}",
    "/admin/delete_topics/{t}",
    "/admin/delete_topics/{t}/x",
    *(
        f"/admin/partitions_{kind}/{{t}}{below}"
        for kind in ("reassigned", "add", "remove")
        for below in ("", "/0", "/1", "/2", "/3", "/01", "/x", "/0/y")
    ),
)
PATHS = (
    *(f"/brokers/ids/{name}" for name in ("1", "2", "3", "01", "x")),
    *(path.format(t=topic) for topic in ("t", "u", "a b") for path in OF_A_TOPIC),
    *(f"/brokers/topic_ids/{name}" for name in (TOPIC_ID, OTHER_TOPIC_ID, "foo", "A" * 32)),
    *("/config/reassignment", "/config/x", "/admin/y"),
)


class Controller:
    """The core between the real store and the real reader; checked after every step. Nobody answers brokers'
    calls: what is sent to them is left out."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self.store = ControllerStore(session)
        self.admin = AdminReader(session)
        self._state = ClusterState(1)
        self._todo: deque[ef.Effect] = deque()

    def take(self, event: ev.Event) -> None:
        self._state, effects = step(self._state, event)
        check(self._state)
        self._todo.extend(effects)

    async def come_to_rest(self) -> None:
        for _ in range(EFFECTS_MAX):
            if not self._todo:
                return
            event = await self._carry_out(self._todo.popleft())
            if event is not None:
                self.take(event)
        raise AssertionError(f"after {EFFECTS_MAX} effects there is still to do: {self._todo}")

    async def _carry_out(self, effect: ef.Effect) -> ev.Event | None:
        match effect:
            case ef.StoreLeaderAndIsr():
                return await self.store.submit(effect, "")
            case StoreWrites():
                return await self.store.store_writes(effect, "")
            case ef.ReadStates():
                return ev.StatesRead(await self.store.read_states(effect.names), effect.cause)
            case ef.ReadTopics():
                return await self.store.read_everything_about(effect.names, self.admin)
            case _:
                return None


async def put(session: ZooKeeperSession, path: str, data: bytes) -> None:
    await session.ensure_path(path.rpartition("/")[0])
    if await session.exists(path):
        await session.set(path, data, -1)
    else:
        await session.create(path, data)


def nonsense(dice: random.Random) -> Iterable[tuple[str, bytes]]:
    """Most often a topic and live brokers, then anything anywhere."""
    for broker_id in (1, 2, 3):
        if dice.random() < 0.8:
            yield f"/brokers/ids/{broker_id}", BROKER
    if dice.random() < 0.7:
        yield "/brokers/topics/t", TOPIC
        yield f"/brokers/topic_ids/{TOPIC_ID}", MARKER
    for _ in range(dice.randrange(1, 25)):
        yield dice.choice(PATHS), dice.choice(CONTENTS)


async def run_controller(session: ZooKeeperSession, seed: int) -> None:
    dice = random.Random(seed)
    await session.ensure_cluster_id()
    await session.create(ControllerEpochZnode.path(), ControllerEpochZnode(1).encode())
    for path, data in nonsense(dice):
        await put(session, path, data)
    controller = Controller(session)
    store, admin = controller.store, controller.admin
    controller.take(ev.ControllerSeen(None))
    controller.take(ev.Elected(1, 0, await store.read_snapshot(admin)))
    await controller.come_to_rest()
    await put(session, dice.choice(PATHS), dice.choice(CONTENTS))
    controller.take(ev.AdminChanged((await admin.read_all()).admin))
    await controller.come_to_rest()
    topics = await store.read_topics(await store.topic_names())
    controller.take(ev.TopicsChanged(topics, (), is_everything=True))
    await controller.come_to_rest()
    controller.take(ev.Ticked())
    await controller.come_to_rest()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_controller_comes_to_rest_whatever_stands_in_zookeeper(zookeeper_hosts: str, seed: int) -> None:
    async def run() -> None:
        session = await ZooKeeperSession.connect(zookeeper_hosts, session_timeout_ms=20_000)
        try:
            await asyncio.wait_for(run_controller(session, seed), 90)
        finally:
            await session.close()

    asyncio.run(run())
