"""Where messages and dataclasses meet: nothing is lost on the way, and nothing unmapped."""

from __future__ import annotations

import pytest
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import metadata_pb2
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.metadata import (
    EndpointView,
    LeaderChange,
    MetadataCache,
    PartitionView,
    RemovedPartitions,
)
from hightide_broker.contract import convert, convert_control
from hightide_broker.contract.replica_calls import EpochAnswer, EpochQuestion, Follower, ReplicaFetchCall
from hightide_broker.contract.topic_answers import TopicAnswers
from hightide_broker.core.fetch_session import FollowerPosition, SessionRequest
from hightide_broker.core.lineage import EpochEnd
from hightide_broker.core.refusals import Refusal
from hightide_broker.data import partition_errors
from hightide_broker.replica.held_replicas import HostedReplicas
from hightide_runtime.errors import ServiceError
from hightide_runtime.znodes.recovered_log import RecoveredLog

TOPIC_ID = bytes(range(16))
FOLLOWER = Follower("the-cluster", 2, 77)


@pytest.mark.parametrize("refusal", Refusal)
def test_every_refusal_of_the_core_has_a_code_and_comes_back_as_itself(refusal: Refusal) -> None:
    code = convert.error_code_of(refusal)
    assert code != ErrorCode.ERROR_CODE_UNSPECIFIED
    assert convert.refusal_of(code) is refusal


def test_a_fetch_round_reads_as_it_was_written() -> None:
    session = SessionRequest(
        9,
        4,
        (((TOPIC_ID, 3), FollowerPosition(5, 100, 10, 8)), ((TOPIC_ID, 4), FollowerPosition(6, 0))),
        ((TOPIC_ID, 7),),
    )
    call = ReplicaFetchCall(FOLLOWER, session, 500, 1000)
    written = convert.replica_fetch_out(call)
    assert convert.replica_fetch_in(replica_pb2.ReplicaFetchRequest.FromString(written)) == call


def test_epoch_questions_and_answers_read_as_they_were_written() -> None:
    questions = (EpochQuestion((TOPIC_ID, 1), 8, 7),)
    written = convert.epoch_questions_out(FOLLOWER, questions)
    read = convert.epoch_questions_in(replica_pb2.EndOffsetForLeaderEpochRequest.FromString(written))
    assert read == (FOLLOWER, questions)
    answers = [EpochAnswer((TOPIC_ID, 1), ErrorCode.ERROR_CODE_UNSPECIFIED, EpochEnd(7, 42))]
    assert convert.epoch_answers_in(convert.epoch_answers_out(answers).SerializeToString()) == answers


def decision(
    topic: str = "flights",
    topic_id: bytes = TOPIC_ID,
    partition: int = 0,
    leader: int = 1,
    leader_epoch: int = 0,
    isr: tuple[int, ...] = (1, 2),
    replicas: tuple[int, ...] = (1, 2, 3),
    first_leader_epoch: int = 0,
    adding_replicas: tuple[int, ...] = (),
    eligible: tuple[int, ...] = (),
    recovered: tuple[tuple[int, int, int], ...] = (),
    unclean_epoch: int = 0,
) -> control_pb2.LeaderAndISRRequest:
    decided = control_pb2.LeaderAndISRPartition(
        partition=partition,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        replicas=replicas,
        first_leader_epoch=first_leader_epoch,
        adding_replicas=adding_replicas,
        eligible=eligible,
        recovered=[
            control_pb2.RecoveredLog(broker_id=broker_id, leader_epoch=epoch, log_end_offset=end)
            for broker_id, epoch, end in recovered
        ],
        unclean_epoch=unclean_epoch,
    )
    return control_pb2.LeaderAndISRRequest(
        topics=[control_pb2.LeaderAndISRTopic(topic=topic, topic_id=topic_id, partitions=[decided])]
    )


def twice(request: control_pb2.LeaderAndISRRequest) -> control_pb2.LeaderAndISRRequest:
    partitions = request.topics[0].partitions
    partitions.append(partitions[0])
    return request


@pytest.mark.parametrize(
    "request_",
    [
        decision(topic="../x"),
        decision(topic=""),
        decision(topic_id=b"short"),
        decision(partition=-1),
        decision(leader=-2),
        decision(leader_epoch=-1),
        decision(leader=4),
        decision(leader=3),
        decision(isr=()),
        decision(isr=(1, 4)),
        decision(isr=(1, 1)),
        decision(replicas=()),
        decision(replicas=(1, 2, 2)),
        decision(replicas=(-1, 1, 2)),
        decision(first_leader_epoch=-1),
        decision(leader_epoch=3, first_leader_epoch=4),
        decision(adding_replicas=(4,)),
        decision(eligible=(3, 3)),
        decision(eligible=(2,)),
        decision(recovered=((3, -2, 0),)),
        decision(recovered=((3, 0, -1),)),
        decision(recovered=((-3, 0, 1),)),
        decision(recovered=((3, 0, 1), (3, 0, 2))),
        decision(unclean_epoch=-1),
        decision(leader_epoch=3, unclean_epoch=4),
        twice(decision()),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused_as_a_whole(
    request_: control_pb2.LeaderAndISRRequest,
) -> None:
    with pytest.raises(ServiceError):
        convert_control.decisions_in(request_)


def test_a_decision_tells_how_the_partition_began_and_whom_a_move_adds() -> None:
    asked = decision(leader_epoch=5, first_leader_epoch=4, adding_replicas=(3,))
    (decided,) = convert_control.decisions_in(asked).topics[0].partitions
    assert (decided.first_leader_epoch, decided.adding_replicas, decided.is_first) == (4, (3,), False)


def test_a_decision_has_the_epoch_of_the_controller_that_sends_it() -> None:
    asked = decision()
    asked.stamp.controller_epoch = 9
    asked.topics[0].partitions[0].controller_epoch = 3
    (decided,) = convert_control.decisions_in(asked).topics[0].partitions
    assert decided.decision.controller_epoch == 9


def test_a_decision_tells_who_else_may_be_elected_and_whether_records_may_have_been_lost() -> None:
    asked = decision(leader_epoch=5, eligible=(3,), recovered=((2, -1, 0), (4, 3, 40)), unclean_epoch=5)
    (decided,) = convert_control.decisions_in(asked).topics[0].partitions
    assert (decided.decision.eligible, decided.decision.unclean_epoch) == ((3,), 5)
    assert decided.decision.recovered == (RecoveredLog(2, -1, 0), RecoveredLog(4, 3, 40))


def stops(*partitions: control_pb2.StopReplicaPartition) -> control_pb2.StopReplicaRequest:
    return control_pb2.StopReplicaRequest(partitions=partitions)


def stop(
    partition: int = 0, topic_id: bytes = TOPIC_ID, leader_epoch: int = 1, partition_epoch: int | None = None
) -> control_pb2.StopReplicaPartition:
    return control_pb2.StopReplicaPartition(
        topic="flights", topic_id=topic_id, partition=partition, leader_epoch=leader_epoch, delete=True,
        partition_epoch=partition_epoch,
    )  # fmt: skip


@pytest.mark.parametrize(
    "request_",
    [
        stops(stop(partition=-1)),
        stops(stop(topic_id=b"short")),
        stops(stop(leader_epoch=-2)),
        stops(stop(partition_epoch=-1)),
    ],
)
def test_a_stop_that_makes_no_sense_is_refused_as_a_whole(request_: control_pb2.StopReplicaRequest) -> None:
    with pytest.raises(ServiceError):
        convert_control.stops_in(request_)


def test_a_stop_of_what_is_gone_for_good_names_no_partition_epoch() -> None:
    gone, moved = convert_control.stops_in(stops(stop(0), stop(1, partition_epoch=0)))
    assert (gone.partition_epoch, moved.partition_epoch) == (None, 0)


def described(
    *partitions: int, topic: str = "flights", topic_id: bytes = TOPIC_ID, error_code: int = 0
) -> metadata_pb2.TopicMetadata:
    return metadata_pb2.TopicMetadata(
        topic=topic,
        topic_id=topic_id,
        error_code=ErrorCode.ValueType(error_code),
        partitions=[metadata_pb2.PartitionMetadata(partition=number) for number in partitions],
    )


@pytest.mark.parametrize(
    "update",
    [
        control_pb2.UpdateMetadataRequest(topics=[described(-1)]),
        control_pb2.UpdateMetadataRequest(topics=[described(0, 0)]),
        control_pb2.UpdateMetadataRequest(topics=[described(topic="../x")]),
        control_pb2.UpdateMetadataRequest(topics=[described(topic_id=b"short")]),
        control_pb2.UpdateMetadataRequest(topics=[described(error_code=ErrorCode.ERROR_CODE_UNKNOWN_TOPIC)]),
        control_pb2.UpdateMetadataRequest(
            topics=[described(0, 1, error_code=ErrorCode.ERROR_CODE_UNKNOWN_PARTITION)]
        ),
        control_pb2.UpdateMetadataRequest(deleted_topic_ids=[b"short"]),
        control_pb2.UpdateMetadataRequest(reassignment_throttle_bytes_per_s=-1),
    ],
)
def test_an_update_that_makes_no_sense_is_refused_as_a_whole(
    update: control_pb2.UpdateMetadataRequest,
) -> None:
    with pytest.raises(ServiceError):
        convert_control.metadata_update_in(update)


def test_an_update_tells_removed_partitions_from_others() -> None:
    update = convert_control.metadata_update_in(
        control_pb2.UpdateMetadataRequest(
            topics=[described(4, 5, error_code=ErrorCode.ERROR_CODE_UNKNOWN_PARTITION), described(0)],
            reassignment_throttle_bytes_per_s=7,
        )
    )
    assert update.removed == (RemovedPartitions(TOPIC_ID, (4, 5)),)
    assert [[view.partition for view in topic.partitions] for topic in update.topics] == [[0]]
    assert update.reassignment_throttle_bytes_per_s == 7


def test_a_partition_without_a_leader_keeps_its_isr() -> None:
    decided = convert_control.decisions_in(decision(leader=-1)).topics[0].partitions[0].decision
    assert (decided.leader, decided.isr) == (-1, (1, 2))


@pytest.mark.parametrize(
    "endpoint",
    [
        metadata_pb2.Endpoint(id=-1, host="h", port=1),
        metadata_pb2.Endpoint(id=1, host="", port=1),
        metadata_pb2.Endpoint(id=1, host="h", port=0),
        metadata_pb2.Endpoint(id=1, host="h", port=65_536),
        metadata_pb2.Endpoint(id=1, host="h", port=1, external_host="o"),
        metadata_pb2.Endpoint(id=1, host="h", port=1, external_port=1),
        metadata_pb2.Endpoint(id=1, host="h", port=1, external_host="o", external_port=65_536),
    ],
)
def test_a_process_that_nobody_could_reach_is_refused(endpoint: metadata_pb2.Endpoint) -> None:
    with pytest.raises(ServiceError, match="can be reached"):
        convert_control.metadata_update_in(control_pb2.UpdateMetadataRequest(brokers=[endpoint]))


def test_an_answer_about_topics_cannot_be_made_larger_than_the_cluster() -> None:
    names = [str(number) for number in range(10_001)]
    with pytest.raises(ServiceError, match="10001 topics"):
        convert.metadata_names_in(broker_pb2.GetMetadataRequest(topics=names))


def test_metadata_comes_out_as_it_went_in_and_unknown_names_are_marked() -> None:
    update = control_pb2.UpdateMetadataRequest(
        stamp=control_pb2.ControllerStamp(controller_epoch=3),
        brokers=[metadata_pb2.Endpoint(id=1, host="h", port=2)],
        controller=metadata_pb2.Endpoint(id=7, host="c", port=3),
        topics=[
            metadata_pb2.TopicMetadata(
                topic="flights",
                topic_id=TOPIC_ID,
                configs={"flush": "fsync"},
                partitions=[
                    metadata_pb2.PartitionMetadata(
                        partition=0, leader=1, leader_epoch=2, replicas=[1, 2], isr=[1], partition_epoch=5
                    )
                ],
            )
        ],
        full=True,
    )
    cache = MetadataCache("the-cluster")
    cache.apply(convert_control.metadata_update_in(update))
    response = convert.metadata_out(TopicAnswers(cache), ["nope", "flights"], everything=False)
    assert response.cluster_id == "the-cluster"
    assert response.controller_epoch == 3
    assert list(response.brokers) == list(update.brokers)
    assert response.controller == update.controller
    assert response.topics[0].error_code == ErrorCode.ERROR_CODE_UNKNOWN_TOPIC
    assert response.topics[1] == update.topics[0]


def test_a_broker_that_has_heard_of_no_controller_does_not_say_that_a_topic_is_unknown() -> None:
    """Clients would take it for deleted after a few seconds, and fail what they are to write."""
    cache = MetadataCache("the-cluster")
    assert not convert.metadata_out(TopicAnswers(cache), [], everything=False).topics
    with pytest.raises(ServiceError, match="no controller since it started") as raised:
        convert.metadata_out(TopicAnswers(cache), ["flights"], everything=False)
    assert raised.value.code == ErrorCode.ERROR_CODE_OVERLOADED
    refusal = partition_errors.not_hosted(1, cache, (TOPIC_ID, 0))
    assert (refusal.code, refusal.current_leader) == (ErrorCode.ERROR_CODE_NOT_LEADER, -1)
    with pytest.raises(ServiceError, match="no controller since it started"):
        partition_errors.find_by_name(1, cache, HostedReplicas(), "flights", 0)
    # A decision names one topic, and not which there are.
    cache.note_decisions("flights", TOPIC_ID, [PartitionView(0, 1, 2, (1, 2), (1,), 5)])
    (topic,) = convert.metadata_out(TopicAnswers(cache), ["flights"], everything=False).topics
    assert topic.partitions[0].leader == 1


def test_clients_are_told_the_trace_of_a_leader_change_until_it_is_forgotten() -> None:
    change = LeaderChange("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    cache = MetadataCache("the-cluster")
    decided = PartitionView(0, 1, 2, (1, 2), (1,), 5)
    cache.note_decisions("flights", TOPIC_ID, [decided], change)
    (topic,) = convert.metadata_out(TopicAnswers(cache), ["flights"], everything=False).topics
    assert topic.partitions[0].traceparent == change.traceparent
    change.traceparent = ""
    (topic,) = convert.metadata_out(TopicAnswers(cache), ["flights"], everything=False).topics
    assert topic.partitions[0].traceparent == ""


def test_metadata_tells_the_coordinator_of_each_shard_in_order_and_a_gap_where_there_is_none() -> None:
    cache = MetadataCache("the-cluster")
    assert not convert.metadata_out(TopicAnswers(cache), [], everything=True).coordinators
    cache.coordinators = (None, EndpointView(2, "h", 3))
    told = convert.metadata_out(TopicAnswers(cache), [], everything=True).coordinators
    assert list(told) == [metadata_pb2.Endpoint(), metadata_pb2.Endpoint(id=2, host="h", port=3)]
