"""A topic is created as asked or refused by the right name, and a refusal leaves nothing behind."""

from collections.abc import Iterator

import pytest
from adversary.control import CONTROLLER, ControlPlane
from adversary.raw_client import RawClient
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def plane(hightide_cluster: LocalCluster) -> Iterator[ControlPlane]:
    control = ControlPlane(hightide_cluster.bootstrap)
    yield control
    control.close()


@pytest.fixture
def control(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The controller; after each test there must be the same topics as before."""
    before = set(plane.topics())
    yield plane
    assert set(plane.topics()) == before


def refusal(control: ControlPlane, request: controller_pb2.CreateTopicRequest) -> str:
    answer = control.create(request)
    assert answer.is_typed_error, answer
    return answer.reason


NAMES = {
    "empty": "",
    "a dot": ".",
    "two dots": "..",
    "a way out": "../x",
    "a way further out": "../../etc/passwd",
    "a folder": "a/b",
    "absolute": "/x",
    "backslash": "a\\b",
    "250 characters": "x" * 250,
    "100,000 characters": "x" * 100_000,
    "NUL": "a\0b",
    "NUL alone": "\0",
    "newline": "a\nb",
    "trailing newline": "a\n",
    "escape": "a\x1b[31mb",
    "space": "a b",
    "unicode": "føø",
    "a digit that is not ASCII": "topic٣",
    "a full-width letter": "tｏpic",
    "emoji": "🌊",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_none_is_refused(control: ControlPlane, name: str) -> None:
    request = controller_pb2.CreateTopicRequest(topic=NAMES[name], partition_count=1, replication_factor=1)
    answer = control.create(request)
    assert (answer.is_typed_error, answer.reason) == (True, "INVALID_TOPIC_NAME"), answer
    assert len(answer.message) < 2000, "the error repeats the whole name"


@pytest.mark.parametrize("count", [0, -1, 10_001, 1_000_000, 2**31 - 1, -(2**31)])
def test_a_number_of_partitions_that_cannot_be_is_refused(control: ControlPlane, count: int) -> None:
    request = controller_pb2.CreateTopicRequest(topic="counted", partition_count=count, replication_factor=1)
    assert refusal(control, request) == "INVALID_PARTITION_COUNT"


@pytest.mark.parametrize("factor", [0, -1, 4, 1_000_000, 2**31 - 1])
def test_a_replication_factor_that_cannot_be_is_refused(control: ControlPlane, factor: int) -> None:
    request = controller_pb2.CreateTopicRequest(topic="copied", partition_count=1, replication_factor=factor)
    assert refusal(control, request) == "INVALID_REPLICATION_FACTOR"


ASSIGNMENTS: dict[str, list[list[int]]] = {
    "a broker twice": [[1, 1]],
    "an unknown broker": [[1, 99]],
    "a negative broker": [[-1]],
    "no broker": [[]],
    "a second partition without brokers": [[1], []],
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_an_assignment_that_cannot_be_is_refused(control: ControlPlane, name: str) -> None:
    request = controller_pb2.CreateTopicRequest(topic="assigned")
    for replicas in ASSIGNMENTS[name]:
        request.assignment.add(replicas=replicas)
    assert refusal(control, request) == "INVALID_ASSIGNMENT"


def test_an_assignment_beside_numbers_contradicts_itself(control: ControlPlane) -> None:
    request = controller_pb2.CreateTopicRequest(topic="both", partition_count=5, replication_factor=2)
    request.assignment.add(replicas=[1])
    assert refusal(control, request) in {
        "INVALID_REQUEST",
        "INVALID_PARTITION_COUNT",
        "INVALID_REPLICATION_FACTOR",
    }


def test_an_assignment_has_a_limit(control: ControlPlane) -> None:
    request = controller_pb2.CreateTopicRequest(topic="wide")
    request.assignment.extend(controller_pb2.ReplicaAssignment(replicas=[1]) for _ in range(100_000))
    assert refusal(control, request) in {"INVALID_PARTITION_COUNT", "LIMIT_EXCEEDED", "INVALID_ASSIGNMENT"}


CONFIGS: dict[str, dict[str, str]] = {
    "an unknown name": {"min.insync.replica": "2"},
    "no name": {"": "2"},
    "no value": {"min.insync.replicas": ""},
    "no number": {"min.insync.replicas": "two"},
    "zero where one is the least": {"min.insync.replicas": "0"},
    "negative": {"segment.bytes": "-5"},
    "absurdly large": {"max.message.bytes": "9" * 40},
    "a number with a blank": {"retention.ms": "1 000"},
    "a digit that is not ASCII": {"retention.ms": "٣"},
    "no word of the list": {"flush": "sometimes"},
    "no truth value": {"unclean.leader.election.enable": "perhaps"},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_setting_that_cannot_be_is_refused(control: ControlPlane, name: str) -> None:
    request = controller_pb2.CreateTopicRequest(
        topic="configured", partition_count=1, replication_factor=1, configs=CONFIGS[name]
    )
    assert refusal(control, request) == "INVALID_CONFIG"


def test_a_misspelt_setting_is_answered_by_the_right_spelling(control: ControlPlane) -> None:
    request = controller_pb2.CreateTopicRequest(
        topic="misspelt", partition_count=1, replication_factor=1, configs={"min.insync.replica": "2"}
    )
    assert "min.insync.replicas" in control.create(request).message


def test_validate_only_creates_nothing(control: ControlPlane) -> None:
    request = controller_pb2.CreateTopicRequest(
        topic="only-validated", partition_count=2, replication_factor=3, validate_only=True
    )
    assert control.create(request).ok


def test_a_topic_that_exists_is_not_created_again(plane: ControlPlane) -> None:
    created = plane.create_topic("only-once", partitions=2)
    request = controller_pb2.CreateTopicRequest(topic="only-once", partition_count=5, replication_factor=1)
    assert refusal(plane, request) == "TOPIC_ALREADY_EXISTS"
    assert plane.topics()["only-once"].topic_id == created.topic_id
    assert len(plane.topics()["only-once"].partitions) == 2


@pytest.mark.parametrize("topic", ["x" * 249, "-", "a.b_c-d", "0", "...", "UPPER"])
def test_a_name_at_the_edge_of_what_is_allowed_works(plane: ControlPlane, topic: str) -> None:
    assert plane.create_topic(topic, replicas=1).partitions[0].leader > 0


def test_the_controller_that_stands_by_names_the_active_one(
    hightide_cluster: LocalCluster, control: ControlPlane
) -> None:

    (standby,) = [
        address for number, address in hightide_cluster.controllers.items() if number != control.endpoint.id
    ]
    request = controller_pb2.CreateTopicRequest(topic="at-standby", partition_count=1, replication_factor=1)
    with RawClient(standby) as client:

        def names_it() -> bool:
            """It may have to look first who that is."""
            answer = client.send(f"{CONTROLLER}/CreateTopic", request)
            assert (answer.is_typed_error, answer.reason) == (True, "NOT_CONTROLLER"), answer
            return f"{control.endpoint.host}:{control.endpoint.port}" in answer.message

        wait_until("the active one is named", names_it, 30)


@pytest.mark.parametrize("broker_id", [-1, 0, 99])
def test_a_shutdown_of_a_broker_that_is_not_there_is_refused(control: ControlPlane, broker_id: int) -> None:

    request = controller_pb2.ControlledShutdownRequest(broker_id=broker_id, broker_epoch=1)
    answer = control.client.send(f"{CONTROLLER}/ControlledShutdown", request)
    assert (answer.is_typed_error, answer.reason) == (True, "UNKNOWN_BROKER"), answer


def test_a_shutdown_of_another_life_of_a_broker_is_refused(control: ControlPlane) -> None:

    stamp = control.stamp_for(1)
    request = controller_pb2.ControlledShutdownRequest(broker_id=1, broker_epoch=stamp.broker_epoch - 1)
    answer = control.client.send(f"{CONTROLLER}/ControlledShutdown", request)
    assert (answer.is_typed_error, answer.reason) == (True, "STALE_BROKER_EPOCH"), answer
