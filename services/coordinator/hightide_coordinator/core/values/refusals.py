"""Why the core says no. `convert` maps each to its ErrorCode of the same name."""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["Refusal"]


class Refusal(Enum):
    """The name of each is that of its ErrorCode, without ERROR_CODE_."""

    INVALID_REQUEST = auto()
    OVERLOADED = auto()
    LIMIT_EXCEEDED = auto()
    SHUTTING_DOWN = auto()
    ZOOKEEPER_UNAVAILABLE = auto()
    INVALID_TOPIC_NAME = auto()
    UNKNOWN_TOPIC = auto()
    UNKNOWN_PARTITION = auto()
    OFFSET_OUT_OF_RANGE = auto()
    OFFSET_NOT_AVAILABLE = auto()
    NOT_COORDINATOR = auto()
    COORDINATOR_LOADING = auto()
    UNKNOWN_GROUP = auto()
    INVALID_GROUP_NAME = auto()
    CONSUMER_ID_TAKEN = auto()
    INVALID_SESSION_TIMEOUT = auto()
    UNKNOWN_ASSIGNOR = auto()
    INVALID_PATTERN = auto()
    UNKNOWN_MEMBER = auto()
    FENCED_GENERATION = auto()
    FENCED_INSTANCE = auto()
    GROUP_NOT_EMPTY = auto()
    COMMIT_GOES_BACK = auto()
    ANSWER_OUT_OF_TURN = auto()
    SESSION_TIMED_OUT = auto()
    STALE_COORDINATOR_EPOCH = auto()
