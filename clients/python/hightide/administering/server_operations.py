"""The requests of an admin client to the servers themselves: their content, their identity, and to step
aside. Sans-IO."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from google.protobuf.message import Message

from hightide.administering.answers import log_directory, replica_description, server_description
from hightide.argument_checks import checked_shards
from hightide.calls.addresses import bootstrap_addresses
from hightide.calls.call import MessageCall, Method
from hightide.cluster.metadata import METADATA_TIMEOUT_MS, RETRY_PAUSE_MS
from hightide.cluster.operations import Operation, Operations, Pause
from hightide.errors import (
    HightideError,
    InvalidArgumentError,
    RequestTimeoutError,
    StaleControllerEpochError,
    UnknownBrokerError,
)
from hightide.records import ReplicaDescription, ReplicaListing
from hightide.servers import LogDirectory, ResignedController, ServerDescription
from hightide.v1.broker_service_pb2 import DescribeReplicasRequest, DescribeReplicasResponse
from hightide.v1.controller_service_pb2 import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    ResignControllerRequest,
    ResignControllerResponse,
)
from hightide.v1.coordinator_service_pb2 import ResignCoordinatorRequest, ResignCoordinatorResponse
from hightide.v1.server_service_pb2 import DescribeServerRequest, DescribeServerResponse

MessageT = TypeVar("MessageT", bound=Message)

# A broker with many replicas takes a while to look at them all; a paused broker must not take longer than
# that.
_BROKER_TIMEOUT_MS: Final = 5 * METADATA_TIMEOUT_MS
_BROKER_ATTEMPTS: Final = 2
# The first call connects; the shorter round trip of two gives a better estimate of the clock.
_SERVER_ATTEMPTS: Final = 2
_SERVER_TIMEOUT_MS: Final = 3 * METADATA_TIMEOUT_MS
# The time between two orders to hand leadership over, for a replica to come into sync.
_DRAIN_PAUSE_MS: Final = 250
_INT32_MAX: Final = 2**31 - 1


class ServerOperations(Operations):
    """Operations that describe brokers and servers, and ask them to step aside."""

    def describe_replicas(self, topics: Iterable[str] | None) -> Operation[ReplicaListing]:
        """Ask every live broker for its replicas of these topics, or (None) of all. The listing names brokers
        that do not answer. If none does, raises the last one's error."""
        names = None if topics is None else list(dict.fromkeys(topics))
        yield from self.metadata()
        if names is not None and not names:
            return ReplicaListing(())
        request = DescribeReplicasRequest(topics=names or ())
        told, silent = yield from self._ask_brokers(
            Method.DESCRIBE_REPLICAS, request, DescribeReplicasResponse
        )
        found: list[ReplicaDescription] = [
            replica_description(broker_id, each)
            for broker_id, answer in told.items()
            for each in answer.replicas
        ]
        found.sort(key=lambda each: (each.partition, each.broker_id))
        return ReplicaListing(tuple(found), {broker: str(error) for broker, error in silent.items()})

    def describe_log_directories(self) -> Operation[list[LogDirectory]]:
        """Ask every live broker for its log directories. A broker that does not answer has an entry that says
        so. If none answers, raises the last one's error."""
        yield from self.metadata()
        request = DescribeReplicasRequest(log_directories_only=True)
        told, silent = yield from self._ask_brokers(
            Method.DESCRIBE_REPLICAS, request, DescribeReplicasResponse
        )
        found: list[LogDirectory] = []
        for broker_id in sorted({*told, *silent}):
            if broker_id in told:
                found.extend(log_directory(broker_id, each) for each in told[broker_id].log_directories)
            else:
                found.append(LogDirectory(broker_id, "", 0, 0, failed=False, error=silent[broker_id]))
        return found

    def _ask_brokers(
        self, method: Method, request: Message, answer_type: type[MessageT]
    ) -> Operation[tuple[Mapping[int, MessageT], Mapping[int, HightideError]]]:
        """The answers of the known brokers, and the errors of those that did not answer. If none did, raises
        the last one's error."""
        told: dict[int, MessageT] = {}
        silent: dict[int, HightideError] = {}
        waiting = dict(self.cluster.brokers)
        for attempt in range(_BROKER_ATTEMPTS):
            if attempt:
                yield Pause(RETRY_PAUSE_MS)
            for broker_id, address in list(waiting.items()):
                call = MessageCall(address, method, self._left_ms(_BROKER_TIMEOUT_MS), request, answer_type)
                try:
                    told[broker_id] = yield call
                except HightideError as error:
                    silent[broker_id] = error
                    if not error.retriable:
                        del waiting[broker_id]
                    continue
                del waiting[broker_id]
                silent.pop(broker_id, None)
            if not waiting or self._is_over():
                break
        if silent and not told:
            raise next(reversed(silent.values()))
        return told, silent

    def describe_server(self, address: str) -> Operation[ServerDescription]:
        """Ask one process for its description. It is asked once, without retries: an operator who examines a
        sick server wants to know that it does not answer, rather than to wait until it does."""
        (checked,) = bootstrap_addresses([address])
        found: list[ServerDescription] = []
        for _ in range(_SERVER_ATTEMPTS):
            asked_ms = self._clock()
            answer: DescribeServerResponse = yield MessageCall(
                checked,
                Method.DESCRIBE_SERVER,
                self._left_ms(_SERVER_TIMEOUT_MS),
                DescribeServerRequest(),
                DescribeServerResponse,
            )
            found.append(server_description(answer, self._clock() - asked_ms))
        return min(found, key=lambda each: each.round_trip_ms)

    def resign_controller(self, controller_epoch: int) -> Operation[ResignedController]:
        """Let the active controller step down. Every attempt names the epoch to end. So if an answer was
        lost, the next controller is left alone: a later epoch means that the order was carried out."""
        if not 0 <= controller_epoch <= _INT32_MAX:
            raise InvalidArgumentError(f"{controller_epoch} is no controller epoch; 0 stands for any")
        while True:
            before = yield from self._controller()
            epoch = controller_epoch or before.controller_epoch

            def settled(epoch: int = epoch) -> Operation[ResignControllerResponse | None]:
                now = yield from self._controller()
                return ResignControllerResponse() if now.controller_epoch > epoch else None

            try:
                answer = yield from self.order(
                    Method.RESIGN_CONTROLLER,
                    ResignControllerRequest(controller_epoch=epoch),
                    ResignControllerResponse,
                    settled=settled,
                )
            except StaleControllerEpochError:
                if controller_epoch or self._is_over():
                    raise
                continue  # Another one reigns since it was asked who does; whichever it is, is meant.
            if answer.controller_epoch:
                return ResignedController(answer.controller_id, answer.controller_epoch)
            return ResignedController(before.controller.id, epoch)

    def resign_coordinator(self, coordinator_id: int, shards: Iterable[int]) -> Operation[tuple[int, ...]]:
        """Let one coordinator give up these shards, or all of its own. It is asked once: if the answer is
        lost, the next coordinator of a shard may be this one again."""
        checked = checked_shards(shards)
        described = yield from self._controller()
        found = next((each for each in described.coordinators if each.id == coordinator_id), None)
        if found is None:
            known = ", ".join(str(each.id) for each in described.coordinators) or "none"
            raise InvalidArgumentError(f"there is no coordinator {coordinator_id}; there are: {known}")
        answer: ResignCoordinatorResponse = yield MessageCall(
            f"{found.host}:{found.port}",
            Method.RESIGN_COORDINATOR,
            self._left_ms(_BROKER_TIMEOUT_MS),
            ResignCoordinatorRequest(shards=checked),
            ResignCoordinatorResponse,
        )
        return tuple(each.shard for each in answer.shards)

    def drain_broker(self, broker_id: int) -> Operation[int]:
        """Move leadership away from a broker, again and again until nothing remains or the time is over.
        Repeating it changes nothing. A broker that is restarted meanwhile is left alone."""
        described = yield from self._controller()
        broker = next(
            (each for each in described.brokers if each.endpoint.id == broker_id and each.alive), None
        )
        if broker is None:
            live = ", ".join(str(each.endpoint.id) for each in described.brokers if each.alive) or "none"
            raise UnknownBrokerError(f"broker {broker_id} is not alive; alive are: {live}")
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker.broker_epoch)
        remaining: int | None = None
        while True:
            try:
                answer = yield from self.order(
                    Method.CONTROLLED_SHUTDOWN, request, ControlledShutdownResponse
                )
            except RequestTimeoutError:
                if remaining is None:
                    raise
                # The last call had only the rest of the time; the answer of the call before still holds.
                return remaining
            remaining = answer.remaining_leader_count
            if not remaining or self._end_ms - self._clock() <= _DRAIN_PAUSE_MS:
                return remaining
            yield Pause(_DRAIN_PAUSE_MS)

    def _controller(self) -> Operation[DescribeClusterResponse]:
        return (
            yield from self.order(Method.DESCRIBE_CLUSTER, DescribeClusterRequest(), DescribeClusterResponse)
        )
