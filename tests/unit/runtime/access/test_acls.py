"""What ACLs decide: examples, and a slow reading of the rules beside the table."""

from __future__ import annotations

import pytest
from hightide.v1 import access_pb2
from hightide_runtime.access import acls as acls_module
from hightide_runtime.access.acls import AclTable
from hightide_runtime.znodes.acls_znode import ALL, CLUSTER_NAME, OPERATIONS, Acl, Effect, InvalidAcl, Pattern
from hypothesis import given
from hypothesis import strategies as st

ALLOW, DENY = Effect.ALLOW, Effect.DENY
NAMES = ("a", "ab", "abc", "b", "ba")
PRINCIPALS = ("client/alice", "client/bob", "client/*", "anonymous", "*")
CALLERS = ("client/alice", "client/bob", "client/eve", "anonymous")


def allow(principal: str, operation: str, name: str, pattern: Pattern = Pattern.LITERAL) -> Acl:
    return Acl(principal, ALLOW, operation, "topic", name, pattern)


def deny(principal: str, operation: str, name: str, pattern: Pattern = Pattern.LITERAL) -> Acl:
    return Acl(principal, DENY, operation, "topic", name, pattern)


def may(table: AclTable, principal: str, operation: str, name: str) -> bool:
    return table.decide(principal, operation, "topic", name)


@st.composite
def rules(draw: st.DrawFn) -> Acl:
    """Any rule about few names, so that rules meet."""
    resource_type = draw(st.sampled_from(("topic", "group")))
    pattern = draw(st.sampled_from(Pattern))
    names = NAMES if pattern is Pattern.PREFIX else (*NAMES, "*")
    return Acl(
        draw(st.sampled_from(PRINCIPALS)),
        draw(st.sampled_from(Effect)),
        draw(st.sampled_from(sorted(OPERATIONS[resource_type]))),
        resource_type,
        draw(st.sampled_from(names)),
        pattern,
    )


def is_about(acl: Acl, principal: str, resource_type: str, name: str) -> bool:
    """Whether a rule is about this, read word by word."""
    is_principal = (
        acl.principal in (principal, "*")
        or (acl.principal == "client/*" and principal.startswith("client/"))
    )  # fmt: skip
    is_name = name.startswith(acl.name) if acl.pattern is Pattern.PREFIX else acl.name in (name, "*")
    return is_principal and acl.resource_type == resource_type and is_name


def by_the_words(acls: list[Acl], principal: str, operation: str, resource_type: str, name: str) -> bool:
    about = [acl for acl in acls if is_about(acl, principal, resource_type, name)]
    if any(acl.effect is DENY and acl.operation in (operation, ALL) for acl in about):
        return False
    enough = {operation, ALL}
    if operation == "describe":
        enough |= {"read", "write", "delete", "alter"}
    return any(acl.effect is ALLOW and acl.operation in enough for acl in about)


@given(st.lists(rules(), max_size=12))
def test_the_table_decides_as_its_rules_say_whoever_asks_for_whatever(acls: list[Acl]) -> None:
    table = AclTable(acls)
    for principal in CALLERS:
        for resource_type in ("topic", "group"):
            for operation in OPERATIONS[resource_type] - {ALL}:
                for name in (*NAMES, "c"):
                    asked = (principal, operation, resource_type, name)
                    expected = by_the_words(acls, *asked)
                    assert table.decide(*asked) == expected
                    assert table.decide(*asked) == expected, "from memory as well"


@given(st.lists(rules(), max_size=12))
def test_the_rule_that_is_named_decides_alone_as_well(acls: list[Acl]) -> None:
    table = AclTable(acls)
    for principal in CALLERS:
        for name in NAMES:
            decision = table.explain(principal, "read", "topic", name)
            if decision.acl is None:
                assert not decision.is_allowed
            else:
                assert is_about(decision.acl, principal, "topic", name)
                assert (decision.acl.effect is ALLOW) == decision.is_allowed


@given(st.lists(rules(), max_size=12))
def test_who_may_write_to_a_topic_that_one_can_name_may_write_to_any(acls: list[Acl]) -> None:
    table = AclTable(acls)
    for principal in CALLERS:
        if any(may(table, principal, "write", name) for name in (*NAMES, "c", "abcd")):
            assert table.decide_any(principal, "write", "topic")


def test_what_is_denied_for_all_names_of_each_rule_is_allowed_for_none() -> None:
    acls = [allow("client/alice", "write", "orders"), allow("client/*", "all", "a-", Pattern.PREFIX)]
    assert AclTable(acls).decide_any("client/alice", "write", "topic")
    denied = [deny("client/alice", "write", "orders"), deny("*", "all", "a", Pattern.PREFIX)]
    assert not AclTable(acls + denied).decide_any("client/alice", "write", "topic")
    assert not AclTable([*acls, deny("client/alice", "write", "*")]).decide_any(
        "client/alice", "write", "topic"
    )
    assert not AclTable(acls).decide_any("anonymous", "write", "topic")


def test_without_a_rule_nothing_is_allowed_but_to_super_users() -> None:
    table = AclTable([deny("client/admin", "all", "*")], ["client/admin"])
    assert not may(table, "client/alice", "describe", "orders")
    assert may(table, "client/admin", "delete", "orders"), "nothing is denied to a super user"
    assert table.explain("client/admin", "delete", "topic", "orders").is_super_user
    assert table.decide_any("client/admin", "write", "topic")


def test_a_rule_that_denies_wins_over_a_more_exact_one_that_allows() -> None:
    table = AclTable([allow("client/alice", "read", "orders"), deny("*", "read", "o", Pattern.PREFIX)])
    assert not may(table, "client/alice", "read", "orders")
    assert may(table, "client/alice", "describe", "orders"), "only reading is denied"


@pytest.mark.parametrize("operation", ["read", "write", "delete", "alter"])
def test_who_may_use_a_topic_may_describe_it(operation: str) -> None:
    table = AclTable([allow("client/alice", operation, "orders")])
    assert may(table, "client/alice", "describe", "orders")
    assert not may(table, "client/alice", "describe", "order")


@pytest.mark.parametrize("operation", ["create", "alter_configs"])
def test_who_may_create_a_topic_or_change_its_settings_may_not_describe_it_for_that(operation: str) -> None:
    assert not may(
        AclTable([allow("client/alice", operation, "orders")]), "client/alice", "describe", "orders"
    )


def test_a_name_that_no_topic_can_have_is_not_remembered() -> None:
    table = AclTable([allow("client/alice", "read", "*")])
    assert may(table, "client/alice", "read", "x" * 250)
    assert not table._decided


def test_a_flood_of_names_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls_module, "DECISIONS_MAX", 10)
    table = AclTable([allow("client/alice", "read", "t-1", Pattern.PREFIX)])
    for number in range(100):
        assert may(table, "client/alice", "read", f"t-{number}") == str(number).startswith("1")
        assert len(table._decided) <= 10


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (("alice", ALLOW, "read", "topic", "orders"), "the principal 'alice' is not client/NAME"),
        (("broker/1", ALLOW, "read", "topic", "orders"), "the principal 'broker/1' is not client/NAME"),
        (("client/a b", ALLOW, "read", "topic", "orders"), "the principal 'client/a b' is not"),
        (("client/a*", ALLOW, "read", "topic", "orders"), "the principal 'client/a*' is not"),
        (("*", ALLOW, "read", "table", "orders"), "the resource type 'table' is none of topic, group"),
        (("*", ALLOW, "write", "group", "g"), "a group has no operation 'write'; it has all, delete"),
        (("*", ALLOW, "cluster_action", "cluster", CLUSTER_NAME), "has no operation 'cluster_action'"),
        (("*", ALLOW, "read", "topic", ""), "the name '' of a topic is not 1 to 249"),
        (("*", ALLOW, "read", "topic", "a/b"), "the name 'a/b' of a topic"),
        (("*", ALLOW, "read", "topic", "*", Pattern.PREFIX), "the name '*' of a topic"),
        (("*", ALLOW, "alter", "cluster", "*"), "is not the literal name cluster"),
    ],
)
def test_what_no_rule_can_say_is_refused_with_the_reason(fields: tuple[str, ...], why: str) -> None:
    with pytest.raises(InvalidAcl, match=why.replace("*", r"\*")):
        Acl(*fields)  # type: ignore[arg-type]


def test_rules_know_the_operations_and_the_resources_of_the_contract() -> None:
    operations = {
        name.removeprefix("OPERATION_").lower()
        for name in access_pb2.Operation.keys()  # noqa: SIM118
    } - {"unspecified", "cluster_action"}
    assert set().union(*OPERATIONS.values()) - {ALL} == operations - {ALL}
    types = {name.removeprefix("RESOURCE_TYPE_").lower() for name in access_pb2.ResourceType.keys()}  # noqa: SIM118
    assert set(OPERATIONS) == types - {"unspecified"}
