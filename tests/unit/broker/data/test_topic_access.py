"""Which partitions of a request reach the part that does the work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.metadata import MetadataCache, MetadataUpdate, TopicView
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.contract.data_calls import PartitionRefused
from hightide_broker.data.topic_access import TopicAccess
from hightide_runtime.access.authoriser import Authoriser
from hightide_runtime.access.call_access import ACCESS, CallAccess
from hightide_runtime.access.principals import Principal, Role
from hightide_runtime.znodes.acls_znode import Acl, AclsZnode, Effect

ALICE = Principal(Role.CLIENT, "alice")
ORDERS, PAYROLL, SEEN, UNHEARD, DELETED = (bytes([number]) * 16 for number in range(1, 6))


def cluster() -> TopicAccess:
    metadata = MetadataCache("the-cluster")
    topics = {"orders": ORDERS, "payroll": PAYROLL, "seen": SEEN, "secret": DELETED}
    views = tuple(TopicView(name, topic_id, (), {}) for name, topic_id in topics.items())
    metadata.apply(MetadataUpdate(1, None, (), views))
    metadata.apply(MetadataUpdate(1, None, (), (), (DELETED,)))
    return TopicAccess(1, metadata)


def answer(keys: Sequence[bytes], *, has_acls: bool = True) -> tuple[list[int], list[object]]:
    """Which places of the request were worked on, and all answers."""
    worked: list[int] = []
    asked = list(enumerate((topic_id, 0) for topic_id in keys))

    async def work(permitted: Sequence[tuple[int, PartitionKey]]) -> list[str]:
        worked.extend(place for place, _ in permitted)
        return [f"answer {place}" for place, _ in permitted]

    async def call() -> list[object]:
        if has_acls:
            authoriser = Authoriser()
            rules = [("write", "orders"), ("describe", "seen")]
            authoriser.put(
                AclsZnode.of(Acl("client/alice", Effect.ALLOW, each, "topic", name) for each, name in rules)
            )
            ACCESS.set(CallAccess(ALICE, authoriser, lambda why, resource: None))
        return list(await cluster().for_permitted("write", asked, lambda each: each[1], work))

    return worked, asyncio.run(call())


def refusal(answered: object) -> PartitionRefused:
    assert isinstance(answered, PartitionRefused)
    return answered


def test_what_may_not_be_used_reaches_nobody_and_is_answered_in_its_place() -> None:
    worked, answers = answer([PAYROLL, ORDERS, SEEN, ORDERS])
    assert worked == [1, 3]
    assert answers[1] == "answer 1"
    assert answers[3] == "answer 3"
    assert refusal(answers[0]).code == ErrorCode.ERROR_CODE_UNKNOWN_TOPIC
    assert refusal(answers[2]).code == ErrorCode.ERROR_CODE_NOT_AUTHORIZED
    assert "client/alice may not write topic seen" in refusal(answers[2]).message


def test_a_hidden_topic_is_answered_word_for_word_as_one_that_was_never_there() -> None:
    worked, answers = answer([PAYROLL, UNHEARD, DELETED])
    assert worked == []
    told = [refusal(each) for each in answers]
    texts = [
        (each.code, each.message.replace(key.hex(), "ID"), each.current_leader, each.current_leader_epoch)
        for each, key in zip(told, (PAYROLL, UNHEARD, DELETED), strict=True)
    ]
    assert len(set(texts)) == 1, "also the name of a topic that was deleted"


def test_without_acls_all_is_worked_on() -> None:
    worked, answers = answer([PAYROLL, UNHEARD], has_acls=False)
    assert worked == [0, 1]
    assert answers == ["answer 0", "answer 1"]
