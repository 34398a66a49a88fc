"""DeleteRecords between the contract's messages and the broker's own dataclasses."""

from __future__ import annotations

from collections.abc import Sequence

from hightide.v1 import broker_service_pb2 as broker_pb2

from hightide_broker.contract.data_calls import PartitionDeletion, PartitionRefused


def deletions_in(request: broker_pb2.DeleteRecordsRequest) -> tuple[PartitionDeletion, ...]:
    """DeleteRecords."""
    return tuple(
        PartitionDeletion((each.topic_id, each.partition), each.before_offset) for each in request.partitions
    )


def deletions_out(outcomes: Sequence[int | PartitionRefused]) -> broker_pb2.DeleteRecordsResponse:
    """The answer to DeleteRecords, in the order of the request."""
    response = broker_pb2.DeleteRecordsResponse()
    for outcome in outcomes:
        if isinstance(outcome, PartitionRefused):
            response.outcomes.add(error_code=outcome.code, error_message=outcome.message)
        else:
            response.outcomes.add(log_start_offset=outcome)
    return response
