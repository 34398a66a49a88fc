"""Where the controller's dataclasses and protobuf messages meet."""

from __future__ import annotations

from contextvars import copy_context

import pytest
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_controller.contract import convert
from hightide_controller.contract.convert_requests import delete_topic_in, remove_partitions_in
from hightide_controller.core import events as ev
from hightide_controller.core.effects import Refusal, RefuseRequest
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.listeners import CURRENT, Listener
from hightide_runtime.znodes.cluster_znodes import ControllerZnode
from unit.controller.controller_world import FLIGHTS, TOPIC_ID, World, broker, topic

IDENTITY = convert.Identity("the-cluster", 7, "127.0.0.1", 9192)


def test_every_refusal_has_an_error_code() -> None:
    assert set(convert.ERROR_CODES) == set(Refusal)
    error = convert.error_of(RefuseRequest(1, Refusal.INVALID_CONFIG, "why"))
    assert (error.code, error.message) == (ErrorCode.ERROR_CODE_INVALID_CONFIG, "why")


def test_who_is_not_the_controller_names_its_address_as_the_caller_reaches_it() -> None:
    active = ControllerZnode(8, "inside", 9192, 5, "outside", 19192)
    told = convert.not_controller(active).metadata
    assert (told["controller_id"], told["controller_address"]) == ("8", "inside:9192")

    def from_outside() -> str:
        CURRENT.set(Listener.EXTERNAL)
        return convert.not_controller(active).metadata["controller_address"]

    assert copy_context().run(from_outside) == "outside:19192"
    assert "controller_address" not in convert.not_controller(None).metadata


def test_create_topic_is_taken_over_field_by_field() -> None:
    request = controller_pb2.CreateTopicRequest(
        topic="flights",
        assignment=[controller_pb2.ReplicaAssignment(replicas=[2, 1])],
        configs={"flush": "fsync"},
        validate_only=True,
    )
    assert convert.create_topic_in(request, 5, TOPIC_ID) == ev.CreateTopicRequested(
        5, "flights", TOPIC_ID, 0, 0, ((2, 1),), {"flush": "fsync"}, validate_only=True
    )


def test_a_topic_id_of_a_request_is_sixteen_bytes_or_none() -> None:
    by_id = controller_pb2.DeleteTopicRequest(topic="flights", topic_id=bytes.fromhex(TOPIC_ID))
    assert delete_topic_in(by_id, 5) == rq.DeleteTopicRequested(5, "flights", topic_id=TOPIC_ID)
    by_name = controller_pb2.RemovePartitionsRequest(topic="flights", partition_count=2)
    assert remove_partitions_in(by_name, 5) == rq.RemovePartitionsRequested(5, "flights", 2)
    with pytest.raises(ServiceError, match="this one has 3") as refused:
        remove_partitions_in(controller_pb2.RemovePartitionsRequest(topic="flights", topic_id=b"abc"), 5)
    assert refused.value.code == ErrorCode.ERROR_CODE_INVALID_REQUEST


def test_leader_and_isr_carries_the_stamp_the_settings_and_where_leaders_are() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2), (2, 1), flush="fsync"),))
    request = convert.leader_and_isr_out(world.state, IDENTITY, 101, world.decisions_told_to(1))
    assert (request.stamp.cluster_id, request.stamp.controller_id) == ("the-cluster", 7)
    assert (request.stamp.controller_epoch, request.stamp.broker_epoch) == (1, 101)
    (sent,) = request.topics
    assert (sent.topic, sent.topic_id.hex(), dict(sent.configs)) == ("flights", TOPIC_ID, {"flush": "fsync"})
    assert [(p.partition, p.leader, list(p.isr)) for p in sent.partitions] == [(0, 1, [1, 2]), (1, 2, [2, 1])]
    assert {endpoint.id for endpoint in request.leaders} == {1, 2}


def test_metadata_tells_the_present_and_forgets_what_is_gone() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.registered(broker(2))
    world.settle()
    names = [FLIGHTS, TopicPartition("deleted", 0)]
    delta = convert.update_metadata_out(world.state, IDENTITY, 102, names, ["ff" * 16])
    assert [(t.topic, t.partitions[0].leader) for t in delta.topics] == [("flights", 2)]
    assert [endpoint.id for endpoint in delta.brokers] == [2]
    assert delta.deleted_topic_ids == [b"\xff" * 16]
    assert not delta.full
    assert delta.controller.port == 9192
    assert convert.update_metadata_out(world.state, IDENTITY, 102, None, ()).full


def test_a_partition_that_never_had_a_leader_is_told_as_such() -> None:
    described = convert.topic_metadata_out(topic((8, 9)), {0: None})
    (partition,) = described.partitions
    assert (partition.leader, partition.leader_epoch, list(partition.replicas)) == (-1, -1, [8, 9])
