"""What becomes of a batch that came back with an error: a table, and the few rules that it cannot say."""

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
    RequestTimeoutError,
    SequenceConflictError,
    TooManyProducersError,
    UnknownLeaderEpochError,
    UnknownPartitionError,
    UnknownProducerIdError,
    UnknownTopicError,
)


class RefusedBatchAction(Enum):
    """What is done with the batch."""

    APPENDED = auto()
    """It was appended by an earlier attempt; its offset is not known any more."""
    RETRY = auto()
    """Send it again, as it is."""
    RENUMBER = auto()
    """Go on under a new producer id, from sequence 0: with this batch, unless an earlier attempt may have
    appended it. A log that does not know the producer any more can not tell, so that one fails."""
    SPLIT = auto()
    """Send it again in two halves."""
    FAIL = auto()
    """Tell the sender."""
    CONFLICT = auto()
    """Tell the sender, and all that comes behind it in the partition, that somebody else wrote there."""
    FENCE = auto()
    """Tell the sender, and refuse all that comes after."""


# Errors of which it is certain that this attempt appended nothing. NOT_LEADER is not among them: a leader
# that loses its leadership answers it to requests that it appended and that wait for replicas.
REFUSALS: Final[tuple[type[HightideError], ...]] = (
    BatchTooLargeError,
    DiskFullError,
    InconsistentTopicIdError,
    NotEnoughReplicasError,
    OutOfOrderSequenceError,
    OverloadedError,
    SequenceConflictError,
    TooManyProducersError,
    UnknownLeaderEpochError,
    UnknownPartitionError,
    UnknownProducerIdError,
    UnknownTopicError,
)

# What a log says where it does not end with what a keyed producer wrote last.
_ELSEWHERE: Final = (SequenceConflictError, OutOfOrderSequenceError, DuplicateSequenceError)
# The topic may be so new, or its leader so fresh, that the broker has not heard of it; metadata will tell.
_PERHAPS_NOT_YET: Final = (UnknownTopicError, UnknownPartitionError, InconsistentTopicIdError)


def verdict_on(
    error: HightideError, *, was_first: bool, is_idempotent: bool, is_keyed: bool, record_count: int
) -> RefusedBatchAction:
    """Decide. `was_first`: no earlier batch of the partition was on its way when this one was sent. Behind an
    earlier one, an OUT_OF_ORDER_SEQUENCE only says that it overtook that one; of a first one it says that the
    broker does not have what it acknowledged before, and waiting will not bring it back. To a producer with a
    key a sequence is a compare-and-set on the log: it is never numbered anew, and another batch in its place
    is never taken for success."""
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
