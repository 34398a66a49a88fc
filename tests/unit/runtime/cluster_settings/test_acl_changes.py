"""What becomes of the ACLs of a cluster when some are added and others removed."""

from __future__ import annotations

import pytest
from hightide.v1 import access_pb2
from hightide.v1 import controller_service_pb2 as pb
from hightide_runtime.cluster_settings.acl_changes import AclChange, TooManyAcls, alter_acls
from hightide_runtime.cluster_settings.convert_acls import access_question_in, acl_out, changes_in
from hightide_runtime.errors import ServiceError
from hightide_runtime.znodes.acls_znode import ACLS_BYTES_MAX, ACLS_MAX, Acl, AclsZnode, Effect, Pattern

NOBODY = AclsZnode()


def rule(number: int = 0, name: str = "orders") -> Acl:
    return Acl(f"client/c-{number}", Effect.ALLOW, "read", "topic", name)


def added(*acls: Acl) -> list[AclChange]:
    return [AclChange(acl, is_added=True) for acl in acls]


def removed(*acls: Acl) -> list[AclChange]:
    return [AclChange(acl, is_added=False) for acl in acls]


def test_a_request_that_is_repeated_changes_nothing_more() -> None:
    once = alter_acls(NOBODY, added(rule(1), rule(2), rule(1)))
    assert (once.added_count, once.removed_count) == (2, 0)
    again = alter_acls(once.znode, added(rule(1), rule(2)))
    assert (again.added_count, again.znode) == (0, once.znode)
    gone = alter_acls(once.znode, removed(rule(1), rule(7)))
    assert (gone.removed_count, gone.znode.acls) == (1, (rule(2),))
    assert alter_acls(gone.znode, removed(rule(1))).removed_count == 0


def test_what_is_removed_and_added_in_one_request_is_there_afterwards() -> None:
    before = AclsZnode.of([rule(1)])
    changed = alter_acls(before, removed(rule(1)) + added(rule(1), rule(2)))
    assert (changed.added_count, changed.removed_count) == (1, 0)


def test_a_cluster_has_so_many_rules_and_no_more_but_rules_can_always_be_removed() -> None:
    full = alter_acls(NOBODY, added(*(rule(number) for number in range(ACLS_MAX)))).znode
    assert len(full.encode()) <= ACLS_BYTES_MAX
    assert AclsZnode.decode(full.encode()) == full
    with pytest.raises(TooManyAcls, match=f"{ACLS_MAX + 1} ACLs"):
        alter_acls(full, added(rule(ACLS_MAX)))
    assert alter_acls(full, removed(rule(0))).removed_count == 1


def test_long_rules_are_bounded_by_what_zookeeper_takes() -> None:
    long = [
        Acl(f"client/{'c' * 190}-{number}", Effect.ALLOW, "read", "topic", "t" * 249)
        for number in range(2_000)
    ]
    with pytest.raises(TooManyAcls, match="bytes"):
        alter_acls(NOBODY, added(*long))


def test_a_rule_survives_the_way_to_the_client_and_back() -> None:
    acl = Acl("client/*", Effect.DENY, "alter_configs", "topic", "orders.", Pattern.PREFIX)
    request = pb.AlterAclsRequest(
        changes=[pb.AclChange(add=acl_out(acl)), pb.AclChange(remove=acl_out(rule()))]
    )
    assert changes_in(request) == [AclChange(acl, True), AclChange(rule(), False)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (pb.AclChange(), "change 0 of the request neither adds nor removes"),
        (pb.AclChange(add=pb.Acl(principal="client/a")), "the effect is neither"),
        (pb.AclChange(add=pb.Acl(principal="client/a", effect=1, pattern=9)), "the pattern 9 is neither"),  # type: ignore[arg-type]
        (pb.AclChange(add=pb.Acl(principal="client/a", effect=1)), "the resource type 'unspecified'"),  # type: ignore[arg-type]
        (
            pb.AclChange(add=pb.Acl(principal="client/a", effect=1, resource_type=77)),  # type: ignore[arg-type]
            "the resource type '77'",
        ),
        (
            pb.AclChange(add=pb.Acl(principal="client/a", effect=1, resource_type=1, operation=77)),  # type: ignore[arg-type]
            "no operation '77'",
        ),
    ],
)
def test_what_is_no_rule_is_refused_with_the_place_and_the_reason(change: pb.AclChange, why: str) -> None:
    with pytest.raises(ServiceError, match=why):
        changes_in(pb.AlterAclsRequest(changes=[change]))


def test_a_request_without_changes_is_refused() -> None:
    with pytest.raises(ServiceError, match="send 1 to"):
        changes_in(pb.AlterAclsRequest())


def test_one_asks_about_one_client_and_one_thing() -> None:
    asked = pb.CheckAccessRequest(
        principal="client/a",
        operation=access_pb2.OPERATION_ALTER,
        resource_type=access_pb2.RESOURCE_TYPE_CLUSTER,
    )
    assert access_question_in(asked) == ("client/a", "alter", "cluster", "cluster")
    asked.principal = "client/*"
    with pytest.raises(ServiceError, match="ask about one client"):
        access_question_in(asked)
