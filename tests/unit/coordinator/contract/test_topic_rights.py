"""What a consumer needs the ACLs to allow."""

from __future__ import annotations

import pytest
import re2
from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.errors_pb2 import ErrorCode
from hightide_coordinator.contract.topic_rights import ReadingRights, literal_head
from hightide_runtime.access.authoriser import Authoriser
from hightide_runtime.access.call_access import CallAccess
from hightide_runtime.access.principals import Principal, Role
from hightide_runtime.znodes.acls_znode import Acl, AclsZnode, Effect, Pattern
from hypothesis import given
from hypothesis import strategies as st

BOB = Principal(Role.CLIENT, "bob")
PIECES = r"a b ab - \. \- . .* a* a? b+ a{0,2} (a|b) | ^ $ [ab] \d (?i) (?:ab) \Qa\E x{0} (ab)?"
pieces = st.sampled_from(PIECES.split())


@given(st.lists(pieces, max_size=6).map("".join), st.text("abAB-.x", max_size=6))
def test_whatever_a_pattern_matches_begins_with_its_head(pattern: str, topic: str) -> None:
    try:
        compiled = re2.compile(pattern)
    except re2.error:
        return
    if compiled.fullmatch(topic):
        assert topic.startswith(literal_head(pattern))


@pytest.mark.parametrize(
    ("pattern", "head"),
    [
        ("orders-.*", "orders-"),
        (r"orders\.[a-z]+", "orders."),
        ("^orders$", "orders"),
        ("orders*", "order"),
        ("orders{0,3}", "order"),
        ("orders+", "orders"),
        ("a|b", ""),
        (".*", ""),
        ("(?i)orders", ""),
    ],
)
def test_the_head_of_a_pattern_is_what_it_begins_with_for_certain(pattern: str, head: str) -> None:
    assert literal_head(pattern) == head


class Rules:
    """Bob's rights under rules that change."""

    def __init__(self, *acls: Acl) -> None:
        self.authoriser = Authoriser()
        self.denied: list[str] = []
        self.access = CallAccess(BOB, self.authoriser, lambda why, resource: self.denied.append(resource))
        self.are(*acls)

    def are(self, *acls: Acl) -> None:
        self.authoriser.put(AclsZnode.of(acls))

    def missing(self, **registration: object) -> ErrorCode.ValueType | None:
        asked = pb.ConsumerRegistration(group="g", **registration)  # type: ignore[arg-type]
        found = ReadingRights(self.access, asked).missing()
        return None if found is None else ErrorCode.ValueType(found.code)


def reads(
    resource_type: str, name: str, pattern: Pattern = Pattern.LITERAL, effect: Effect = Effect.ALLOW
) -> Acl:
    return Acl("client/bob", effect, "read", resource_type, name, pattern)


TOPICS = [pb.TopicStreams(topic="orders"), pb.TopicStreams(topic="returns")]
NOT_AUTHORIZED = ErrorCode.ERROR_CODE_NOT_AUTHORIZED


def test_a_member_needs_its_group_and_each_of_its_topics() -> None:
    rules = Rules(reads("group", "g"), reads("topic", "orders"))
    assert rules.missing(topics=TOPICS[:1]) is None
    assert rules.missing(topics=TOPICS) == NOT_AUTHORIZED
    assert rules.denied == ["returns"]
    rules.are(reads("topic", "orders"))
    assert rules.missing(topics=TOPICS[:1]) == NOT_AUTHORIZED


@pytest.mark.parametrize(
    ("pattern", "acls", "may"),
    [
        ("orders-.*", [reads("topic", "orders-", Pattern.PREFIX)], True),
        ("orders-.*", [reads("topic", "*")], True),
        ("orders-.*", [reads("topic", "orders-1")], False),
        (".*", [reads("topic", "orders-", Pattern.PREFIX)], False),
        ("orders-.*", [reads("topic", "*"), reads("topic", "orders-7", effect=Effect.DENY)], False),
        ("orders-.*", [reads("topic", "*"), reads("topic", "o", Pattern.PREFIX, Effect.DENY)], False),
        ("orders-.*", [reads("topic", "*"), reads("topic", "payroll", effect=Effect.DENY)], True),
    ],
)
def test_a_pattern_needs_all_that_it_could_ever_match(pattern: str, acls: list[Acl], may: bool) -> None:
    rules = Rules(reads("group", "g"), *acls)
    assert (rules.missing(pattern=pattern) is None) is may
