"""The calls that cores ask for and shells make: RPC, address, timeout and bytes.

A core returns `Call`s. A shell (threads or asyncio) sends each one's bytes to its address and returns the
outcome to the core: the decoded answer, or a typed error. `encode` and `decode` do the work that is worth
doing outside of a lock.
"""

from abc import ABC, abstractmethod
from collections import deque
from enum import Enum
from typing import Final, Generic, TypeVar

from google.protobuf.message import DecodeError, Message

from hightide.errors import UnexpectedAnswerError

AnswerT = TypeVar("AnswerT")
MessageT = TypeVar("MessageT", bound=Message)

_BROKER: Final = "/hightide.v1.BrokerService/"
_CONTROLLER: Final = "/hightide.v1.ControllerService/"
_COORDINATOR: Final = "/hightide.v1.CoordinatorService/"
_SERVER: Final = "/hightide.v1.ServerService/"


class Method(Enum):
    """The RPCs that the SDK uses, by their full gRPC path."""

    PRODUCE = _BROKER + "Produce"
    FETCH = _BROKER + "Fetch"
    LIST_OFFSETS = _BROKER + "ListOffsets"
    GET_METADATA = _BROKER + "GetMetadata"
    INIT_PRODUCER_ID = _BROKER + "InitProducerId"
    DESCRIBE_REPLICAS = _BROKER + "DescribeReplicas"
    DESCRIBE_PRODUCERS = _BROKER + "DescribeProducers"
    DELETE_RECORDS = _BROKER + "DeleteRecords"
    CREATE_TOPIC = _CONTROLLER + "CreateTopic"
    DESCRIBE_TOPICS = _CONTROLLER + "DescribeTopics"
    DESCRIBE_CLUSTER = _CONTROLLER + "DescribeCluster"
    DELETE_TOPIC = _CONTROLLER + "DeleteTopic"
    ADD_PARTITIONS = _CONTROLLER + "AddPartitions"
    REMOVE_PARTITIONS = _CONTROLLER + "RemovePartitions"
    ALTER_TOPIC_CONFIG = _CONTROLLER + "AlterTopicConfig"
    REASSIGN_PARTITIONS = _CONTROLLER + "ReassignPartitions"
    CANCEL_REASSIGNMENTS = _CONTROLLER + "CancelReassignments"
    LIST_REASSIGNMENTS = _CONTROLLER + "ListReassignments"
    ALTER_REASSIGNMENT_THROTTLE = _CONTROLLER + "AlterReassignmentThrottle"
    ALTER_QUOTAS = _CONTROLLER + "AlterQuotas"
    DESCRIBE_QUOTAS = _CONTROLLER + "DescribeQuotas"
    ELECT_LEADERS = _CONTROLLER + "ElectLeaders"
    CONTROLLED_SHUTDOWN = _CONTROLLER + "ControlledShutdown"
    RESIGN_CONTROLLER = _CONTROLLER + "ResignController"
    ALTER_ACLS = _CONTROLLER + "AlterAcls"
    DESCRIBE_ACLS = _CONTROLLER + "DescribeAcls"
    CHECK_ACCESS = _CONTROLLER + "CheckAccess"
    REGISTER_CONSUMER = _COORDINATOR + "RegisterConsumer"
    COMMIT_OFFSETS = _COORDINATOR + "CommitOffsets"
    FETCH_OFFSETS = _COORDINATOR + "FetchOffsets"
    LIST_GROUPS = _COORDINATOR + "ListGroups"
    DESCRIBE_GROUP = _COORDINATOR + "DescribeGroup"
    RESET_OFFSETS = _COORDINATOR + "ResetOffsets"
    DELETE_GROUP = _COORDINATOR + "DeleteGroup"
    DELETE_OFFSETS = _COORDINATOR + "DeleteOffsets"
    RESIGN_COORDINATOR = _COORDINATOR + "ResignCoordinator"
    DESCRIBE_SERVER = _SERVER + "DescribeServer"


class Call(ABC, Generic[AnswerT]):
    """One RPC to be made. Compared by identity: the shell returns the same object that it was given."""

    __slots__ = ("address", "method", "started_ms", "throttle_time_ms", "timeout_ms")

    def __init__(self, address: str, method: Method, timeout_ms: int) -> None:
        assert timeout_ms > 0, "every call has a deadline"
        self.address = address
        self.method = method
        self.timeout_ms = timeout_ms
        self.started_ms = 0.0
        self.throttle_time_ms = 0
        """For how long the answer asks to make no more such calls to this address. Set by `decode`."""

    @abstractmethod
    def encode(self) -> bytes:
        """The request's bytes. Called once by the shell, outside of the core's lock."""

    @abstractmethod
    def decode(self, answer: bytes) -> AnswerT:
        """Read the answer. Called by the shell outside of the core's lock. Raises UnexpectedAnswerError."""


class MessageCall(Call[MessageT]):
    """A call whose request and answer are small protobuf messages."""

    __slots__ = ("_answer_type", "request")

    def __init__(
        self, address: str, method: Method, timeout_ms: int, request: Message, answer_type: type[MessageT]
    ) -> None:
        super().__init__(address, method, timeout_ms)
        self.request = request
        self._answer_type = answer_type

    def encode(self) -> bytes:
        """The request, serialised by protobuf."""
        return self.request.SerializeToString()

    def decode(self, answer: bytes) -> MessageT:
        """The answer, parsed by protobuf."""
        message = self._answer_type()
        try:
            message.ParseFromString(answer)
        except DecodeError as error:
            raise UnexpectedAnswerError(
                f"the answer to {self.method.value} is no {self._answer_type.__name__}: {error}",
                address=self.address,
            ) from error
        return message


class StreamEnded:
    """The outcome of a `StreamCall` that the server ended with OK."""


STREAM_ENDED: Final = StreamEnded()


class StreamCall(MessageCall[MessageT]):
    """An RPC of which both sides are streams, without a deadline. `request` is its first message; what the
    core puts into `outbox` follows, in order. Each received message is an outcome of the call; the last
    outcome is STREAM_ENDED or a HightideError."""

    __slots__ = ("outbox",)

    def __init__(
        self, address: str, method: Method, timeout_ms: int, request: Message, answer_type: type[MessageT]
    ) -> None:
        super().__init__(address, method, timeout_ms, request, answer_type)
        self.outbox: deque[bytes] = deque()

    def send(self, message: Message) -> None:
        """Let the shell send this next. Called by cores, under the client's lock."""
        self.outbox.append(message.SerializeToString())
