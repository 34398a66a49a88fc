"""The treatment of a batch that came back with an error: a table, and the few rules that a table cannot
express."""

from enum import Enum, auto
from typing import Final

from hightide.errors import (
    AddressUnreachableError,
    BatchTooLargeError,
    DiskFullError,
    DuplicateSequenceError,
    FencedProducerEpochError,
    HightideError,
    InconsistentTopicIdError,
    NotEnoughReplicasError,
    OutOfOrderSequenceError,
    OverloadedError,
    QuotaExceededError,
    RequestTimeoutError,
    SequenceConflictError,
    TooManyProducersError,
    UnknownLeaderEpochError,
    UnknownPartitionError,
    UnknownProducerIdError,
    UnknownTopicError,
)


class RefusedBatchAction(Enum):
    """The possible treatments of the batch."""

    APPENDED = auto()
    """It was appended by an earlier attempt; its offset is no longer known."""
    RETRY = auto()
    """Send it again, as it is."""
    RENUMBER = auto()
    """Go on under a new producer id, from sequence 0, beginning with this batch. If an earlier attempt may
    have appended the batch, it fails instead, since a log that no longer knows the producer cannot tell."""
    SPLIT = auto()
    """Send it again in two halves."""
    FAIL = auto()
    """Fail the batch."""
    CONFLICT = auto()
    """Fail the batch and all later ones in the partition, because another writer wrote there."""
    FENCE = auto()
    """Fail the batch, and refuse all later records."""


# Errors that prove that this attempt appended nothing. NOT_LEADER is not among them: a leader that loses its
# leadership answers it to requests that it appended and that wait for replicas.
REFUSALS: Final[tuple[type[HightideError], ...]] = (
    BatchTooLargeError,
    DiskFullError,
    InconsistentTopicIdError,
    NotEnoughReplicasError,
    OutOfOrderSequenceError,
    OverloadedError,
    QuotaExceededError,
    SequenceConflictError,
    TooManyProducersError,
    UnknownLeaderEpochError,
    UnknownPartitionError,
    UnknownProducerIdError,
    UnknownTopicError,
)

# The errors of a log that does not end with the last record of a producer with a key.
_ELSEWHERE: Final = (SequenceConflictError, OutOfOrderSequenceError, DuplicateSequenceError)
# The topic or its leader may be so new that the broker has not heard of it; metadata will tell.
_PERHAPS_NOT_YET: Final = (UnknownTopicError, UnknownPartitionError, InconsistentTopicIdError)


def verdict_on(
    error: HightideError, *, was_first: bool, is_idempotent: bool, is_keyed: bool, record_count: int
) -> RefusedBatchAction:
    """Choose the treatment. `was_first` means that no earlier batch of the partition was in flight when this
    one was sent. If one was, an OUT_OF_ORDER_SEQUENCE only says that this batch overtook it. For a first
    batch, it says that the broker has lost records that it acknowledged before, and waiting will not bring
    them back. To a producer with a key a sequence is a compare-and-set on the log: it is never numbered anew,
    and another batch in its place is never taken for success."""
    match error:
        case _ if is_keyed and isinstance(error, _ELSEWHERE):
            return RefusedBatchAction.CONFLICT
        case UnknownProducerIdError() if is_keyed:
            return RefusedBatchAction.FAIL
        case DuplicateSequenceError():
            return RefusedBatchAction.APPENDED
        case FencedProducerEpochError():
            return RefusedBatchAction.FENCE
        case OutOfOrderSequenceError() | UnknownProducerIdError() if is_idempotent:
            return RefusedBatchAction.RENUMBER if was_first else RefusedBatchAction.RETRY
        case BatchTooLargeError() if record_count > 1:
            return RefusedBatchAction.SPLIT
        case AddressUnreachableError() | RequestTimeoutError():
            return RefusedBatchAction.RETRY
        case _ if error.retriable or isinstance(error, _PERHAPS_NOT_YET):
            return RefusedBatchAction.RETRY
        case _:
            return RefusedBatchAction.FAIL
