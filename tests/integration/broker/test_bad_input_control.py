"""Who may tell a broker what: stale controllers, other clusters, other lives, and forged followers are
refused."""

from collections.abc import Iterator

import pytest
from adversary.control import CONTROL, ControlPlane, names_below, names_of_topic
from adversary.raw_client import Answer, RawClient, name_of
from adversary.target import BROKER, Target
from google.protobuf.message import Message
from hightide.v1 import (
    broker_control_service_pb2 as control_pb2,
)
from hightide.v1 import (
    broker_service_pb2 as broker_pb2,
)
from hightide.v1 import (
    metadata_pb2,
)
from hightide.v1 import (
    replica_service_pb2 as replica_pb2,
)
from hightide.v1.errors_pb2 import ErrorCode
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster

TOPIC = "bad-control"
REPLICA = "/hightide.v1.ReplicaService"


@pytest.fixture(scope="module")
def control(hightide_cluster: LocalCluster) -> Iterator[ControlPlane]:
    plane = ControlPlane(hightide_cluster.bootstrap)
    yield plane
    plane.close()


@pytest.fixture(scope="module")
def shared_target(hightide_cluster: LocalCluster, control: ControlPlane) -> Iterator[Target]:
    control.create_topic(TOPIC)
    target = Target(hightide_cluster.bootstrap, TOPIC)
    yield target
    target.close()


@pytest.fixture
def target(shared_target: Target, control: ControlPlane) -> Iterator[Target]:
    """The partition; after each test its leader, epoch, ISR and log are what they were."""
    before = control.topics()[TOPIC]
    yield shared_target
    shared_target.assert_unharmed()
    after = control.topics()[TOPIC]
    assert after == before
    told = shared_target.cluster_metadata().topics[0]
    assert (told.partitions[0].leader, told.partitions[0].leader_epoch) == (
        shared_target.leader_id,
        shared_target.leader_epoch,
    )


def demotion(target: Target, stamp: control_pb2.ControllerStamp) -> control_pb2.LeaderAndISRRequest:
    """A decision that would take the partition away from its leader."""
    others = [each for each in target.metadata.partitions[0].replicas if each != target.leader_id]
    decision = control_pb2.LeaderAndISRPartition(
        partition=0,
        leader=others[0],
        leader_epoch=target.leader_epoch + 1,
        isr=others,
        replicas=list(target.metadata.partitions[0].replicas),
        partition_epoch=target.metadata.partitions[0].partition_epoch + 1,
        controller_epoch=stamp.controller_epoch,
    )
    topic = control_pb2.LeaderAndISRTopic(topic=TOPIC, topic_id=target.topic_id, partitions=[decision])
    return control_pb2.LeaderAndISRRequest(stamp=stamp, topics=[topic])


def removal(target: Target, stamp: control_pb2.ControllerStamp) -> control_pb2.StopReplicaRequest:
    """An order that would delete the leader's log."""
    return control_pb2.StopReplicaRequest(
        stamp=stamp,
        partitions=[
            control_pb2.StopReplicaPartition(
                topic=TOPIC,
                topic_id=target.topic_id,
                partition=0,
                leader_epoch=target.leader_epoch + 1,
                delete=True,
            )
        ],
    )


def oblivion(target: Target, stamp: control_pb2.ControllerStamp) -> control_pb2.UpdateMetadataRequest:
    """Metadata in which there is no broker and no topic."""
    return control_pb2.UpdateMetadataRequest(stamp=stamp, full=True)


def orders(target: Target, stamp: control_pb2.ControllerStamp) -> list[tuple[str, Message]]:
    return [
        (f"{CONTROL}/LeaderAndISR", demotion(target, stamp)),
        (f"{CONTROL}/StopReplica", removal(target, stamp)),
        (f"{CONTROL}/UpdateMetadata", oblivion(target, stamp)),
    ]


def codes_of(path: str, answer: Answer) -> set[str]:
    """The refusals in an answer: of the whole call, or of its decisions."""
    if not answer.ok:
        assert answer.is_typed_error, answer
        return {answer.reason}
    if path.endswith("/LeaderAndISR"):
        return {
            name_of(each.error_code)
            for each in control_pb2.LeaderAndISRResponse.FromString(answer.body).partitions
        }
    if path.endswith("/StopReplica"):
        return {
            name_of(each.error_code)
            for each in control_pb2.StopReplicaResponse.FromString(answer.body).partitions
        }
    return {"OK"}


@pytest.mark.parametrize("order", [0, 1, 2], ids=["LeaderAndISR", "StopReplica", "UpdateMetadata"])
class TestAStampThatIsNotTheControllers:
    """Each order, under a stamp with one thing wrong."""

    def refused(self, target: Target, stamp: control_pb2.ControllerStamp, order: int) -> set[str]:
        path, request = orders(target, stamp)[order]
        return codes_of(path, target.leader.send(path, request))

    def test_an_older_controller_epoch_is_stale(
        self, target: Target, control: ControlPlane, order: int
    ) -> None:
        stamp = control.stamp_for(target.leader_id)
        stamp.controller_epoch -= 1
        assert self.refused(target, stamp, order) == {"STALE_CONTROLLER_EPOCH"}

    def test_a_negative_controller_epoch_is_stale(
        self, target: Target, control: ControlPlane, order: int
    ) -> None:
        stamp = control.stamp_for(target.leader_id)
        stamp.controller_epoch = -(2**31)
        assert self.refused(target, stamp, order) <= {"STALE_CONTROLLER_EPOCH", "INVALID_REQUEST"}

    def test_another_cluster_is_refused(self, target: Target, control: ControlPlane, order: int) -> None:
        stamp = control.stamp_for(target.leader_id)
        stamp.cluster_id = "another"
        stamp.controller_epoch += 1000
        assert self.refused(target, stamp, order) == {"INCONSISTENT_CLUSTER_ID"}

    @pytest.mark.parametrize("shift", [-1, 1])
    def test_another_life_of_the_broker_is_refused(
        self, target: Target, control: ControlPlane, order: int, shift: int
    ) -> None:
        stamp = control.stamp_for(target.leader_id)
        stamp.broker_epoch += shift
        assert self.refused(target, stamp, order) == {"STALE_BROKER_EPOCH"}

    def test_no_stamp_is_refused(self, target: Target, control: ControlPlane, order: int) -> None:
        refusals = self.refused(target, control_pb2.ControllerStamp(), order)
        assert refusals <= {"INCONSISTENT_CLUSTER_ID", "INVALID_REQUEST", "STALE_BROKER_EPOCH"}


def test_a_refused_controller_leaves_the_true_one_heard(
    hightide_cluster: LocalCluster, target: Target, control: ControlPlane
) -> None:
    """A stamp of another cluster with a high epoch must not raise the bar for the true controller."""
    stamp = control.stamp_for(target.leader_id)
    stamp.cluster_id = "another"
    stamp.controller_epoch += 1000
    for path, request in orders(target, stamp):
        target.leader.send(path, request)
    assert control.create_topic("after-the-refused-controller", replicas=3).partitions[0].leader > 0


def test_an_older_leader_epoch_moves_nothing(target: Target, control: ControlPlane) -> None:
    stamp = control.stamp_for(target.leader_id)
    request = demotion(target, stamp)
    request.topics[0].partitions[0].leader_epoch = target.leader_epoch - 1
    request.topics[0].partitions[0].partition_epoch = -1
    path = f"{CONTROL}/LeaderAndISR"
    assert codes_of(path, target.leader.send(path, request)) <= {"FENCED_LEADER_EPOCH", "INVALID_REQUEST"}


def test_the_same_decision_again_moves_nothing(target: Target, control: ControlPlane) -> None:
    stamp = control.stamp_for(target.leader_id)
    now = control.topics()[TOPIC].partitions[0]
    request = demotion(target, stamp)
    decision = request.topics[0].partitions[0]
    decision.leader, decision.leader_epoch = now.leader, now.leader_epoch
    decision.partition_epoch = now.partition_epoch
    del decision.isr[:]
    decision.isr.extend(now.isr)
    brokers = control.describe_cluster().brokers
    request.leaders.extend(each.endpoint for each in brokers)
    path = f"{CONTROL}/LeaderAndISR"
    for _ in range(3):
        assert codes_of(path, target.leader.send(path, request)) <= {"OK", "FENCED_LEADER_EPOCH"}


def test_an_older_leader_epoch_deletes_nothing(
    hightide_cluster: LocalCluster, target: Target, control: ControlPlane
) -> None:
    directory = hightide_cluster.data_directory(target.leader_id)
    stamp = control.stamp_for(target.leader_id)
    request = removal(target, stamp)
    request.partitions[0].leader_epoch = target.leader_epoch - 1
    path = f"{CONTROL}/StopReplica"
    before = names_of_topic(directory, target.topic_id)
    assert codes_of(path, target.leader.send(path, request)) <= {"FENCED_LEADER_EPOCH", "INVALID_REQUEST"}
    assert before, "its log is there"
    assert before <= names_of_topic(directory, target.topic_id)


@pytest.mark.parametrize("topic_id", [b"", b"\x01" * 15, b"../../../../../.."])
def test_no_name_from_outside_becomes_a_path(
    hightide_cluster: LocalCluster, target: Target, control: ControlPlane, topic_id: bytes
) -> None:
    stamp = control.stamp_for(target.leader_id)
    request = demotion(target, stamp)
    request.topics[0].topic, request.topics[0].topic_id = "../../escape", topic_id
    data = hightide_cluster.directory / "data"
    before = names_of_topic(data, target.topic_id)
    answer = target.leader.send(f"{CONTROL}/LeaderAndISR", request)
    assert answer.is_typed_error, answer
    assert answer.reason in {"INVALID_REQUEST", "INVALID_TOPIC_NAME"}, answer
    assert {name for name in names_below(hightide_cluster.directory) if "escape" in name} == set()
    assert before, "its logs are there"
    assert before <= names_of_topic(data, target.topic_id)


DECISIONS: dict[str, dict[str, object]] = {
    "a negative partition": {"partition": -1},
    "a negative leader epoch": {"leader_epoch": -1},
    "a leader that holds no replica": {"leader": 99},
    "an ISR outside of AR": {"isr": [98, 99]},
    "no replicas": {"replicas": []},
    "no ISR": {"isr": []},
    "a replica twice": {"replicas": [1, 1, 2]},
    "a first leader epoch below zero": {"first_leader_epoch": -1},
    "a first leader epoch that has not come yet": {"first_leader_epoch": 2**31 - 1},
    "adding replicas outside of AR": {"adding_replicas": [98]},
}


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_that_contradicts_itself_is_refused(
    target: Target, control: ControlPlane, name: str
) -> None:
    """Even from the true controller: the stamp is right, so only the sense of it stands between it and the
    log."""
    request = demotion(target, control.stamp_for(target.leader_id))
    decision = request.topics[0].partitions[0]
    for field, value in DECISIONS[name].items():
        if isinstance(value, list):
            del getattr(decision, field)[:]
            getattr(decision, field).extend(value)
        else:
            setattr(decision, field, value)
    path = f"{CONTROL}/LeaderAndISR"
    assert codes_of(path, target.leader.send(path, request)) <= {"INVALID_REQUEST", "FENCED_LEADER_EPOCH"}


def test_a_request_that_decides_twice_about_a_partition_is_refused(
    target: Target, control: ControlPlane
) -> None:
    request = demotion(target, control.stamp_for(target.leader_id))
    request.topics[0].partitions.append(request.topics[0].partitions[0])
    path = f"{CONTROL}/LeaderAndISR"
    assert codes_of(path, target.leader.send(path, request)) == {"INVALID_REQUEST"}


STOPS: dict[str, dict[str, object]] = {
    "a negative partition": {"partition": -1},
    "a leader epoch that cannot be": {"leader_epoch": -2},
    "a partition epoch below zero": {"partition_epoch": -1},
    "no topic id": {"topic_id": b""},
    "a topic id that is a path": {"topic_id": b"../../../../../.."},
}


@pytest.mark.parametrize("name", STOPS)
def test_a_stop_that_makes_no_sense_is_refused_and_stops_nothing(
    target: Target, control: ControlPlane, name: str
) -> None:
    request = removal(target, control.stamp_for(target.leader_id))
    for field, value in STOPS[name].items():
        setattr(request.partitions[0], field, value)
    path = f"{CONTROL}/StopReplica"
    assert codes_of(path, target.leader.send(path, request)) == {"INVALID_REQUEST"}


def test_stops_of_what_nobody_has_are_obeyed_without_effect(
    hightide_cluster: LocalCluster, target: Target, control: ControlPlane
) -> None:
    directory = hightide_cluster.data_directory(target.leader_id)
    nobody = b"\x07" * 16
    request = removal(target, control.stamp_for(target.leader_id))
    del request.partitions[:]
    for partition in range(5_000):
        request.partitions.add(topic="nobody", topic_id=nobody, partition=partition, delete=True)
    path = f"{CONTROL}/StopReplica"
    assert codes_of(path, target.leader.send(path, request)) == {"OK"}
    assert names_of_topic(directory, nobody) == set()


UPDATES: dict[str, control_pb2.UpdateMetadataRequest] = {
    "a deleted topic without an id": control_pb2.UpdateMetadataRequest(deleted_topic_ids=[b""]),
    "a speed limit below zero": control_pb2.UpdateMetadataRequest(reassignment_throttle_bytes_per_s=-1),
    "a topic that is a path": control_pb2.UpdateMetadataRequest(
        topics=[metadata_pb2.TopicMetadata(topic="../x", topic_id=b"\x07" * 16)]
    ),
    "a topic without an id": control_pb2.UpdateMetadataRequest(
        topics=[metadata_pb2.TopicMetadata(topic="x")]
    ),
    "partition 0 removed": control_pb2.UpdateMetadataRequest(
        topics=[
            metadata_pb2.TopicMetadata(
                topic=TOPIC,
                topic_id=b"\x07" * 16,
                error_code=ErrorCode.ERROR_CODE_UNKNOWN_PARTITION,
                partitions=[metadata_pb2.PartitionMetadata(partition=0)],
            )
        ]
    ),
    "an error that says nothing": control_pb2.UpdateMetadataRequest(
        topics=[
            metadata_pb2.TopicMetadata(
                topic=TOPIC, topic_id=b"\x07" * 16, error_code=ErrorCode.ERROR_CODE_STORAGE_FAILED
            )
        ]
    ),
}


@pytest.mark.parametrize("name", UPDATES)
def test_metadata_that_makes_no_sense_is_refused(target: Target, control: ControlPlane, name: str) -> None:
    request = control_pb2.UpdateMetadataRequest()
    request.CopyFrom(UPDATES[name])
    request.stamp.CopyFrom(control.stamp_for(target.leader_id))
    answer = target.leader.send(f"{CONTROL}/UpdateMetadata", request)
    assert answer.is_typed_error, answer
    assert answer.reason in {"INVALID_REQUEST", "INVALID_TOPIC_NAME"}, answer


# -- what is held


@pytest.mark.parametrize(
    ("topics", "reason"),
    [
        (["nobody", "nobody"], "INVALID_REQUEST"),
        ([str(number) for number in range(10_001)], "LIMIT_EXCEEDED"),
    ],
)
def test_a_question_about_what_is_held_has_its_limits(target: Target, topics: list[str], reason: str) -> None:
    request = broker_pb2.DescribeReplicasRequest(topics=topics)
    answer = target.leader.send(f"{BROKER}/DescribeReplicas", request)
    assert (answer.is_typed_error, answer.reason) == (True, reason), answer


def test_what_is_not_held_is_left_out_of_the_answer(target: Target) -> None:
    request = broker_pb2.DescribeReplicasRequest(topics=["nobody", "../x", "", TOPIC])
    answer = target.leader.send(f"{BROKER}/DescribeReplicas", request)
    assert answer.ok, answer
    response = broker_pb2.DescribeReplicasResponse.FromString(answer.body)
    assert response.broker_id == target.leader_id
    (replica,) = response.replicas
    assert (replica.topic, replica.partition, replica.is_leader) == (TOPIC, 0, True)
    assert replica.log_end_offset == replica.high_watermark == target.next_offset
    assert replica.size_bytes > 0


# -- forged followers


def fetch(
    target: Target, cluster_id: str, replica_id: int, broker_epoch: int, offset: int, leader_epoch: int
) -> Answer:
    request = replica_pb2.ReplicaFetchRequest(
        cluster_id=cluster_id,
        replica_id=replica_id,
        broker_epoch=broker_epoch,
        max_wait_ms=0,
        max_bytes=1 << 20,
        moved=[
            replica_pb2.ReplicaFetchPartition(
                topic_id=target.topic_id, partition=0, leader_epoch=leader_epoch, fetch_offset=offset
            )
        ],
    )
    return target.leader.send(f"{REPLICA}/ReplicaFetch", request)


def replica_codes(answer: Answer) -> set[str]:
    if not answer.ok:
        assert answer.is_typed_error, answer
        return {answer.reason}
    response = replica_pb2.ReplicaFetchResponse.FromString(answer.body)
    return {name_of(each.error_code) for each in response.partitions}


def follower_of(target: Target) -> int:
    return next(each for each in target.metadata.partitions[0].replicas if each != target.leader_id)


def test_a_follower_of_another_cluster_is_refused(target: Target, control: ControlPlane) -> None:
    follower = follower_of(target)
    epoch = control.stamp_for(follower).broker_epoch
    answer = fetch(target, "another", follower, epoch, 0, target.leader_epoch)
    assert (answer.is_typed_error, answer.reason) == (True, "INCONSISTENT_CLUSTER_ID"), answer


@pytest.mark.parametrize("replica_id", [-1, 0, 99, 2**31 - 1])
def test_a_follower_that_holds_no_replica_gets_no_data(
    target: Target, control: ControlPlane, replica_id: int
) -> None:
    cluster = control.describe_cluster().cluster_id
    answer = fetch(target, cluster, replica_id, 1, 0, target.leader_epoch)
    assert "OK" not in replica_codes(answer), answer
    assert replica_codes(answer), "a stranger is told nothing about why"


def test_the_leader_cannot_follow_itself(target: Target, control: ControlPlane) -> None:
    stamp = control.stamp_for(target.leader_id)
    answer = fetch(
        target,
        stamp.cluster_id,
        target.leader_id,
        stamp.broker_epoch,
        target.next_offset,
        target.leader_epoch,
    )
    assert replica_codes(answer), answer
    assert "OK" not in replica_codes(answer), answer


@pytest.mark.parametrize("ahead", [1, 1000, 2**62])
def test_a_follower_beyond_the_leaders_end_commits_nothing(
    target: Target, control: ControlPlane, ahead: int
) -> None:
    follower = follower_of(target)
    stamp = control.stamp_for(follower)
    answer = fetch(
        target,
        stamp.cluster_id,
        follower,
        stamp.broker_epoch,
        target.next_offset + ahead,
        target.leader_epoch,
    )
    assert replica_codes(answer) == {"OFFSET_OUT_OF_RANGE"}, answer


def test_a_follower_at_a_negative_offset_is_out_of_range(target: Target, control: ControlPlane) -> None:
    follower = follower_of(target)
    stamp = control.stamp_for(follower)
    answer = fetch(target, stamp.cluster_id, follower, stamp.broker_epoch, -1, target.leader_epoch)
    assert replica_codes(answer) <= {"OFFSET_OUT_OF_RANGE", "INVALID_REQUEST"}, answer


@pytest.mark.parametrize(
    ("shift", "code"), [(1, "UNKNOWN_LEADER_EPOCH"), (-1, "FENCED_LEADER_EPOCH"), (-5, "FENCED_LEADER_EPOCH")]
)
def test_a_follower_in_another_epoch_is_fenced(
    target: Target, control: ControlPlane, shift: int, code: str
) -> None:
    follower = follower_of(target)
    stamp = control.stamp_for(follower)
    answer = fetch(target, stamp.cluster_id, follower, stamp.broker_epoch, 0, target.leader_epoch + shift)
    assert replica_codes(answer) == {code}, answer


def test_an_unknown_session_is_refused(target: Target, control: ControlPlane) -> None:
    follower = follower_of(target)
    stamp = control.stamp_for(follower)
    request = replica_pb2.ReplicaFetchRequest(
        cluster_id=stamp.cluster_id,
        replica_id=follower,
        broker_epoch=stamp.broker_epoch,
        session_id=123_456_789,
        round=7,
    )
    answer = target.leader.send(f"{REPLICA}/ReplicaFetch", request)
    assert (answer.is_typed_error, answer.reason) == (True, "UNKNOWN_FETCH_SESSION"), answer


def test_the_true_follower_carries_on_after_its_session_was_taken(
    target: Target, control: ControlPlane
) -> None:
    """Whoever opens a session under a follower's id ends that follower's own; it must open a new one at
    once."""
    follower = follower_of(target)
    stamp = control.stamp_for(follower)
    for _ in range(3):
        fetch(target, stamp.cluster_id, follower, stamp.broker_epoch, 0, target.leader_epoch)
        target.produce_good()
    wait_until(
        "the ISR is all of AR",
        lambda: len(control.topics()[TOPIC].partitions[0].isr) == 3,
        30,
    )


def test_a_question_about_an_epoch_from_another_cluster_is_refused(
    target: Target, control: ControlPlane
) -> None:
    request = replica_pb2.EndOffsetForLeaderEpochRequest(cluster_id="another", replica_id=follower_of(target))
    answer = target.leader.send(f"{REPLICA}/EndOffsetForLeaderEpoch", request)
    assert (answer.is_typed_error, answer.reason) == (True, "INCONSISTENT_CLUSTER_ID"), answer


def test_metadata_of_the_true_controller_with_nonsense_brokers_is_refused_or_mended(
    target: Target, control: ControlPlane
) -> None:
    """A broker with port 0 or a negative id cannot be: nobody could ever reach it."""
    stamp = control.stamp_for(target.leader_id)
    request = control_pb2.UpdateMetadataRequest(
        stamp=stamp, brokers=[metadata_pb2.Endpoint(id=-1, host="", port=99_999)]
    )
    answer = target.leader.send(f"{CONTROL}/UpdateMetadata", request)
    assert (answer.is_typed_error, answer.reason) == (True, "INVALID_REQUEST"), answer


def test_every_broker_refuses_what_is_meant_for_another(
    hightide_cluster: LocalCluster, target: Target, control: ControlPlane
) -> None:
    other = follower_of(target)
    stamp = control.stamp_for(target.leader_id)
    with RawClient(hightide_cluster.brokers[other]) as client:
        for path, request in orders(target, stamp):
            assert codes_of(path, client.send(path, request)) == {"STALE_BROKER_EPOCH"}, path
