"""What clients of a cluster without a controller are told: errors, topics, figures."""

from __future__ import annotations

import pytest
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1.controller_service_pb2_grpc import ControllerServiceServicer
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.coordination import led_descriptions as descriptions
from hightide_broker.coordination import led_topic_checks as checks
from hightide_broker.coordination.led_outcomes import OUTCOMES, check, fault_of, no_controller
from hightide_broker.coordination.led_servicer import LeadersControllerServicer
from hightide_leaders.core.effects import Outcome
from hightide_leaders.core.values import PartitionNodes, TopicPartition
from hightide_runtime.errors import CATALOGUE, ServiceError, reason_of
from hightide_runtime.znodes.leaders_znodes import LedTopicZnode
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode

ID = bytes(range(16))
LED = PartitionNodes("", (1, 2), LeaderNode(1, 4, 71), IsrNode(4, (1, 2), 9))
STARTING = PartitionNodes("", reassigned=(1, 2))
RPCS = sorted(name for name in vars(ControllerServiceServicer) if name[:1].isupper())


@pytest.mark.parametrize(
    "outcome", [each for each in Outcome if each is not Outcome.DONE], ids=lambda o: o.name
)
def test_every_outcome_is_an_error_of_the_catalogue_that_names_what_it_is_about(outcome: Outcome) -> None:
    code, message = fault_of(outcome, "tide-3")
    assert code in CATALOGUE
    assert message.startswith("tide-3 ")
    with pytest.raises(ServiceError, match="tide-3"):
        check(outcome, "tide-3")


def test_what_is_done_is_no_error() -> None:
    assert fault_of(Outcome.DONE, "tide-3") == (ErrorCode.ERROR_CODE_UNSPECIFIED, "")
    assert Outcome.DONE not in OUTCOMES
    check(Outcome.DONE, "tide-3")


@pytest.mark.parametrize("rpc", RPCS)
def test_every_rpc_of_a_controller_is_answered_or_refused_by_name(rpc: str) -> None:
    assert getattr(LeadersControllerServicer, rpc) is not getattr(ControllerServiceServicer, rpc)


def test_what_only_a_controller_can_do_names_the_request_and_the_reason() -> None:
    error = no_controller("ResignController", "drain a broker")
    assert reason_of(error.code) == "NO_CONTROLLER"
    assert error.message.startswith("ResignController is done by a controller, and this cluster has none")
    assert error.message.endswith("; drain a broker")


def test_partitions_that_an_admin_is_still_creating_are_not_shown() -> None:
    growing = LedTopicZnode(ID, (3, 0), 1, {"flush": "fsync"})
    shown = descriptions.topic_out("tide", growing, {0: LED, 1: STARTING})
    assert [each.partition for each in shown.partitions] == [0]
    assert (shown.topic_id, dict(shown.configs)) == (ID, {"flush": "fsync"})
    (partition,) = shown.partitions
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 4, 9)
    assert (list(partition.replicas), list(partition.isr)) == ([1, 2], [1, 2])


def test_a_move_is_what_has_another_target_and_is_neither_created_nor_deleted() -> None:
    moving = PartitionNodes("", (1, 2), LED.leader, LED.isr, reassigned=(3, 2))
    deleted = PartitionNodes("", (1, 2), LED.leader, LED.isr, reassigned=())
    assert [descriptions.is_moving(each) for each in (LED, STARTING, moving, deleted)] == [
        False,
        False,
        True,
        False,
    ]
    told = descriptions.move_out(TopicPartition("tide", 0), LedTopicZnode(ID, None, 1), moving)
    assert (list(told.original), list(told.target), list(told.replicas)) == ([1, 2], [3, 2], [1, 2, 3])
    assert (told.leader, list(told.isr)) == (1, [1, 2])


def creation(**fields: object) -> controller_pb2.CreateTopicRequest:
    return controller_pb2.CreateTopicRequest(topic="tide", **fields)  # type: ignore[arg-type]


def test_replicas_that_nobody_names_are_balanced_over_the_live_brokers() -> None:
    found = checks.assignment_of_new(creation(partition_count=3, replication_factor=2), [1, 2, 3], start=7)
    assert sorted(broker_id for replicas in found for broker_id in replicas) == [1, 1, 2, 2, 3, 3]
    assert sorted(replicas[0] for replicas in found) == [1, 2, 3]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"partition_count": 0, "replication_factor": 1}, ErrorCode.ERROR_CODE_INVALID_PARTITION_COUNT),
        ({"partition_count": 10_001, "replication_factor": 1}, ErrorCode.ERROR_CODE_INVALID_PARTITION_COUNT),
        ({"partition_count": 1, "replication_factor": 3}, ErrorCode.ERROR_CODE_INVALID_REPLICATION_FACTOR),
        ({"partition_count": 1, "replication_factor": 0}, ErrorCode.ERROR_CODE_INVALID_REPLICATION_FACTOR),
        ({"assignment": [{"replicas": [1, 1]}]}, ErrorCode.ERROR_CODE_INVALID_ASSIGNMENT),
        ({"assignment": [{"replicas": []}]}, ErrorCode.ERROR_CODE_INVALID_ASSIGNMENT),
        ({"assignment": [{"replicas": [1, 3]}]}, ErrorCode.ERROR_CODE_INVALID_ASSIGNMENT),
        ({"assignment": [{"replicas": [1]}], "partition_count": 2}, ErrorCode.ERROR_CODE_INVALID_REQUEST),
        ({"assignment": [{"replicas": [1]}], "replication_factor": 2}, ErrorCode.ERROR_CODE_INVALID_REQUEST),
    ],
)
def test_a_topic_that_cannot_be_is_refused(fields: dict[str, object], code: int) -> None:
    with pytest.raises(ServiceError) as refused:
        checks.assignment_of_new(creation(**fields), [1, 2], start=0)
    assert refused.value.code == code


def test_a_topic_without_live_brokers_cannot_be() -> None:
    with pytest.raises(ServiceError, match="live brokers, now 0"):
        checks.assignment_of_new(creation(partition_count=1, replication_factor=1), [], start=0)


@pytest.mark.parametrize(
    ("count", "assignment", "code"),
    [
        (2, [], ErrorCode.ERROR_CODE_INVALID_PARTITION_COUNT),
        (10_001, [], ErrorCode.ERROR_CODE_INVALID_PARTITION_COUNT),
        (4, [{"replicas": [1]}], ErrorCode.ERROR_CODE_INVALID_ASSIGNMENT),
        (3, [{"replicas": [9]}], ErrorCode.ERROR_CODE_INVALID_ASSIGNMENT),
        (3, [], ErrorCode.ERROR_CODE_INVALID_REPLICATION_FACTOR),
    ],
)
def test_a_growth_that_cannot_be_is_refused(count: int, assignment: list[object], code: int) -> None:
    request = controller_pb2.AddPartitionsRequest(
        topic="tide",
        partition_count=count,
        assignment=assignment,  # type: ignore[arg-type]
    )
    with pytest.raises(ServiceError) as refused:
        checks.assignment_of_growth(request, 2, 3, [1, 2], start=0)
    assert refused.value.code == code


def test_settings_are_changed_where_they_make_sense_together() -> None:
    before = {"flush": "fsync", "retention.ms": "5"}
    after = checks.altered_configs(before, {"min.insync.replicas": "2"}, ["flush"], 3)
    assert after == {"retention.ms": "5", "min.insync.replicas": "2"}
    for to_set, to_reset in (
        ({"flush": "fsync"}, ["flush"]),
        ({}, ["flsh"]),
        ({"min.insync.replicas": "4"}, []),
    ):
        with pytest.raises(ServiceError) as refused:
            checks.altered_configs(before, to_set, to_reset, 3)
        assert refused.value.code == ErrorCode.ERROR_CODE_INVALID_CONFIG


def test_another_topic_of_the_name_is_not_the_one_that_is_meant() -> None:
    checks.check_topic_id("tide", ID, b"")
    checks.check_topic_id("tide", ID, ID)
    for wanted, code in (
        (bytes(16), ErrorCode.ERROR_CODE_INCONSISTENT_TOPIC_ID),
        (b"short", ErrorCode.ERROR_CODE_INVALID_REQUEST),
    ):
        with pytest.raises(ServiceError) as refused:
            checks.check_topic_id("tide", ID, wanted)
        assert refused.value.code == code
