"""DeleteRecords between the contract's messages and the broker's own dataclasses."""

from __future__ import annotations

from collections.abc import Sequence

from hightide.v1 import broker_service_pb2 as broker_pb2

from hightide_broker.contract.data_calls import Deletion, Refused


def deletions_in(request: broker_pb2.DeleteRecordsRequest) -> tuple[Deletion, ...]:
    """DeleteRecords."""
    return tuple(Deletion((each.topic_id, each.partition), each.before_offset) for each in request.partitions)


def deletions_out(outcomes: Sequence[int | Refused]) -> broker_pb2.DeleteRecordsResponse:
    """The answer to DeleteRecords, in the order of the request."""
    response = broker_pb2.DeleteRecordsResponse()
    for outcome in outcomes:
        if isinstance(outcome, Refused):
            response.outcomes.add(error_code=outcome.code, error_message=outcome.message)
        else:
            response.outcomes.add(log_start_offset=outcome)
    return response
