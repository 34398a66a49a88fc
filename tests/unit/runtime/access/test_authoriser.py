"""The ACLs that are in force, as a process asks them."""

from __future__ import annotations

import pytest
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.access.authoriser import Authoriser
from hightide_runtime.access.call_access import CallAccess
from hightide_runtime.access.principals import ANONYMOUS, Principal, Role
from hightide_runtime.znodes.acls_znode import Acl, AclsZnode, Effect

ALICE, ROOT = Principal(Role.CLIENT, "alice"), Principal(Role.CLIENT, "root")
PROCESSES = [Principal(role, "1") for role in (Role.BROKER, Role.CONTROLLER, Role.COORDINATOR)]


def allow(operation: str, resource_type: str, name: str) -> Acl:
    return Acl("client/alice", Effect.ALLOW, operation, resource_type, name)


def authoriser_with(*acls: Acl) -> Authoriser:
    authoriser = Authoriser(["client/root"])
    authoriser.put(AclsZnode.of(acls))
    return authoriser


def test_until_the_rules_were_read_nobody_is_served_but_super_users_and_processes() -> None:
    authoriser = Authoriser(["client/root"])
    for caller in (ALICE, ANONYMOUS):
        refusal = authoriser.not_ready(caller)
        assert refusal is not None
        assert refusal.code == ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE
        assert not authoriser.allows(caller, "describe", "topic", "orders")
    for caller in (ROOT, *PROCESSES):
        assert authoriser.not_ready(caller) is None
        assert authoriser.allows(caller, "describe", "topic", "orders")
    authoriser.put(AclsZnode())
    assert authoriser.not_ready(ALICE) is None
    assert not authoriser.allows(ALICE, "describe", "topic", "orders"), "there are no rules"


def test_who_waits_is_told_of_each_change_and_of_no_other_read() -> None:
    authoriser, told = Authoriser(), []
    authoriser.followers.append(lambda: told.append(authoriser.allows(ALICE, "read", "topic", "orders")))
    authoriser.put(AclsZnode())
    authoriser.put(AclsZnode())
    authoriser.put(AclsZnode.of([allow("read", "topic", "orders")]))
    authoriser.put(AclsZnode.of([allow("read", "topic", "orders")]))
    authoriser.put(AclsZnode())
    assert told == [False, True, False]


@pytest.mark.parametrize("caller", PROCESSES, ids=str)
def test_a_rule_that_denies_everything_to_everybody_does_not_stop_the_cluster(caller: Principal) -> None:
    authoriser = authoriser_with(Acl("*", Effect.DENY, "all", "topic", "*"))
    assert authoriser.allows(caller, "read", "topic", "orders")


def test_who_may_create_topics_in_the_cluster_may_create_each() -> None:
    authoriser = authoriser_with(allow("create", "cluster", "cluster"))
    assert authoriser.allows_call(ALICE, "create", "topic", "orders")
    assert not authoriser.allows_call(ALICE, "delete", "topic", "orders")
    assert not authoriser_with().allows_call(ALICE, "create", "topic", "orders")


def test_who_may_write_to_some_topic_may_have_a_producer_id() -> None:
    for acl in (allow("write", "topic", "orders"), allow("idempotent_write", "cluster", "cluster")):
        assert authoriser_with(acl).allows_call(ALICE, "idempotent_write", "cluster", "cluster")
    authoriser = authoriser_with(allow("read", "topic", "orders"))
    assert not authoriser.allows_call(ALICE, "idempotent_write", "cluster", "cluster")


def test_a_topic_that_may_not_be_described_is_unknown_and_another_one_is_refused() -> None:
    denied: list[str] = []
    authoriser = authoriser_with(allow("describe", "topic", "orders"), allow("read", "topic", "open"))
    access = CallAccess(ALICE, authoriser, lambda why, resource: denied.append(resource))
    assert access.refused("read", "open") is None
    assert access.refused("read", "orders") == ErrorCode.ERROR_CODE_NOT_AUTHORIZED
    assert access.refused("read", "payroll") == ErrorCode.ERROR_CODE_UNKNOWN_TOPIC
    assert denied == ["orders", "payroll"]
    assert access.refused("describe", "payroll") == ErrorCode.ERROR_CODE_UNKNOWN_TOPIC
    assert denied == ["orders", "payroll"], "what a list leaves out is no denial"
