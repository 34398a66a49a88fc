"""How the requests of clients end in a cluster without a controller, as errors of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hightide.v1.errors_pb2 import ErrorCode
from hightide_leaders.core.effects import Outcome
from hightide_runtime.errors import ServiceError

_AGAIN: Final = "try again after a pause"
OUTCOMES: Final[Mapping[Outcome, tuple[int, str]]] = MappingProxyType(
    {
        Outcome.TOPIC_ALREADY_EXISTS: (ErrorCode.ERROR_CODE_TOPIC_ALREADY_EXISTS, "exists already"),
        Outcome.TOPIC_BEING_CREATED: (
            ErrorCode.ERROR_CODE_OVERLOADED,
            f"is being created or grown by another broker; {_AGAIN}",
        ),
        Outcome.UNKNOWN_TOPIC: (ErrorCode.ERROR_CODE_UNKNOWN_TOPIC, "does not exist"),
        Outcome.UNKNOWN_PARTITION: (ErrorCode.ERROR_CODE_UNKNOWN_PARTITION, "does not exist"),
        Outcome.TOPIC_BEING_DELETED: (
            ErrorCode.ERROR_CODE_TOPIC_BEING_DELETED,
            f"is being deleted; {_AGAIN}",
        ),
        Outcome.UNREADABLE: (
            ErrorCode.ERROR_CODE_UNKNOWN_PARTITION,
            "has a partition whose znodes cannot be read; correct or delete what `hightide cluster health` "
            "names",
        ),
        Outcome.TOPIC_CHANGED: (
            ErrorCode.ERROR_CODE_OVERLOADED,
            f"was given other partitions by somebody else meanwhile; {_AGAIN}",
        ),
        Outcome.REASSIGNMENT_IN_PROGRESS: (
            ErrorCode.ERROR_CODE_REASSIGNMENT_IN_PROGRESS,
            "would go, and is being moved; wait for the move, or cancel it",
        ),
        Outcome.INVALID_ASSIGNMENT: (
            ErrorCode.ERROR_CODE_INVALID_ASSIGNMENT,
            "needs different brokers for each partition, at least one",
        ),
        Outcome.REPLICA_NOT_ONLINE: (
            ErrorCode.ERROR_CODE_INVALID_ASSIGNMENT,
            "was to go to a broker that is not alive; choose among those of `hightide cluster info`",
        ),
        Outcome.NO_REASSIGNMENT: (ErrorCode.ERROR_CODE_NO_REASSIGNMENT, "is not being moved"),
        Outcome.ELECTION_NOT_NEEDED: (
            ErrorCode.ERROR_CODE_ELECTION_NOT_NEEDED,
            "has a leader, or a live replica that can lead without a loss",
        ),
        Outcome.ELIGIBLE_LEADERS_NOT_AVAILABLE: (
            ErrorCode.ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "would have no live replica in sync to lead it; wait until one has caught up",
        ),
        Outcome.FOLLOWER_STATE_CHANGE_QUEUE_FULL: (
            ErrorCode.ERROR_CODE_OVERLOADED,
            f"concerns a broker whose queue of state changes is full (/brokers/state/…); {_AGAIN}",
        ),
        Outcome.TIMED_OUT: (
            ErrorCode.ERROR_CODE_TIMED_OUT,
            "was not set up in time: a live broker has not done what is in its queue; look into its log, "
            "then try again",
        ),
    }
)


def fault_of(outcome: Outcome, subject: str) -> tuple[int, str]:
    """The code and the sentence for an outcome about `subject`; (0, "") if all is done."""
    if outcome is Outcome.DONE:
        return ErrorCode.ERROR_CODE_UNSPECIFIED, ""
    code, words = OUTCOMES[outcome]
    return code, f"{subject} {words}"


def check(outcome: Outcome, subject: str) -> None:
    """Raises ServiceError unless all is done."""
    if outcome is not Outcome.DONE:
        raise fault(outcome, subject)


def fault(outcome: Outcome, subject: str) -> ServiceError:
    """The error for an outcome that is not done."""
    return ServiceError(*fault_of(outcome, subject))


def no_controller(what: str, instead: str) -> ServiceError:
    """The one error for what makes no sense in this mode; `instead`: what to do in its place."""
    return ServiceError(
        ErrorCode.ERROR_CODE_NO_CONTROLLER,
        f"{what} is done by a controller, and this cluster has none: its leaders decide; {instead}",
        {"coordination": "leaders"},
    )
