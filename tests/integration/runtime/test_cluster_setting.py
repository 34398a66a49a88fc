"""A setting of the cluster in a real ZooKeeper: no change is lost, and who was deposed makes none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.cluster_settings.cluster_setting import ANY_BROKER, Authority, ClusterSetting
from hightide_runtime.errors import ServiceError
from hightide_runtime.znodes.cluster_znodes import ControllerEpochZnode
from hightide_runtime.znodes.quota import Quota
from hightide_runtime.znodes.quotas_znode import QuotasZnode
from hightide_runtime.zookeeper.session import Check, ZooKeeperSession

QUOTA = Quota(calls_max=7)


def setting_of(session: ZooKeeperSession, authority: Authority = ANY_BROKER) -> ClusterSetting[QuotasZnode]:
    return ClusterSetting(
        session, QuotasZnode.path(), QuotasZnode.decode, QuotasZnode.encode, QuotasZnode({}), authority,
        "quotas", "correct it",
    )  # fmt: skip


def deposed() -> ServiceError:
    return ServiceError(ErrorCode.ERROR_CODE_NOT_CONTROLLER, "another one is active")


def controller(version: int) -> Authority:
    return Authority(lambda: (Check(ControllerEpochZnode.path(), version),), deposed)


def with_one_more(before: QuotasZnode) -> QuotasZnode:
    return QuotasZnode({**before.quotas, f"client/{len(before.quotas)}": QUOTA})


def with_session(hosts: str, test: Callable[[ZooKeeperSession], Awaitable[None]]) -> None:
    async def run() -> None:
        session = await ZooKeeperSession.connect(hosts)
        try:
            await session.ensure_path(QuotasZnode.path().rpartition("/")[0])
            await session.create(ControllerEpochZnode.path(), ControllerEpochZnode(1).encode())
            await test(session)
        finally:
            await session.close()

    asyncio.run(run())


@pytest.mark.parametrize("authority", [ANY_BROKER, controller(0)], ids=["any broker", "a controller"])
def test_of_many_changes_at_once_none_is_lost(zookeeper_hosts: str, authority: Authority) -> None:
    async def test(session: ZooKeeperSession) -> None:
        setting = setting_of(session, authority)
        await asyncio.gather(*(setting.alter(with_one_more, validate_only=False) for _ in range(4)))
        assert len((await setting.read()).quotas) == 4

    with_session(zookeeper_hosts, test)


def test_a_controller_that_was_deposed_changes_nothing(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await setting_of(session, controller(0)).alter(with_one_more, validate_only=False)
        await session.set(ControllerEpochZnode.path(), ControllerEpochZnode(2).encode(), 0)
        with pytest.raises(ServiceError) as refused:
            await setting_of(session, controller(0)).alter(with_one_more, validate_only=False)
        assert refused.value.code == ErrorCode.ERROR_CODE_NOT_CONTROLLER
        assert len((await setting_of(session).read()).quotas) == 1
        await setting_of(session, controller(1)).alter(with_one_more, validate_only=False)

    with_session(zookeeper_hosts, test)


def test_a_change_that_is_only_checked_writes_nothing(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        assert len((await setting_of(session).alter(with_one_more, validate_only=True)).quotas) == 1
        assert await session.exists(QuotasZnode.path()) is None

    with_session(zookeeper_hosts, test)


def test_nonsense_is_not_written_over(zookeeper_hosts: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await session.create(QuotasZnode.path(), b"nonsense")
        with pytest.raises(ServiceError, match="correct it") as refused:
            await setting_of(session).alter(with_one_more, validate_only=False)
        assert refused.value.code == ErrorCode.ERROR_CODE_INVALID_CONFIG
        assert (await session.get(QuotasZnode.path())).data == b"nonsense"

    with_session(zookeeper_hosts, test)
