"""A setting of the cluster in a real ZooKeeper: no change is lost, and no deposed controller makes one."""

from __future__ import annotations

import asyncio

import pytest
from hightide_controller.zookeeper.cluster_setting import ClusterSetting, ControllerDeposed
from hightide_controller.zookeeper.store import ControllerStore
from hightide_runtime.znodes.cluster_znodes import ControllerEpochZnode
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.znodes.quota import Quota
from hightide_runtime.znodes.quotas_znode import QuotasZnode
from hightide_runtime.zookeeper.session import ZooKeeperSession
from integration.controller.test_controller_store import with_store

QUOTA = Quota(calls_max=7)


def setting_of(session: ZooKeeperSession) -> ClusterSetting[QuotasZnode]:
    return ClusterSetting(
        session, QuotasZnode.path(), QuotasZnode.decode, QuotasZnode.encode, absent=QuotasZnode({})
    )


def with_one_more(before: QuotasZnode) -> QuotasZnode:
    return QuotasZnode({**before.quotas, f"client/{len(before.quotas)}": QUOTA})


def test_of_many_changes_at_once_none_is_lost(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        setting = setting_of(session)
        await asyncio.gather(*(setting.alter(with_one_more, 0, validate_only=False) for _ in range(4)))
        assert len((await setting.read()).quotas) == 4

    with_store(zookeeper_hosts, test)


def test_a_controller_that_was_deposed_changes_nothing(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        setting = setting_of(session)
        await setting.alter(with_one_more, 0, validate_only=False)
        await session.set(ControllerEpochZnode.path(), ControllerEpochZnode(2).encode(), 0)
        with pytest.raises(ControllerDeposed):
            await setting.alter(with_one_more, 0, validate_only=False)
        assert len((await setting.read()).quotas) == 1
        await setting.alter(with_one_more, 1, validate_only=False)

    with_store(zookeeper_hosts, test)


def test_a_change_that_is_only_checked_writes_nothing(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        setting = setting_of(session)
        assert len((await setting.alter(with_one_more, 0, validate_only=True)).quotas) == 1
        assert await session.exists(QuotasZnode.path()) is None

    with_store(zookeeper_hosts, test)


def test_nonsense_is_not_written_over(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession, store: ControllerStore) -> None:
        await session.create(QuotasZnode.path(), b"nonsense")
        with pytest.raises(ZnodeGarbage):
            await setting_of(session).alter(with_one_more, 0, validate_only=False)
        assert (await session.get(QuotasZnode.path())).data == b"nonsense"

    with_store(zookeeper_hosts, test)
