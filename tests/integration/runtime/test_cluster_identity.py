"""The ZooKeeper behind an address is replaced: whoever belongs to a cluster touches nothing in another one.

Two servers, one after the other, on one port. The second is ahead in transactions, as another cluster's
may be; one that is behind gives no session to whoever has seen more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from hightide import Admin, Consumer, Producer, TopicPartition
from hightide_local.histories.waiting import aio_wait_until, wait_until
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_local.processes.ports import free_port
from hightide_runtime.znodes.cluster_znodes import ClusterIdZnode, ControllerEpochZnode
from hightide_runtime.znodes.group_znodes import ShardsZnode
from hightide_runtime.zookeeper.session import (
    InconsistentClusterId,
    SessionState,
    ZooKeeperError,
    ZooKeeperSession,
)
from integration.faults.test_zookeeper_outage import expire
from integration.runtime.test_startup_refusals import Service, serves
from kazoo.client import KazooClient

AHEAD = 4_000
"""Transactions: more than any test makes."""
PATIENCE_S = 30.0
OTHER_ID = "the-other-cluster"
OTHER = {
    "/cluster/id": ClusterIdZnode(OTHER_ID).encode(),
    "/controller_epoch": ControllerEpochZnode(3).encode(),
    "/brokers/ids": b"",
    "/brokers/topics/theirs": b'{"0": [1]}',
}
"""Another cluster; no process of it is alive, so that whatever changes was changed by ours."""

Tree = dict[str, tuple[bytes, int, int]]


@dataclass
class Address:
    """A port, and the servers that stand behind it in turn."""

    first: EmbeddedZooKeeper
    second: EmbeddedZooKeeper
    others: Tree = field(default_factory=dict)
    """What stands in the second before ours can reach it."""

    @property
    def hosts(self) -> str:
        return self.first.address

    def replace(self) -> None:
        """Let the second stand there."""
        self.first.kill()
        self.second.start()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[Address]:
    port = free_port()
    first, second = (
        EmbeddedZooKeeper(tmp_path / name, port, tick_time_ms=200) for name in ("first", "second")
    )
    found = Address(first, second)
    try:
        yield found
    finally:
        first.stop()
        second.stop()


@pytest.fixture(params=["another cluster's", "wiped"])
def replaced(request: pytest.FixtureRequest, address: Address) -> Address:
    """The first server runs; behind it waits one of another cluster, or one without any, that is ahead."""
    address.others = prepare(address.second, OTHER if request.param == "another cluster's" else {})
    address.first.start()
    return address


def prepare(server: EmbeddedZooKeeper, content: dict[str, bytes]) -> Tree:
    """Run it for a moment, until it has this content and is ahead; everything that stands there then."""
    server.start()
    with zookeeper(server.address) as operator:
        for path, data in content.items():
            operator.create(path, data, makepath=True)
        keep_busy(operator)
    found = tree(server.address)
    server.stop()
    return found


def keep_busy(operator: KazooClient) -> None:
    operator.create("/busy", b"")
    for written in [operator.set_async("/busy", b"") for _ in range(AHEAD)]:
        written.get(PATIENCE_S)
    operator.delete("/busy")


@contextmanager
def zookeeper(hosts: str) -> Iterator[KazooClient]:
    """An operator's client."""
    client = KazooClient(hosts, timeout=10.0)
    client.start(20)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def tree(hosts: str) -> Tree:
    """Everything that stands there, with versions and owners."""
    found: Tree = {}

    def read(operator: KazooClient, path: str) -> None:
        for name in operator.get_children(path):
            child = f"{path.rstrip('/')}/{name}"
            if child != "/zookeeper":
                data, stat = operator.get(child)
                found[child] = (data, stat.version, stat.ephemeralOwner)
                read(operator, child)

    with zookeeper(hosts) as operator:
        read(operator, "/")
    return found


# -- the session


@asynccontextmanager
async def member(hosts: str) -> AsyncIterator[tuple[ZooKeeperSession, str]]:
    """A process that belongs to the cluster that it finds there."""
    session = await ZooKeeperSession.connect(hosts, session_timeout_ms=4_000)
    try:
        yield session, await session.ensure_cluster_id()
    finally:
        await session.close()


def test_of_a_zookeeper_that_took_the_place_of_ours_nothing_is_read_or_written(replaced: Address) -> None:
    async def run() -> None:
        async with member(replaced.hosts) as (session, cluster_id):
            answers: list[object] = []

            async def insist() -> None:
                """Ask and write without a pause, whatever the session says of its state."""
                while not session.refused.is_set():
                    with suppress(ZooKeeperError):
                        answers.append(await session.exists("/controller_epoch"))
                        await session.create("/ours", b"")
                    await asyncio.sleep(0)

            insisting = asyncio.create_task(insist())
            await asyncio.to_thread(replaced.first.kill)
            await aio_wait_until("it is noticed", lambda: is_cut_off(session), PATIENCE_S)
            # Whoever got an answer of the first before that has noted it down by then.
            await asyncio.sleep(0)
            answers.clear()
            await asyncio.to_thread(replaced.second.start)
            await asyncio.wait_for(session.refused.wait(), PATIENCE_S)
            await insisting
            assert answers == []
            assert await asyncio.to_thread(tree, replaced.hosts) == replaced.others
            refusal = session.refusal
            assert refusal is not None
            assert (refusal.address, refusal.ours) == (replaced.hosts, cluster_id)
            assert refusal.found == (OTHER_ID if "/cluster/id" in replaced.others else "")
            assert session.state is SessionState.LOST
            with pytest.raises(InconsistentClusterId, match=cluster_id):
                await session.get("/controller_epoch")

    async def is_cut_off(session: ZooKeeperSession) -> bool:
        return session.state is not SessionState.CONNECTED

    asyncio.run(run())


def test_a_new_session_with_the_same_cluster_is_as_good_as_the_old_one(address: Address) -> None:
    address.first.start()

    async def run() -> None:
        async with member(address.hosts + "/chroot") as (session, cluster_id):
            before = session.session_id
            await asyncio.to_thread(expire, session, address.hosts)
            await aio_wait_until("a new session", lambda: connected_anew(session, before), PATIENCE_S)
            assert await session.ensure_cluster_id([cluster_id]) == cluster_id
            assert session.refusal is None

    async def connected_anew(session: ZooKeeperSession, before: int) -> bool:
        return session.state is SessionState.CONNECTED and session.session_id != before

    asyncio.run(run())


def test_where_the_id_was_taken_away_nobody_who_knows_it_makes_up_another(address: Address) -> None:
    address.first.start()

    async def run() -> None:
        async with member(address.hosts) as (session, cluster_id):
            await session.delete("/cluster/id")
            await asyncio.to_thread(expire, session, address.hosts)
            await asyncio.wait_for(session.refused.wait(), PATIENCE_S)
            assert session.refusal is not None
            assert (session.refusal.ours, session.refusal.found) == (cluster_id, "")

    asyncio.run(run())
    assert "/cluster/id" not in tree(address.hosts)


def test_whoever_has_data_of_a_cluster_founds_no_other(address: Address) -> None:
    address.first.start()

    async def run() -> None:
        session = await ZooKeeperSession.connect(address.hosts)
        try:
            with pytest.raises(InconsistentClusterId, match="belongs to cluster ours"):
                await session.ensure_cluster_id(["ours"])
        finally:
            await session.close()

    asyncio.run(run())
    assert tree(address.hosts) == {}


def test_one_that_is_behind_gives_no_session_which_is_told_until_it_has_caught_up(
    address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    address.first.start()

    async def run() -> None:
        async with member(address.hosts) as (session, _):
            await asyncio.to_thread(address.replace)
            await aio_wait_until("it is told", told, PATIENCE_S)
            assert session.refusal is None
            await asyncio.to_thread(catch_up)
            await asyncio.wait_for(session.refused.wait(), PATIENCE_S)

    async def told() -> bool:
        return any("gives no session" in line and address.hosts in line for line in caplog.messages)

    def catch_up() -> None:
        with zookeeper(address.hosts) as operator:
            keep_busy(operator)

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())


# -- the services


class Cluster:
    """A broker, a controller and a coordinator, as an operator runs them."""

    NAMES = ("broker", "controller", "coordinator")

    def __init__(self, hosts: str, directory: Path) -> None:
        self._hosts = hosts
        self.data = directory
        self._ports = {name: free_port() for name in self.NAMES}
        self._services = ExitStack()
        self.running: dict[str, Service] = {}

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports['broker']}"

    def service(self, name: str) -> Service:
        return Service(
            f"hightide_{name}.main",
            *(f"--{name}-id", "1", "--listen", f"127.0.0.1:{self._ports[name]}"),
            *("--zookeeper", self._hosts, "--zookeeper-session-timeout-ms", "1500"),
            *(("--data-dir", str(self.data)) if name == "broker" else ()),
        )

    def start(self) -> None:
        for name in self.NAMES:
            self.running[name] = self._services.enter_context(self.service(name))
        for name, port in self._ports.items():
            wait_until(f"the {name} serves", partial(serves, port), PATIENCE_S)

    def close(self) -> None:
        self._services.close()


@pytest.fixture
def cluster(replaced: Address, tmp_path: Path) -> Iterator[Cluster]:
    """It runs, with a topic of one partition and ten records, and has had a hundred controllers."""
    with zookeeper(replaced.hosts) as operator:
        operator.create("/controller_epoch", ControllerEpochZnode(100).encode())
    found = Cluster(replaced.hosts, tmp_path / "data")
    try:
        found.start()
        with Admin(found.bootstrap) as admin:
            wait_until("the controller knows the broker", lambda: knows_brokers(admin), PATIENCE_S)
            admin.create_topic("ours", partitions=1, replication_factor=1)
        with Producer(found.bootstrap) as producer:
            for number in range(10):
                producer.send("ours", b"%d" % number)
        yield found
    finally:
        found.close()


def test_each_service_ends_where_another_zookeeper_took_the_place_of_its_own_and_touches_nothing_there(
    replaced: Address, cluster: Cluster
) -> None:
    """Its session is over, so that the controller would campaign with its high epoch and stop the replicas of
    topics that it does not find, the coordinator would take its shards, and the broker register."""
    with zookeeper(replaced.hosts) as operator:
        ours = cluster_id_at(operator)
        assert operator.exists(ShardsZnode.path())
    replaced.replace()
    for service in cluster.running.values():
        line = service.refusal()
        assert "INCONSISTENT_CLUSTER_ID" in line
        assert replaced.hosts in line
        assert ours in line
        assert (OTHER_ID in line) == ("/cluster/id" in replaced.others)
        assert "--zookeeper" in line
    # Started again, the broker knows by its data; the other two keep none.
    with cluster.service("broker") as broker:
        line = broker.refusal()
        assert ours in line
        assert str(cluster.data) in line
    assert tree(replaced.hosts) == replaced.others
    # Back at their own, they have what they had.
    replaced.second.stop()
    replaced.first.start()
    cluster.start()
    with Consumer(cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("ours", 0)])
        values: list[object] = []
        while len(values) < 10 and (records := consumer.poll(PATIENCE_S)):
            values += [record.value for record in records]
    assert values == [b"%d" % number for number in range(10)]


def knows_brokers(admin: Admin) -> bool:
    return any(broker.alive for broker in admin.describe_cluster().brokers)


def cluster_id_at(operator: KazooClient) -> str:
    return ClusterIdZnode.decode(operator.get("/cluster/id")[0]).cluster_id
