"""Requests that take several calls: find the leader or the controller, ask it, ask again. Sans-IO.

Each is a generator that yields a `Call` or a `Pause`; its driver sends the call's decoded answer or throws
its HightideError. `hightide.transport.running` drives one by threads, `hightide.aio.running` by asyncio.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message

from hightide.calls.call import Call, MessageCall, Method
from hightide.cluster.leaders_seen import LeadersSeen
from hightide.cluster.metadata import (
    METADATA_TIMEOUT_MS,
    RETRY_PAUSE_MS,
    UNKNOWN_TOPIC_PATIENCE_MS,
    ClusterMetadata,
    brokers_unavailable,
    final_refusal,
)
from hightide.cluster.offset_at import OffsetAt
from hightide.errors import (
    BrokersUnavailableError,
    ControllerUnavailableError,
    HightideError,
    NotControllerError,
    OverloadedError,
    PartitionOfflineError,
    QuotaExceededError,
    RequestTimeoutError,
    TopicBeingDeletedError,
    TopicRecreatedError,
    UnexpectedAnswerError,
    UnknownPartitionError,
    UnknownTopicError,
    from_code,
)
from hightide.records import TopicPartition
from hightide.v1 import errors_pb2
from hightide.v1.broker_service_pb2 import (
    GetMetadataRequest,
    GetMetadataResponse,
    ListOffsetsPartitionResult,
    ListOffsetsRequest,
    ListOffsetsResponse,
)

T = TypeVar("T")
MessageT = TypeVar("MessageT", bound=Message)

# The number of partitions that brokers accept in one request that looks into logs (broker_service.proto).
PARTITIONS_PER_QUESTION_MAX: Final = 1_000

# Requests that change nothing need not wait long: a controller that does not answer may have been replaced.
_QUESTIONS: Final = frozenset(
    {
        *(Method.DESCRIBE_TOPICS, Method.DESCRIBE_CLUSTER, Method.LIST_REASSIGNMENTS),
        Method.DESCRIBE_QUOTAS,
    }
)
_QUESTION_TIMEOUT_MS: Final = 3 * METADATA_TIMEOUT_MS

# Errors after which an order may be repeated, and which prove that it was not carried out.
_REFUSALS: Final = (OverloadedError, QuotaExceededError, TopicBeingDeletedError)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of this length."""

    pause_ms: float


Operation = Generator[Call[Any] | Pause, Any, T]


class Operations:
    """The operations of one client. `clock` gives milliseconds; `budget_ms` is the time that each operation
    may take; `seen` is the client's. One instance serves one operation: it is not thread-safe."""

    def __init__(
        self,
        bootstrap: tuple[str, ...],
        budget_ms: float,
        clock: Callable[[], float],
        seen: LeadersSeen | None = None,
    ) -> None:
        self.cluster = ClusterMetadata(bootstrap, seen)
        self.is_uncertain = False
        self._asked_last: str | None = None
        self._has_an_answer = False
        self._budget_ms = budget_ms
        self._clock = clock
        self._end_ms = clock() + budget_ms

    def _left_ms(self, limit_ms: float) -> int:
        return max(1, int(min(limit_ms, self._end_ms - self._clock())))

    def _is_over(self) -> bool:
        return self._clock() >= self._end_ms

    def metadata(
        self, topics: Iterable[str] = (), *, all_topics: bool = False
    ) -> Operation[GetMetadataResponse]:
        """Ask one broker after the other. Raises BrokersUnavailableError, of which TlsRefusedError is one."""
        request = GetMetadataRequest(topics=list(topics), all_topics=all_topics)
        failures: dict[str, HightideError] = {}
        while True:
            for address in self._addresses():
                self._asked_last = address
                timeout_ms = self._left_ms(2 * METADATA_TIMEOUT_MS)
                call = MessageCall(address, Method.GET_METADATA, timeout_ms, request, GetMetadataResponse)
                try:
                    answer: GetMetadataResponse = yield call
                except HightideError as error:
                    # A call that had only the rest of the budget says nothing about the address.
                    is_cut_short = isinstance(error, RequestTimeoutError) and self._is_over()
                    if not (is_cut_short and address in failures):
                        failures[address] = error
                    continue
                self._has_an_answer = True
                if not all_topics:
                    # The caller gets all topics; the cache keeps those asked for by name.
                    self.cluster.update(answer, address)
                return answer
            refusal = final_refusal(self.cluster, failures)
            if refusal is not None:
                raise refusal
            if self._is_over():
                raise brokers_unavailable(self.cluster, failures, self._budget_ms)
            yield Pause(RETRY_PAUSE_MS)

    def refresh(self) -> Operation[None]:
        """Ask brokers who is in charge now. If none answers in what is left of the budget, what a broker has
        told this operation before holds. Raises BrokersUnavailableError if none ever answered."""
        try:
            yield from self.metadata()
        except BrokersUnavailableError:
            if not self._has_an_answer:
                raise

    def _addresses(self) -> list[str]:
        """Every address, beginning after the one asked last, since that one may be behind for as long as it
        is cut off."""
        every = list(dict.fromkeys((*self.cluster.brokers.values(), *self.cluster.bootstrap)))
        at = every.index(self._asked_last) + 1 if self._asked_last in every else 0
        return every[at:] + every[:at]

    def partitions_for(self, topic: str) -> Operation[tuple[TopicPartition, ...]]:
        """All partitions of a topic. Raises UnknownTopicError."""
        give_up_ms = min(self._end_ms, self._clock() + UNKNOWN_TOPIC_PATIENCE_MS)
        while True:
            asked_at_ms = self._clock()
            yield from self.metadata([topic])
            described = self.cluster.topics.get(topic)
            if described is not None and described.partitions:
                return tuple(TopicPartition(topic, each.partition) for each in described.partitions)
            # An error to an earlier request says nothing, however long its answer waited here.
            if asked_at_ms >= give_up_ms or self._is_over():
                raise UnknownTopicError(f"topic {topic} does not exist")
            yield Pause(RETRY_PAUSE_MS)

    def order(
        self,
        method: Method,
        request: Message,
        answer_type: type[MessageT],
        *,
        settled: Callable[[], Operation[MessageT | None]] | None = None,
    ) -> Operation[MessageT]:
        """Ask the active controller. Raises its typed refusal, or ControllerUnavailableError. Afterwards
        `is_uncertain` tells whether an attempt before the last one may have been carried out.

        `settled` is for orders that must not be repeated blindly. It is run after an attempt whose outcome is
        unknown, and after a later one is refused. If it returns anything but None, that is the answer.
        """
        last: HightideError | None = None
        is_redirected = False
        self.is_uncertain = is_uncertain = False
        while True:
            address = self.cluster.controller_address
            if address is None or (last is not None and not is_redirected):
                yield from self.refresh()
                address = self.cluster.controller_address
            if is_uncertain and settled is not None:
                found = yield from settled()
                self.is_uncertain = True
                if found is not None:
                    return found
                address = self.cluster.controller_address
            if address is not None:
                limit_ms = _QUESTION_TIMEOUT_MS if method in _QUESTIONS else self._budget_ms
                call = MessageCall(address, method, self._left_ms(limit_ms), request, answer_type)
                try:
                    answer: MessageT = yield call
                except HightideError as error:
                    if is_uncertain and settled is not None and not error.retriable:
                        # This attempt may be refused because of what an earlier attempt has done by now.
                        found = yield from settled()
                        self.is_uncertain = True
                        if found is not None:
                            return found
                    last = self._after(error, address)
                    is_uncertain = self.is_uncertain
                else:
                    return answer
            if self._is_over():
                raise ControllerUnavailableError(
                    f"no active controller answered within {self._budget_ms / 1000:g} s; "
                    + (f"the last answer was: {last}" if last is not None else "the brokers know of none"),
                    address=address,
                )
            # A process that is not the controller names it, and is believed at once; but two may name each
            # other.
            is_named = isinstance(last, NotControllerError) and self.cluster.controller_address is not None
            is_redirected = is_named and not is_redirected
            if not is_redirected:
                told_ms = last.throttle_time_ms if isinstance(last, QuotaExceededError) else 0
                yield Pause(max(RETRY_PAUSE_MS, told_ms))

    def _after(self, error: HightideError, address: str) -> HightideError:
        """Return an error after which the request may be repeated; raise any other."""
        if isinstance(error, NotControllerError):
            if error.metadata.get("may_have_begun"):
                self.is_uncertain = True  # It resigned while it was at it.
            named = error.metadata.get("controller_address")
            self.cluster.controller_address = named if named and ":" in named and named != address else None
            return error
        if not error.retriable or self._is_over():
            raise error
        if isinstance(error, QuotaExceededError) and self._clock() + error.throttle_time_ms >= self._end_ms:
            raise error
        if not isinstance(error, _REFUSALS):
            self.is_uncertain = True
        self.cluster.controller_address = None
        return error

    def list_offsets(
        self, wanted: Mapping[TopicPartition, OffsetAt]
    ) -> Operation[dict[TopicPartition, int | None]]:
        """Look up offsets at the leaders. Errors as of `at_leaders`."""

        def request(asked: Sequence[LedPartition]) -> ListOffsetsRequest:
            return ListOffsetsRequest(
                partitions=[
                    wanted[each.partition].for_partition(
                        each.topic_id, each.partition.partition, each.leader_epoch
                    )
                    for each in asked
                ]
            )

        def offset(result: ListOffsetsPartitionResult) -> int | None:
            return None if result.offset < 0 else result.offset

        question = LeaderQuestion(Method.LIST_OFFSETS, request, ListOffsetsResponse, offset)
        return (yield from self.at_leaders(wanted, question))

    def at_leaders(
        self,
        partitions: Iterable[TopicPartition],
        question: "LeaderQuestion[T]",
        *,
        refused: dict[TopicPartition, HightideError] | None = None,
    ) -> Operation[dict[TopicPartition, T]]:
        """Ask the leader of each partition. Raises UnknownTopicError, UnknownPartitionError, and the last
        error when the budget is over.

        `refused` is for orders in which each partition has its own outcome: it receives the errors that would
        otherwise be raised once leaders are asked. An order never goes to another topic that has got the name
        meanwhile.
        """
        wanted = list(dict.fromkeys(partitions))
        found: dict[TopicPartition, T] = {}
        topics = sorted({partition.topic for partition in wanted})
        if topics:
            yield from self._look_up(wanted, topics)
        topic_ids = {topic: self.cluster.topics[topic].topic_id for topic in topics}
        waiting = wanted
        while True:
            failed = yield from self._ask_leaders(waiting, question, found, refused)
            waiting = [each for each in wanted if each not in found and each not in (refused or {})]
            if waiting and self._is_over():
                if refused is None:
                    raise next(reversed(failed.values()))
                refused.update(failed)
                waiting = []
            if not waiting:
                return {partition: found[partition] for partition in wanted if partition in found}
            yield Pause(RETRY_PAUSE_MS)
            yield from self.metadata(topics)
            if refused is not None:
                refused.update(self._recreated(waiting, topic_ids))
                waiting = [each for each in waiting if each not in refused]

    def _look_up(self, wanted: Iterable[TopicPartition], topics: Sequence[str]) -> Operation[None]:
        """Ask for metadata until all of these partitions are known, since a topic may have got them a moment
        ago. Raises UnknownTopicError, UnknownPartitionError."""
        give_up_ms = min(self._end_ms, self._clock() + UNKNOWN_TOPIC_PATIENCE_MS)
        while True:
            asked_at_ms = self._clock()
            yield from self.metadata(topics)
            known: dict[str, set[int]] = {}
            for topic in topics:
                described = self.cluster.topics.get(topic)
                if described is None or not described.partitions:
                    yield from self.partitions_for(topic)
                known[topic] = {each.partition for each in self.cluster.topics[topic].partitions}
            unknown = next((each for each in wanted if each.partition not in known[each.topic]), None)
            if unknown is None:
                return
            if asked_at_ms >= give_up_ms or self._is_over():
                raise UnknownPartitionError(
                    f"topic {unknown.topic} has the partitions 0 to {len(known[unknown.topic]) - 1}, "
                    f"not {unknown.partition}"
                )
            yield Pause(RETRY_PAUSE_MS)

    def _recreated(
        self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, bytes]
    ) -> dict[TopicPartition, HightideError]:
        """The partitions whose name belongs to another topic by now."""
        return {
            each: TopicRecreatedError(
                f"topic {each.topic} was deleted meanwhile, and another one of this name was created",
                topic=each.topic,
                partition=each.partition,
            )
            for each in partitions
            if self.cluster.topics[each.topic].topic_id != topic_ids[each.topic]
        }

    def _ask_leaders(
        self,
        wanted: Iterable[TopicPartition],
        question: "LeaderQuestion[T]",
        found: dict[TopicPartition, T],
        refused: dict[TopicPartition, HightideError] | None,
    ) -> Operation[dict[TopicPartition, HightideError]]:
        """Ask all leaders once. Returns the errors that may pass; those that may not are put into `refused`,
        or raised."""
        failed: dict[TopicPartition, HightideError] = {}
        by_leader: dict[str, list[LedPartition]] = {}
        for partition in wanted:
            leader = self.cluster.leader_of(partition.topic, partition.partition)
            if leader is None:
                failed[partition] = PartitionOfflineError(
                    "the partition has no leader", topic=partition.topic, partition=partition.partition
                )
            else:
                topic_id = self.cluster.topics[partition.topic].topic_id
                led = LedPartition(partition, topic_id, leader.leader_epoch)
                by_leader.setdefault(leader.address, []).append(led)
        for address, all_led in by_leader.items():
            for at in range(0, len(all_led), PARTITIONS_PER_QUESTION_MAX):
                asked = all_led[at : at + PARTITIONS_PER_QUESTION_MAX]
                timeout_ms = self._left_ms(5 * METADATA_TIMEOUT_MS)
                request, answer_type = question.request(asked), question.answer_type
                call = MessageCall(address, question.method, timeout_ms, request, answer_type)
                try:
                    answer = yield call
                except HightideError as error:
                    if error.retriable:
                        failed.update((each.partition, error) for each in asked)
                    elif refused is None:
                        raise
                    else:
                        refused.update((each.partition, error) for each in asked)
                    continue
                failed.update(_sort_answers(address, asked, answer, question, found, refused))
        return failed


@dataclass(frozen=True, slots=True)
class LedPartition:
    """A partition in a request to its leader: its topic's id, and the known leader epoch."""

    partition: TopicPartition
    topic_id: bytes
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class LeaderQuestion(Generic[T]):
    """A request that the leader of each partition answers. It makes the request for the partitions of one
    broker, and reads the result of one partition. The answer has one result for each, in order, with an error
    code; `results` finds them in it."""

    method: Method
    request: Callable[[Sequence[LedPartition]], Message]
    answer_type: type[Message]
    read: Callable[[Any], T]
    results: Callable[[Any], Sequence[Any]] = attrgetter("partitions")


def _sort_answers(
    address: str,
    asked: Sequence[LedPartition],
    answer: Any,
    question: LeaderQuestion[T],
    found: dict[TopicPartition, T],
    refused: dict[TopicPartition, HightideError] | None,
) -> dict[TopicPartition, HightideError]:
    """Keep the results. Returns the errors that may pass; those that may not are put into `refused`, or
    raised."""
    failed: dict[TopicPartition, HightideError] = {}
    results = question.results(answer)
    if len(results) != len(asked):
        message = f"{address} answered {len(results)} results to a question about {len(asked)} partitions"
        raise UnexpectedAnswerError(message, address=address)
    for led, result in zip(asked, results, strict=True):
        if result.error_code == errors_pb2.ERROR_CODE_UNSPECIFIED:
            found[led.partition] = question.read(result)
            continue
        error = from_code(
            result.error_code,
            result.error_message,
            topic=led.partition.topic,
            partition=led.partition.partition,
            address=address,
        )
        if error.retriable or error.refresh_metadata:
            failed[led.partition] = error
        elif refused is None:
            raise error
        else:
            refused[led.partition] = error
    return failed
