"""The requests of an admin client about the places of partitions and their leaders. Sans-IO.

Every order here names the wanted end state, not a change, so that repeating it changes nothing. If a
repetition fails only because the first attempt has done the work, that counts as success.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from hightide.administering import answers as answers
from hightide.argument_checks import checked_partitions, checked_replicas, checked_throttle, pieces
from hightide.calls.call import Method
from hightide.cluster.operations import Operation, Operations
from hightide.errors import (
    ElectionNotNeededError,
    InvalidArgumentError,
    NoReassignmentError,
    UnknownTopicError,
)
from hightide.records import (
    Election,
    PartitionOutcome,
    Reassignment,
    ReassignmentListing,
    TopicPartition,
)
from hightide.v1.controller_service_pb2 import (
    AlterReassignmentThrottleRequest,
    AlterReassignmentThrottleResponse,
    CancelReassignmentsRequest,
    CancelReassignmentsResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    ElectionKind,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListReassignmentsRequest,
    ListReassignmentsResponse,
    PartitionMove,
    ReassignPartitionsRequest,
    ReassignPartitionsResponse,
)

ElectionKindName = Literal["preferred", "unclean"]

_KINDS: Final[Mapping[str, ElectionKind.ValueType]] = {
    "preferred": ElectionKind.ELECTION_KIND_PREFERRED,
    "unclean": ElectionKind.ELECTION_KIND_UNCLEAN,
}


class ReassignmentOperations(Operations):
    """Moves, their speed limit, and elections."""

    def reassign_partitions(
        self,
        moves: Mapping[TopicPartition, Sequence[int]],
        *,
        throttle_bytes_per_s: int | None,
        validate_only: bool,
    ) -> Operation[list[PartitionOutcome]]:
        """Begin moves, each accepted or refused on its own. If an attempt got no answer and a partition
        already has the wanted replicas, that attempt moved it, and this is no error. If a later piece of many
        fails, the earlier pieces hold: giving the same moves again is safe."""
        checked_partitions(moves)
        messages = [
            PartitionMove(
                partition=answers.partition_name(partition),
                replicas=checked_replicas(replicas, str(partition)),
            )
            for partition, replicas in moves.items()
        ]
        throttle = None if throttle_bytes_per_s is None else checked_throttle(throttle_bytes_per_s)
        if throttle is not None and not validate_only and (throttle == 0 or not messages):
            # In the request of moves itself, 0 stands for "as it is".
            yield from self.set_reassignment_throttle(throttle)
        outcomes: list[PartitionOutcome] = []
        for piece in pieces(messages):
            request = ReassignPartitionsRequest(
                moves=piece, throttle_bytes_per_s=throttle or 0, validate_only=validate_only
            )
            answer = yield from self.order(Method.REASSIGN_PARTITIONS, request, ReassignPartitionsResponse)
            found = [answers.outcome(result) for result in answer.results]
            if self.is_uncertain:
                found = yield from self._settled_moves(moves, found)
            outcomes.extend(found)
        return outcomes

    def _settled_moves(
        self, moves: Mapping[TopicPartition, Sequence[int]], outcomes: list[PartitionOutcome]
    ) -> Operation[list[PartitionOutcome]]:
        """Drop the error of a partition that an attempt without an answer has already moved: it has the
        wanted replicas, and stays."""
        refused = [each.partition for each in outcomes if not each.ok]
        if not refused:
            return outcomes
        places = yield from self._places(refused)
        moving = {each.partition for each in (yield from self.list_reassignments(refused)).reassignments}
        return [
            PartitionOutcome(each.partition)
            if places.get(each.partition) == tuple(moves[each.partition]) and each.partition not in moving
            else each
            for each in outcomes
        ]

    def cancel_reassignments(
        self, partitions: Iterable[TopicPartition] | None, *, validate_only: bool
    ) -> Operation[list[PartitionOutcome]]:
        """Cancel moves; None: all. If an attempt got no answer and a partition is no longer being moved, the
        move was cancelled if the partition is where it was before; otherwise it was completed first. For all
        moves, a repetition returns only those that it cancelled itself."""
        if partitions is None:
            return (yield from self._cancel((), validate_only))
        named = checked_partitions(partitions)
        if not named:
            return []
        before = {each.partition: each for each in (yield from self.list_reassignments(named)).reassignments}
        outcomes: list[PartitionOutcome] = []
        for piece in pieces(named):
            found = yield from self._cancel(piece, validate_only)
            if self.is_uncertain:
                found = yield from self._settled_cancellations(before, found)
            outcomes.extend(found)
        return outcomes

    def _cancel(
        self, partitions: Sequence[TopicPartition], validate_only: bool
    ) -> Operation[list[PartitionOutcome]]:
        request = CancelReassignmentsRequest(
            partitions=[answers.partition_name(each) for each in partitions], validate_only=validate_only
        )
        answer = yield from self.order(Method.CANCEL_REASSIGNMENTS, request, CancelReassignmentsResponse)
        return [answers.outcome(result) for result in answer.results]

    def _settled_cancellations(
        self, before: Mapping[TopicPartition, Reassignment], outcomes: list[PartitionOutcome]
    ) -> Operation[list[PartitionOutcome]]:
        open_ones = [
            each.partition
            for each in outcomes
            if isinstance(each.error, NoReassignmentError) and each.partition in before
        ]
        if not open_ones:
            return outcomes
        places = yield from self._places(open_ones)
        cancelled = {each for each in open_ones if places.get(each) == before[each].original}
        return [
            PartitionOutcome(each.partition) if each.partition in cancelled else each for each in outcomes
        ]

    def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> Operation[ReassignmentListing]:
        """The moves that are not finished, of these partitions or (None) of all."""
        named = None if partitions is None else checked_partitions(partitions)
        found: list[Reassignment] = []
        throttle = 0
        for piece in pieces(named) if named else ((),):
            request = ListReassignmentsRequest(partitions=[answers.partition_name(each) for each in piece])
            answer = yield from self.order(Method.LIST_REASSIGNMENTS, request, ListReassignmentsResponse)
            if named is None or named:
                found.extend(answers.reassignment(each) for each in answer.reassignments)
            throttle = answer.throttle_bytes_per_s
        return ReassignmentListing(tuple(sorted(found, key=lambda each: each.partition)), throttle)

    def set_reassignment_throttle(self, bytes_per_s: int) -> Operation[None]:
        """Change the speed limit of moves; 0 means none. Repeating it changes nothing."""
        yield from self.order(
            Method.ALTER_REASSIGNMENT_THROTTLE,
            AlterReassignmentThrottleRequest(throttle_bytes_per_s=checked_throttle(bytes_per_s)),
            AlterReassignmentThrottleResponse,
        )

    def elect_leaders(
        self,
        kind: ElectionKindName,
        partitions: Iterable[TopicPartition] | None,
        *,
        validate_only: bool,
    ) -> Operation[list[Election]]:
        """Elect leaders at an operator's request. Electing the broker that already leads is no error, so a
        preferred election may be repeated. If an attempt at an unclean election got no answer and the
        partition has a leader now, the order counts as done; whether that attempt lost records is only in the
        controller's log."""
        if kind not in _KINDS:
            raise InvalidArgumentError(f'kind is {kind!r}; it is "preferred" or "unclean"')
        if partitions is None and kind == "unclean":
            raise InvalidArgumentError("an unclean election loses records: name each partition")
        named = None if partitions is None else checked_partitions(partitions)
        if named is not None and not named:
            return []
        elections: list[Election] = []
        for piece in pieces(named) if named is not None else ((),):
            request = ElectLeadersRequest(
                kind=_KINDS[kind],
                partitions=[answers.partition_name(each) for each in piece],
                validate_only=validate_only,
            )
            answer = yield from self.order(Method.ELECT_LEADERS, request, ElectLeadersResponse)
            found = [answers.election(each) for each in answer.elections]
            elections.extend(map(_forgiven, found) if self.is_uncertain else found)
        return elections

    def _places(
        self, partitions: Iterable[TopicPartition]
    ) -> Operation[dict[TopicPartition, tuple[int, ...]]]:
        """AR of these partitions, if they exist."""
        names = sorted({each.topic for each in partitions})
        answer = yield from self.order(
            Method.DESCRIBE_TOPICS, DescribeTopicsRequest(topics=names), DescribeTopicsResponse
        )
        places: dict[TopicPartition, tuple[int, ...]] = {}
        for topic in answer.topics:
            try:
                known = answers.described(topic)
            except UnknownTopicError:
                continue
            places.update((TopicPartition(known.name, at.partition), at.replicas) for at in known.partitions)
        return places


def _forgiven(election: Election) -> Election:
    if not isinstance(election.error, ElectionNotNeededError):
        return election
    message = (
        f"broker {election.leader} leads; an attempt whose answer was lost may have elected it, and the "
        "controller's log tells what that lost"
    )
    return replace(election, error=None, message=message)
