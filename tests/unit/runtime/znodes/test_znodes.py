import json
from typing import Any

import pytest
from hightide_runtime.znodes.acls_znode import Acl, AclsZnode, Effect, Pattern
from hightide_runtime.znodes.admin_znodes import (
    DeleteTopicZnode,
    PartitionAddZnode,
    PartitionRemoveZnode,
    ReassignmentThrottleZnode,
    ReassignmentZnode,
)
from hightide_runtime.znodes.cluster_znodes import (
    CONTROLLER_CANDIDATES,
    BrokerIncarnationZnode,
    BrokerZnode,
    CandidateZnode,
    ClusterIdZnode,
    ControllerEpochZnode,
    ControllerZnode,
    LeaderAndIsrZnode,
    PartitionZnode,
    ProducerIdsZnode,
    ProducerOwnersZnode,
    TopicConfigZnode,
    TopicIdZnode,
    TopicZnode,
    ZnodeGarbage,
    partition_of,
)
from hightide_runtime.znodes.coordination_znode import Coordination, CoordinationZnode
from hightide_runtime.znodes.recovered_log import RecoveredLog
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hypothesis import given
from hypothesis import strategies as st

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
EXAMPLES: list[Any] = [
    ControllerZnode(1, "host", 9191, 7),
    ControllerZnode(1, "host", 9191, 7, "outside", 19191),
    ControllerEpochZnode(7),
    BrokerZnode("host", 9092, 1_700_000_000_000, "boot"),
    BrokerZnode("host", 9092, 1_700_000_000_000, external_host="outside", external_port=19092),
    BrokerZnode("host", 9092, 1_700_000_000_000),
    BrokerZnode("host", 9092, 1_700_000_000_000, incarnation=7, registered_before=2),
    CandidateZnode(2, "host", 9192),
    CoordinationZnode(Coordination.CONTROLLER),
    CoordinationZnode(Coordination.LEADERS),
    CandidateZnode(2, "host", 9192, "outside", 19192),
    TopicZnode(bytes(range(16)), ((1, 2, 3), (2, 3, 1))),
    TopicZnode(bytes(range(16)), ((1,),), {1: 7}),
    TopicIdZnode("flights"),
    ReassignmentZnode((4, 5)),
    ReassignmentZnode((4, 5), (1, 2)),
    ReassignmentZnode((4, 5), (1, 2), TRACEPARENT),
    PartitionAddZnode((3, 1)),
    DeleteTopicZnode(bytes(range(16))),
    ReassignmentThrottleZnode(1_000_000),
    LeaderAndIsrZnode(-1, 4, (1, 2), 7),
    LeaderAndIsrZnode(1, 4, (1, 2), 7, TRACEPARENT),
    LeaderAndIsrZnode(
        -1, 4, (1,), 7, TRACEPARENT, (3, 2), (RecoveredLog(1, -1, 0), RecoveredLog(12, 3, 2**63 - 1)), 4
    ),
    TopicConfigZnode({"retention.ms": "1000"}),
    ClusterIdZnode("c"),
    ProducerIdsZnode(2**40),
    ProducerOwnersZnode("0a" * 32),
    AclsZnode.of(
        [
            Acl("client/alice", Effect.ALLOW, "read", "topic", "orders"),
            Acl("*", Effect.DENY, "all", "group", "g", Pattern.PREFIX),
        ]
    ),
]
# An empty /admin/delete_topics/[topic] is no garbage: it is what an operator creates.
DECODERS = sorted(
    {type(example) for example in EXAMPLES} - {DeleteTopicZnode}, key=lambda kind: kind.__name__
)

ids = st.integers(0, 2**31 - 1)
leader_and_isr = st.builds(
    LeaderAndIsrZnode,
    leader=st.integers(-1, 2**31 - 1),
    leader_epoch=st.integers(0, 2**31 - 1_000_001),
    isr=st.lists(ids, min_size=1, max_size=5, unique=True).map(tuple),
    controller_epoch=ids,
    traceparent=st.sampled_from(["", TRACEPARENT]),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
def test_what_is_written_is_read_back(example: Any) -> None:
    assert type(example).decode(example.encode()) == example


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
def test_the_content_is_json_that_a_person_can_read_in_a_zookeeper_shell(example: Any) -> None:
    assert isinstance(json.loads(example.encode()), dict)


@given(leader_and_isr)
def test_the_hand_made_json_of_leader_and_isr_is_read_back_whatever_it_holds(
    znode: LeaderAndIsrZnode,
) -> None:
    assert LeaderAndIsrZnode.decode(znode.encode()) == znode


def test_the_paths_are_those_of_the_design() -> None:
    assert ControllerZnode.path() == "/controller"
    assert ControllerEpochZnode.path() == "/controller_epoch"
    assert BrokerZnode.path(3) == "/brokers/ids/3"
    assert TopicZnode.path("t") == "/brokers/topics/t"
    assert CandidateZnode.path(CONTROLLER_CANDIDATES, 2, 0xAB) == "/candidates/controllers/2-ab"
    assert PartitionZnode.path("t", 4) == "/brokers/topics/t/4"
    assert LeaderAndIsrZnode.path("t", 4) == "/brokers/topics/t/4/leaderAndISR"
    assert TopicConfigZnode.path("t") == "/config/topics/t"
    assert ClusterIdZnode.path() == "/cluster/id"
    assert CoordinationZnode.path() == "/cluster/coordination"
    assert ProducerIdsZnode.path() == "/producer_ids"
    assert ProducerOwnersZnode.path() == "/cluster/producer_owners"
    assert AclsZnode.path() == "/config/acls"
    assert BrokerIncarnationZnode.path(4) == "/brokers/incarnations/4"
    assert TopicIdZnode.path(bytes(16)) == f"/brokers/topic_ids/{'0' * 32}"
    assert ReassignmentZnode.path("t", 4) == "/admin/partitions_reassigned/t/4"
    assert PartitionAddZnode.path("t", 4) == "/admin/partitions_add/t/4"
    assert PartitionRemoveZnode.path("t", 4) == "/admin/partitions_remove/t/4"
    assert DeleteTopicZnode.path("t") == "/admin/delete_topics/t"
    assert ReassignmentThrottleZnode.path() == "/config/reassignment"


def test_a_topic_written_by_hand_as_v3_describes_it_is_read_without_an_id() -> None:
    assert TopicZnode.decode(b'{"0":[1,2],"1":[2,1]}') == TopicZnode(b"", ((1, 2), (2, 1)))
    assert TopicZnode.decode(b'{"partitions":{"0":[1]}}') == TopicZnode(b"", ((1,),))


def test_replicas_written_by_hand_may_be_a_bare_list() -> None:
    assert ReassignmentZnode.decode(b"[4, 5]\n") == ReassignmentZnode((4, 5))
    assert PartitionAddZnode.decode(b" [3] ") == PartitionAddZnode((3,))


def test_a_request_to_delete_written_by_an_operator_may_be_empty() -> None:
    assert DeleteTopicZnode.decode(b"") == DeleteTopicZnode()
    assert DeleteTopicZnode.decode(b"{}") == DeleteTopicZnode()


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"{", b"null", b"[]", b"3", b"[" * 100_000, b'{"a":1}'])
def test_garbage_in_a_znode_is_a_typed_error(decoder: Any, data: bytes) -> None:
    with pytest.raises(ZnodeGarbage):
        decoder.decode(data)


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
@given(data=st.data())
def test_a_field_of_any_other_kind_is_read_back_or_a_typed_error(example: Any, data: st.DataObject) -> None:
    fields = json.loads(example.encode())
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(anything)
    content = json.dumps(fields).encode()
    try:
        decoded = type(example).decode(content)
    except ZnodeGarbage:
        return
    assert type(example).decode(decoded.encode()) == decoded


@pytest.mark.parametrize(
    ("partitions", "complaint"),
    [
        ({}, "no partitions"),
        ({"1": [1]}, "partition 0 is missing"),
        ({"0": []}, "no replicas"),
        ({"0": [1, 1]}, "twice"),
        ({"0": [-1]}, "broker ids"),
        ({"0": [True]}, "broker ids"),
    ],
)
def test_an_assignment_that_makes_no_sense_is_refused_in_words(partitions: Any, complaint: str) -> None:
    content = json.dumps({"topic_id": "0" * 32, "partitions": partitions}).encode()
    with pytest.raises(ZnodeGarbage, match=complaint):
        TopicZnode.decode(content)


def test_an_empty_isr_is_refused_since_the_last_member_is_always_kept() -> None:
    with pytest.raises(ZnodeGarbage, match="isr is empty"):
        LeaderAndIsrZnode.decode(b'{"leader":1,"leader_epoch":1,"isr":[],"controller_epoch":1}')


LED: dict[str, Any] = {"leader": 1, "leader_epoch": 3, "isr": [1], "controller_epoch": 1}


def test_who_may_be_elected_beside_the_isr_is_left_out_where_there_is_nobody() -> None:
    assert json.loads(LeaderAndIsrZnode(1, 3, (1,), 1).encode()) == LED
    doubts = {"eligible": [2], "recovered": {"3": [2, 40]}, "unclean_epoch": 3}
    znode = LeaderAndIsrZnode(1, 3, (1,), 1, "", (2,), (RecoveredLog(3, 2, 40),), 3)
    assert json.loads(znode.encode()) == {**LED, **doubts}
    assert LeaderAndIsrZnode.decode(json.dumps({**LED, **doubts}).encode()) == znode


@pytest.mark.parametrize(
    ("doubts", "complaint"),
    [
        ({"eligible": 2}, "list of broker ids"),
        ({"eligible": [2, 2]}, "twice"),
        ({"eligible": [1]}, "both in isr and in eligible"),
        ({"recovered": [2]}, "not an object"),
        ({"recovered": {"x": [1, 2]}}, "its name"),
        ({"recovered": {"2": 3}}, "no leader epoch and log end offset"),
        ({"recovered": {"2": [3]}}, "no leader epoch and log end offset"),
        ({"recovered": {"2": [-2, 0]}}, "the leader epoch of 2"),
        ({"recovered": {"2": [0, -1]}}, "the log end of 2"),
        ({"unclean_epoch": 4}, "unclean_epoch"),
        ({"unclean_epoch": True}, "unclean_epoch"),
    ],
)
def test_nonsense_about_who_may_be_elected_is_refused_in_words(
    doubts: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ZnodeGarbage, match=complaint):
        LeaderAndIsrZnode.decode(json.dumps({**LED, **doubts}).encode())


def test_half_a_character_is_no_text_since_no_message_could_tell_it() -> None:
    for decoder, content in (
        (BrokerZnode, b'{"host":"\\ud800","port":1,"started_at_ms":0}'),
        (TopicIdZnode, b'{"topic":"\\udfff"}'),
        (TopicConfigZnode, b'{"configs":{"flush":"\\ud800"}}'),
        (TopicConfigZnode, b'{"configs":{"\\ud800":"true"}}'),
    ):
        with pytest.raises(ZnodeGarbage):
            decoder.decode(content)


def test_an_epoch_after_which_hardly_another_could_follow_is_garbage() -> None:
    for decoder, content in (
        (LeaderAndIsrZnode, b'{"leader":1,"leader_epoch":2147483647,"isr":[1],"controller_epoch":1}'),
        (ControllerEpochZnode, b'{"controller_epoch":2147483647}'),
        (TopicZnode, TopicZnode(bytes(16), ((1,),), {1: 2**31 - 1}).encode()),
    ):
        with pytest.raises(ZnodeGarbage, match="whole number"):
            decoder.decode(content)


def test_a_marker_names_a_topic_by_its_id_and_a_legal_name() -> None:
    assert TopicIdZnode.topic_id_of("0" * 31 + "a") == bytes(15) + b"\x0a"
    for name in ("", "flights", "0" * 31, "A" * 32):
        with pytest.raises(ZnodeGarbage, match="topic id"):
            TopicIdZnode.topic_id_of(name)
    with pytest.raises(ZnodeGarbage, match="called"):
        TopicIdZnode.decode(b'{"topic":"../flights"}')


def test_a_forged_traceparent_is_left_out_since_it_decides_nothing() -> None:
    content = b'{"leader":1,"leader_epoch":1,"isr":[1],"controller_epoch":1,"traceparent":"x\\n"}'
    assert LeaderAndIsrZnode.decode(content).traceparent == ""


@pytest.mark.parametrize("name", ["", "-1", "x", "١", "99999999999", "1.0", " 1", "01", "00"])
def test_a_child_whose_name_is_no_number_is_a_typed_error(name: str) -> None:
    with pytest.raises(ZnodeGarbage):
        partition_of(name)
    with pytest.raises(ZnodeGarbage):
        BrokerZnode.broker_id_of(name)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "..a", "a" * 249])
def test_legal_topic_names(name: str) -> None:
    assert is_legal_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\0", "a\n", "ä", "a b", "a" * 250])
def test_illegal_topic_names(name: str) -> None:
    assert not is_legal_topic_name(name)
