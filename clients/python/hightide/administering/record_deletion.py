"""Deleting records at the beginning of partitions (KIP-107), at their leaders. Sans-IO."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from hightide.argument_checks import checked_partitions
from hightide.calls.call import Method
from hightide.cluster.operations import LeaderQuestion, LedPartition, Operation, Operations
from hightide.errors import HightideError, InvalidArgumentError
from hightide.records import TopicPartition
from hightide.v1.broker_service_pb2 import (
    DeleteRecordsOutcome,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)

ALL_COMMITTED: Final = -1
_INT64_MAX: Final = 2**63 - 1


class RecordDeletion(Operations):
    """The operation that deletes records."""

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, validate_only: bool
    ) -> Operation[dict[TopicPartition, int | HightideError]]:
        """Move the start of partitions up. Repeating it changes nothing: a log that already begins there or
        later stays as it is. If another topic gets the name meanwhile, it keeps its records."""
        partitions = checked_partitions(before)
        for each in partitions:
            if not ALL_COMMITTED <= before[each] <= _INT64_MAX:
                raise InvalidArgumentError(
                    f"{each}: {before[each]} is no offset; they run from 0, and -1 stands for all committed"
                )

        def request(asked: Sequence[LedPartition]) -> DeleteRecordsRequest:
            return DeleteRecordsRequest(
                partitions=[
                    DeleteRecordsPartition(
                        topic_id=each.topic_id,
                        partition=each.partition.partition,
                        before_offset=before[each.partition],
                    )
                    for each in asked
                ],
                validate_only=validate_only,
            )

        def start(outcome: DeleteRecordsOutcome) -> int:
            return outcome.log_start_offset

        question = LeaderQuestion(
            Method.DELETE_RECORDS, request, DeleteRecordsResponse, start, attrgetter("outcomes")
        )
        refused: dict[TopicPartition, HightideError] = {}
        starts = yield from self.at_leaders(partitions, question, refused=refused)
        return {each: starts[each] if each in starts else refused[each] for each in partitions}
