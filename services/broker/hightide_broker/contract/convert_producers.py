"""DescribeProducers between the contract's messages and the broker's own dataclasses."""

from __future__ import annotations

from collections.abc import Sequence

from hightide.v1 import broker_service_pb2 as broker_pb2

from hightide_broker.contract.data_calls import PartitionRefused, ProducersQuestion
from hightide_broker.storage import ProducerState


def producers_in(request: broker_pb2.DescribeProducersRequest) -> tuple[ProducersQuestion, ...]:
    """DescribeProducers."""
    return tuple(
        ProducersQuestion((each.topic_id, each.partition), each.leader_epoch) for each in request.partitions
    )


def producers_out(
    asked: Sequence[ProducersQuestion], answers: Sequence[list[ProducerState] | PartitionRefused]
) -> broker_pb2.DescribeProducersResponse:
    """The answer to DescribeProducers, in the order of the request."""
    response = broker_pb2.DescribeProducersResponse()
    for question, answer in zip(asked, answers, strict=True):
        result = response.partitions.add(topic_id=question.key[0], partition=question.key[1])
        if isinstance(answer, PartitionRefused):
            result.error_code = answer.code
            result.error_message = answer.message
            continue
        for producer in answer:
            result.producers.add(
                producer_id=producer.producer_id, producer_epoch=producer.producer_epoch,
                first_sequence=producer.first_sequence, first_offset=producer.first_offset,
                next_sequence=producer.next_sequence, end_offset=producer.end_offset,
            )  # fmt: skip
    return response
