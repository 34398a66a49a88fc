"""The znodes of a cluster that leaders coordinate: what is written is read again, and garbage is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.znodes.leaders_znodes import (
    DrainedZnode,
    IsrZnode,
    LeaderZnode,
    LedTopicZnode,
    ReassignedZnode,
    ReplicasZnode,
    StateChangeZnode,
    StateQueueZnode,
    is_queued,
)
from hightide_runtime.znodes.recovered_log import RecoveredLog
from hypothesis import given
from hypothesis import strategies as st

ID = bytes(range(16))
EXAMPLES: list[Any] = [
    LedTopicZnode(ID),
    LedTopicZnode(ID, (3, 0)),
    LedTopicZnode(ID, (3, 0), 4),
    LedTopicZnode(ID, None, 5, {"retention.ms": "1000"}),
    LedTopicZnode(ID, None, 5, {}, 3, {7: 4, 12: 2}),
    ReplicasZnode((2, 1, 3)),
    LeaderZnode(2, 7),
    IsrZnode(7, (1, 2)),
    IsrZnode(
        7,
        (1,),
        eligible=(2, 3),
        recovered=(RecoveredLog(2, -1, 0), RecoveredLog(12, 3, 2**63 - 1)),
        unclean_epoch=4,
    ),
    ReassignedZnode(()),
    DrainedZnode(),
    DrainedZnode(((2, 7), (11, 0))),
    ReassignedZnode((4, 5)),
    StateChangeZnode("start-replica", "flights", 3, ID, 0),
    StateChangeZnode("close-replica", "flights", 3, ID, -1),
    StateChangeZnode("read-assignments", "", 0, bytes(16), -1),
    StateChangeZnode("start-replica", "flights", 3, ID, 0, f"00-{1:032x}-{2:016x}-01"),
]
LONG = b'{"leader_epoch":1,"isr":[1],"recovered":{"' + b"7" * 5000 + b'":[1,2]}}'
"""A broker id that no number is as long as."""
DECODERS = sorted({type(example) for example in EXAMPLES}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
def test_what_is_written_is_read_again(example: Any) -> None:
    assert type(example).decode(example.encode()) == example


def test_the_paths_are_those_of_the_text() -> None:
    assert ReplicasZnode.path("flights", 3) == "/brokers/topics/flights/3/replicas"
    assert LeaderZnode.path("flights", 3) == "/brokers/topics/flights/3/leader"
    assert IsrZnode.path("flights", 3) == "/brokers/topics/flights/3/ISR"
    assert ReassignedZnode.path("flights", 3) == "/brokers/partitions_reassigned/flights/3"
    assert DrainedZnode.path() == "/brokers/drained"
    assert StateQueueZnode.path(2) == "/brokers/state/2"
    assert StateChangeZnode.path(2, "change-0000000012") == "/brokers/state/2/change-0000000012"
    assert StateChangeZnode.prefix(2) == "/brokers/state/2/change-"


@pytest.mark.parametrize("name", ["change-12", "change-0000000012x", "x", "change-00000000-1"])
def test_what_zookeeper_did_not_name_is_not_in_the_queue(name: str) -> None:
    assert not is_queued(name)


@pytest.mark.parametrize("kind", DECODERS, ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize(
    "data", [b"", b"x", b"[]", b"null", b"{}", b'{"isr":[],"leader_epoch":1}', b'{"topic_id":"\xff"}', LONG]
)
def test_garbage_is_refused(kind: Any, data: bytes) -> None:
    with pytest.raises(ZnodeGarbage):
        kind.decode(data)


@given(
    example=st.sampled_from([each for each in EXAMPLES if json.loads(each.encode())]),
    wrong=st.sampled_from([None, -2, 2**31, "x", [1, 1], [-1], {"x": [1, 2]}, 1.5, True]),
    field=st.integers(0, 9),
)
def test_a_field_of_the_wrong_kind_is_refused_or_read_as_it_is(example: Any, wrong: Any, field: int) -> None:
    content = json.loads(example.encode())
    name = sorted(content)[field % len(content)]
    content[name] = wrong
    try:
        read = type(example).decode(json.dumps(content).encode())
    except ZnodeGarbage:
        return
    if name != "traceparent":  # One that is none counts as none, since no decision depends on it.
        assert json.loads(read.encode()).get(name, wrong) == wrong
