"""A cluster with ACLs, on real processes with TLS: who may do what, what nobody else learns of, and what
happens when that changes under running clients."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hightide import Acl, Admin, Consumer, Producer, TopicPartition
from hightide.errors import (
    InvalidRequestError,
    NotAuthorizedError,
    UnknownTopicError,
)
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster

PATIENCE_S = 60.0
WITH_ACLS = ("--authorization", "acls", "--super-users", "client/local,client/root")
ORDERS, PAYROLL = TopicPartition("orders", 0), TopicPartition("payroll", 0)


def allow(name: str, operation: Any, resource_type: Any, resource: str, pattern: Any = "literal") -> Acl:
    return Acl(f"client/{name}", "allow", operation, resource_type, resource, pattern)


ALICE_WRITES = allow("alice", "write", "topic", "orders")
BOB_READS = allow("bob", "read", "topic", "orders")
BOB_IN_G = allow("bob", "read", "group", "g")


class Clients:
    """The clients of the cluster, each with a certificate of its own."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def options(self, name: str) -> dict[str, Any]:
        assert self._cluster.certificates is not None
        files = self._cluster.certificates.issue(f"client/{name}")
        return {"tls_ca": files.ca, "tls_certificate": files.certificate, "tls_key": files.key}

    def admin(self, name: str) -> Admin:
        return Admin(self._cluster.bootstrap, **self.options(name))

    def producer(self, name: str, **options: Any) -> Producer:
        return Producer(self._cluster.bootstrap, acks="all", **self.options(name), **options)

    def consumer(self, name: str, **options: Any) -> Consumer:
        return Consumer(self._cluster.bootstrap, **self.options(name), **options)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("acls"),
        brokers=1,
        controllers=2,
        coordinators=1,
        tls=True,
        broker_arguments=WITH_ACLS,
        controller_arguments=WITH_ACLS,
        coordinator_arguments=WITH_ACLS,
    ) as started:
        with Clients(started).admin("root") as root:
            root.create_topic("orders")
            root.create_topic("payroll")
        yield started


@pytest.fixture
def clients(cluster: LocalCluster) -> Iterator[Clients]:
    """The clients, and the rules of the story."""
    found = Clients(cluster)
    with found.admin("root") as root:
        root.alter_acls([ALICE_WRITES, BOB_READS, BOB_IN_G])
        yield found
        listing = root.describe_acls()
        root.alter_acls(remove=listing.acls)


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until the processes have heard of a change."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, what
        # Nothing tells when a process has heard: look again, within the bound above.
        threading.Event().wait(0.02)


def may(operation: Callable[[], object]) -> bool:
    try:
        operation()
    except (NotAuthorizedError, UnknownTopicError):
        return False
    return True


def poll_for(consumer: Consumer, patience_s: float) -> None:
    """Poll until an error comes, for so long."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        consumer.poll(max(0.0, deadline - time.monotonic()))


def send(producer: Producer, topic: str, value: bytes) -> None:
    producer.send_and_wait(topic, value)


def audit_lines(cluster: LocalCluster, name: str) -> list[dict[str, Any]]:
    log = cluster.log_tail(name, 100_000)
    return [json.loads(line[line.index("{") :]) for line in log.splitlines() if " hightide.audit: " in line]


def test_alice_writes_and_bob_reads_and_nobody_else_does_either(
    cluster: LocalCluster, clients: Clients
) -> None:
    with clients.producer("alice") as alice:
        until(lambda: may(lambda: send(alice, "orders", b"1")), "alice may write")
        with pytest.raises(UnknownTopicError):
            send(alice, "payroll", b"1")
    with clients.consumer("bob", group="g", topics=["orders"], offset_reset="earliest") as bob:
        assert [record.value for record in bob.poll(PATIENCE_S)][:1] == [b"1"]
        bob.commit()
    with clients.producer("bob") as bob_writes, pytest.raises(NotAuthorizedError):
        send(bob_writes, "orders", b"2")
    with clients.consumer("alice", topics=["orders"]) as alice_reads, pytest.raises(NotAuthorizedError):
        alice_reads.poll(PATIENCE_S)
    with clients.consumer("bob", group="h", topics=["orders"]) as bob, pytest.raises(NotAuthorizedError):
        bob.poll(PATIENCE_S)
    with clients.consumer("bob", group="g", pattern=".*") as bob, pytest.raises(NotAuthorizedError):
        bob.poll(PATIENCE_S)
    denied = [each for each in audit_lines(cluster, "broker-1") if not each["allowed"]]
    told = {
        (each.get("who"), each["method"].rpartition("/")[2], each.get("resource_name"))
        for each in denied
        if "who" in each
    }
    assert ("client/alice", "Fetch", "orders") in told
    assert ("client/bob", "InitProducerId", "cluster") in told


def test_a_topic_that_may_not_be_described_answers_as_one_that_does_not_exist(clients: Clients) -> None:
    with clients.admin("bob") as bob, clients.admin("root") as root:
        until(lambda: bob.list_topics() == ["orders"], "bob sees what he may read, and nothing else")
        assert {"orders", "payroll"} <= set(root.list_topics())
        for operation in (
            lambda topic: bob.describe_topics([topic]),
            lambda topic: bob.list_offsets([TopicPartition(topic, 0)]),
            lambda topic: bob.describe_producers([TopicPartition(topic, 0)]),
            lambda topic: bob.delete_records({TopicPartition(topic, 0): 0}),
            lambda topic: bob.delete_topic(topic),
            lambda topic: bob.add_partitions(topic, 3),
            lambda topic: bob.remove_partitions(topic, 1),
            lambda topic: bob.alter_topic_config(topic, {"retention.ms": "7200000"}),
        ):
            messages = []
            for topic in ("payroll", "unheard"):
                with pytest.raises(UnknownTopicError) as refused:
                    operation(topic)
                messages.append(str(refused.value).replace(topic, "TOPIC"))
            assert messages[0] == messages[1]
        assert [each.name for each in bob.describe_topics()] == ["orders"]


def test_what_may_be_described_and_not_changed_is_refused_as_such(clients: Clients) -> None:
    with clients.admin("bob") as bob, clients.admin("root") as root:
        until(lambda: bob.list_topics() == ["orders"], "bob sees orders")
        for operation in (
            lambda: bob.delete_topic("orders"),
            lambda: bob.add_partitions("orders", 3),
            lambda: bob.alter_topic_config("orders", {"retention.ms": "7200000"}),
            lambda: bob.create_topic("mine"),
            lambda: bob.describe_cluster(),
            lambda: bob.describe_acls(),
            lambda: bob.alter_acls([allow("bob", "all", "topic", "*")]),
            lambda: bob.check_access("client/alice", "read", "topic", "orders"),
            lambda: bob.resign_controller(1),
            lambda: bob.describe_log_directories(),
            lambda: bob.describe_group("h"),
            lambda: bob.delete_group("g"),
            lambda: bob.commit_group_offsets("h", {ORDERS: 0}),
        ):
            with pytest.raises(NotAuthorizedError):
                operation()
        deleted = bob.delete_records({ORDERS: 0})
        assert isinstance(deleted[ORDERS], NotAuthorizedError)
        assert not [each for each in root.describe_acls().acls if each.name == "*"]


def test_a_group_tells_only_of_topics_and_offsets_that_the_caller_may_know(clients: Clients) -> None:
    with clients.admin("bob") as bob, clients.admin("root") as root:
        until(lambda: bob.list_topics() == ["orders"], "bob sees orders")
        root.commit_group_offsets("g2", {ORDERS: 0})
        root.alter_acls([allow("bob", "read", "group", "g2"), allow("eve", "read", "group", "g2")])
        root.commit_group_offsets("g2", {PAYROLL: 0})
        until(lambda: may(lambda: bob.describe_group("g2")), "bob may use g2")
        assert set(bob.group_offsets("g2")) == {ORDERS}
        assert set(bob.describe_group("g2").offsets) == {ORDERS}
        assert [each.group for each in bob.list_groups()] in (["g2"], ["g", "g2"])
        assert set(root.group_offsets("g2")) == {ORDERS, PAYROLL}
        with pytest.raises(UnknownTopicError):
            bob.commit_group_offsets("g2", {PAYROLL: 0})
        with pytest.raises(NotAuthorizedError):
            bob.delete_group_offsets("g2", ["payroll"])
        with clients.admin("eve") as eve:
            assert eve.group_offsets("g2") == {}
            assert eve.list_topics() == []


def test_what_is_taken_away_ends_a_fetch_that_waits_and_a_consumer_of_a_group(
    cluster: LocalCluster, clients: Clients
) -> None:
    """At once: the fetch waits up to a minute, and the session timeout is longer than all of this."""
    with (
        clients.admin("root") as root,
        clients.consumer("bob", topics=["orders"], offset_reset="latest", fetch_max_wait_ms=30_000) as alone,
        clients.consumer("bob", group="g", topics=["orders"], session_timeout_ms=60_000) as member,
    ):
        until(lambda: may(lambda: alone.poll(0.2)), "bob may read")
        member.poll(1.0)
        begun_s = time.monotonic()
        root.alter_acls(remove=[BOB_READS])
        for consumer in (alone, member):
            with pytest.raises((NotAuthorizedError, UnknownTopicError)):
                poll_for(consumer, 25.0)
        assert time.monotonic() - begun_s < 25.0, "before the fetch would have been answered anyway"


def test_a_super_user_may_do_everything_and_its_rules_are_explained(clients: Clients) -> None:
    with clients.admin("root") as root:
        listing = root.describe_acls()
        assert listing.is_enforced
        assert listing.super_users == ("client/local", "client/root")
        assert set(listing.acls) == {ALICE_WRITES, BOB_READS, BOB_IN_G}
        assert root.alter_acls([ALICE_WRITES]).added_count == 0, "it is there already"
        assert root.alter_acls(remove=[ALICE_WRITES], validate_only=True).removed_count == 1
        assert ALICE_WRITES in root.describe_acls().acls
        assert root.check_access("client/alice", "describe", "topic", "orders").acl == ALICE_WRITES
        assert root.check_access("client/alice", "read", "topic", "orders").acl is None
        assert root.check_access("client/root", "alter", "cluster").is_super_user
        with pytest.raises(InvalidRequestError, match="has no operation"):
            root.alter_acls([allow("bob", "write", "group", "g")])
        with pytest.raises(InvalidRequestError, match="is not client/NAME"):
            root.alter_acls([Acl("broker/1", "allow", "read", "topic", "orders")])


def test_another_controller_has_the_same_rules(cluster: LocalCluster, clients: Clients) -> None:
    with clients.admin("root") as root, clients.admin("eve") as eve:
        before = root.describe_acls()
        active = cluster.active_controller()
        cluster.kill(active)
        assert root.describe_acls() == before
        with pytest.raises(NotAuthorizedError):
            eve.describe_acls()
        root.alter_acls([allow("eve", "describe", "cluster", "cluster")])
        until(lambda: may(eve.describe_acls), "eve may describe the cluster now")
        cluster.restore()
