"""What decides about leaders is chosen once in the life of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.cluster_znodes import ControllerEpochZnode
from hightide_runtime.znodes.coordination_znode import Coordination, CoordinationZnode
from hightide_runtime.zookeeper.coordination import fix_coordination
from hightide_runtime.zookeeper.session import ZooKeeperSession

pytestmark = pytest.mark.cluster

ValueT = TypeVar("ValueT")


def with_session(hosts: str, use: Callable[[ZooKeeperSession], Awaitable[ValueT]]) -> ValueT:
    """What a member of the cluster does."""

    async def run() -> ValueT:
        session = await ZooKeeperSession.connect(hosts, session_timeout_ms=10_000)
        try:
            await session.ensure_cluster_id()
            return await use(session)
        finally:
            await session.close()

    return asyncio.run(run())


async def chosen(session: ZooKeeperSession) -> Coordination:
    return CoordinationZnode.decode((await session.get(CoordinationZnode.path())).data).coordination


@pytest.mark.parametrize(
    ("first", "then"),
    [(Coordination.LEADERS, Coordination.CONTROLLER), (Coordination.CONTROLLER, Coordination.LEADERS)],
)
def test_the_first_one_chooses_and_one_for_the_other_way_refuses_in_one_sentence(
    zookeeper_hosts: str, first: Coordination, then: Coordination
) -> None:
    async def use(session: ZooKeeperSession) -> None:
        await fix_coordination(session, first, "broker 1")
        await fix_coordination(session, first, "broker 2")
        with pytest.raises(StartupError) as refused:
            await fix_coordination(session, then, "broker 3")
        sentence = str(refused.value)
        for part in ("broker 3 does not start", f"--coordination {first.value}", "/cluster/coordination"):
            assert part in sentence
        assert await chosen(session) is first

    with_session(zookeeper_hosts, use)


def test_of_two_that_start_at_once_for_different_ways_one_refuses(zookeeper_hosts: str) -> None:
    async def use(session: ZooKeeperSession) -> None:
        outcomes = await asyncio.gather(
            fix_coordination(session, Coordination.LEADERS, "broker 1"),
            fix_coordination(session, Coordination.CONTROLLER, "controller 1"),
            return_exceptions=True,
        )
        refusals = [type(each) for each in outcomes if each is not None]
        assert refusals == [StartupError]

    with_session(zookeeper_hosts, use)


def test_a_cluster_of_a_version_without_the_choice_has_a_controller(zookeeper_hosts: str) -> None:
    async def use(session: ZooKeeperSession) -> None:
        await session.create(ControllerEpochZnode.path(), ControllerEpochZnode(3).encode())
        with pytest.raises(StartupError, match="has a controller"):
            await fix_coordination(session, Coordination.LEADERS, "broker 1")
        assert await chosen(session) is Coordination.CONTROLLER

    with_session(zookeeper_hosts, use)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"coordination":"raft"}', b'{"coordination":7}'])
def test_nonsense_in_its_znode_is_named_and_left_alone(zookeeper_hosts: str, content: bytes) -> None:
    async def use(session: ZooKeeperSession) -> None:
        await session.create(CoordinationZnode.path(), content)
        with pytest.raises(StartupError, match=r"/cluster/coordination: .* correct it"):
            await fix_coordination(session, Coordination.LEADERS, "broker 1")
        assert (await session.get(CoordinationZnode.path())).data == content

    with_session(zookeeper_hosts, use)
