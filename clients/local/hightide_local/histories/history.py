"""What clients saw of a cluster: every send and its outcome, every record read, every offset answered.

A history is only data; `anomalies` judges it. Times are nanoseconds of one monotonic clock, so that "this
answer came before that question was asked" can be told across threads.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum


class Outcome(Enum):
    """The outcome of one record for a client."""

    ACKNOWLEDGED = "acknowledged"
    # The cluster or the client said for certain that the record was not appended.
    REFUSED = "refused"
    # It may have been appended or not: a timeout, a connection lost, or no answer by the end.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Place:
    """One offset of one partition."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class Send:
    """One record as a producer sent it. `number` is its turn among all sends of that producer, and `value`
    is unique in the history. `place` is what the acknowledgement said; None without one, or without an
    offset."""

    producer: str
    number: int
    key: bytes
    value: bytes
    outcome: Outcome
    place: Place | None
    completed_ns: int


@dataclass(frozen=True, slots=True)
class Read:
    """One record as a reader got it. `reader` names one pass over the log, from one position onwards."""

    reader: str
    place: Place
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class EndSeen:
    """One answer to "what is the latest offset", the high watermark. `place.offset` is the answer."""

    observer: str
    place: Place
    asked_ns: int
    answered_ns: int


@dataclass(slots=True)
class History:
    """Everything seen of one topic or more, in the order in which it was written down."""

    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    ends: list[EndSeen] = field(default_factory=list)

    def acknowledged(self) -> Iterable[Send]:
        """The sends that the cluster has promised to keep."""
        return (send for send in self.sends if send.outcome is Outcome.ACKNOWLEDGED)

    def count(self, outcome: Outcome) -> int:
        """How many sends ended this way."""
        return sum(send.outcome is outcome for send in self.sends)
