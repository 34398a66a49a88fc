"""The errors that the client itself detects; part of the catalogue of `hightide.errors`. No server has named
a code for them."""

from collections.abc import Sequence
from enum import StrEnum

from hightide.errors.base import HightideError


class ClientError(HightideError):
    """An error that the client detected itself; no server has named a code."""


class AddressUnreachableError(ClientError):
    """One address does not answer: no process listens there, or the connection broke. The request may have
    arrived."""

    retriable = True
    refresh_metadata = True


class TlsFault(StrEnum):
    """What keeps a client and a server from a TLS connection."""

    SERVER_CERTIFICATE = "server certificate"
    """This client refuses the certificate of the server."""
    CLIENT_CERTIFICATE = "client certificate"
    """The server refuses the certificate of this client, or misses one."""
    PLAINTEXT_PORT = "plaintext port"
    """This client uses TLS, and the port does not."""
    TLS_PORT = "TLS port"
    """The port uses TLS, and this client does not."""
    PROTOCOL = "protocol"
    """Both use TLS, and agree on no version or cipher of it."""
    FILES = "files"
    """The files of this client cannot be used at the moment."""


class TlsHandshakeError(AddressUnreachableError):
    """This client and one address cannot use TLS with each other: a certificate is refused, or only one side
    uses TLS. `has_been_reached` says whether a server had answered this client before. Then the client keeps
    trying, since certificates may be being renewed."""

    def __init__(self, message: str, *, address: str, fault: TlsFault, has_been_reached: bool) -> None:
        super().__init__(message, address=address)
        self.fault = fault
        self.has_been_reached = has_been_reached

    @property
    def is_final(self) -> bool:
        """Whether trying again is of no use until somebody changes files or settings."""
        return not self.has_been_reached and self.fault is not TlsFault.FILES


class RequestTimeoutError(ClientError):
    """One request was not answered in time. It may have arrived."""

    retriable = True
    refresh_metadata = True


class UnexpectedAnswerError(ClientError):
    """The process that answered does not use Hightide's protocol, or its answer cannot be read."""

    next_step = "Check that the address belongs to a Hightide server of the same version."


class BrokersUnavailableError(ClientError):
    """No broker answered within the budget. `addresses` lists all that were tried."""

    retriable = True
    next_step = "Check that the cluster runs and the bootstrap addresses are right; try `hightide doctor`."

    def __init__(self, message: str, *, addresses: Sequence[str] = (), topic: str | None = None) -> None:
        super().__init__(message, topic=topic)
        self.addresses = tuple(addresses)


class TlsRefusedError(BrokersUnavailableError):
    """No bootstrap address and this client can use TLS with each other, and none ever answered this client.
    Raised at once, since waiting is of no use."""

    retriable = False
    next_step = ""


class TokenNotSentError(ClientError):
    """The client has no token to send, or does not send it: without TLS it would be read on the way."""


class ControllerUnavailableError(ClientError):
    """Within the budget, the brokers named no active controller that answers."""

    retriable = True
    next_step = "Check that a controller runs and reaches ZooKeeper (`hightide cluster health`)."


class CoordinatorUnavailableError(ClientError):
    """Within the budget, the brokers named no active coordinator of the group that answers."""

    retriable = True
    next_step = "Check that a coordinator runs and reaches ZooKeeper (`hightide cluster health`)."


class DeliveryTimeoutError(ClientError):
    """A record was not acknowledged within delivery_timeout_ms. `maybe_appended` says whether it may have
    been appended nevertheless: it was sent at least once, and no broker refused it."""

    def __init__(
        self, message: str, *, topic: str, partition: int, maybe_appended: bool, address: str | None = None
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, address=address)
        self.maybe_appended = maybe_appended


class BufferFullError(ClientError):
    """The unfinished records fill buffer_memory_bytes, and none of them was finished within max_block_ms."""

    retriable = True
    next_step = "Send more slowly, raise buffer_memory_bytes, or look why brokers are slow to acknowledge."


class RecordTooLargeError(ClientError):
    """One record alone is larger than the largest batch that the topic or the producer allows."""

    next_step = "Send smaller records, or raise batch_bytes_max and the topic's max.message.bytes."


class UndeliveredError(ClientError):
    """The producer was closed, or the time of flush() ran out, before every record was acknowledged."""

    def __init__(self, message: str, *, undelivered_count: int) -> None:
        super().__init__(message)
        self.undelivered_count = undelivered_count


class TopicRecreatedError(ClientError):
    """The topic was deleted, and another one with its name was created."""

    next_step = "The records of the old topic are gone; begin again with the new one."


class RangeDeletedError(ClientError):
    """Records of a range that is being read were deleted: retention or an operator moved the log's start."""

    next_step = "Begin at the log's start, or keep records for longer (retention.ms, retention.bytes)."

    @property
    def log_start_offset(self) -> int:
        """The first offset that still exists."""
        return int(self.metadata["log_start_offset"])


class RangeLostError(ClientError):
    """Committed records of a range that is being read are lost: after an unclean election, the log ends
    before them or holds others in their place."""

    next_step = (
        "Look for them on the replicas that led before (`hightide topic describe`), or go on without them."
    )

    @property
    def end_offset(self) -> int:
        """The offset at which the log ends, or begins to differ from the records read before."""
        return int(self.metadata["end_offset"])


class ClosedError(ClientError):
    """The producer, consumer or admin is closed."""

    next_step = "Make a new one."


class ForkedClientError(ClientError):
    """The client was used in the parent process before fork(). Its threads and connections are not in this
    process."""

    next_step = "Fork before the first use of any client, and make each client in the process that uses it."


class WrongEventLoopError(ClientError):
    """A client of `hightide.aio` was used on another event loop than the first time."""

    next_step = "Make and close the client inside of the coroutine that asyncio.run() runs."


class DeliveryPendingError(ClientError, TimeoutError):
    """The time given to `Delivery.result()` ran out; the record is still being delivered."""

    retriable = True


class InvalidArgumentError(ClientError, ValueError):
    """A value given to the SDK cannot be used."""


class SerializationError(ClientError):
    """A key or value cannot be turned into bytes. Nothing of the record was sent."""

    next_step = "Send what the serializer takes, or give the producer another one."


class DeserializationError(ClientError):
    """The key or value of a record cannot be read by the deserializer of this consumer: another program wrote
    it, or in another format."""

    next_step = (
        'seek() to the offset after it to leave it out, set on_corrupt_batch="skip" to leave out all such, '
        "or give the consumer another deserializer."
    )


class SchemaRegistryError(ClientError):
    """A schema registry did not answer, or refused. No record is left out for it."""

    retriable = True
    next_step = "Look whether the registry runs at this address, and what its log says."


class ConcurrentUseError(ClientError):
    """Two threads, or two tasks, took records of one consumer at the same time."""

    next_step = "Take records on one thread and pass them on, or make a consumer for each thread."


class NotAssignedError(ClientError):
    """The partition is not assigned to this consumer."""

    next_step = "assign() it first, or wait until its group gives it to this consumer."


class NoCommittedOffsetError(ClientError):
    """The group has committed nothing for the partition, and offset_reset="error" allows no default."""

    next_step = "seek() to where it should begin, or set offset_reset."
