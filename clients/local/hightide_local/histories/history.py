"""The observations of clients: every send with its outcome, every record read, every high watermark.

A history is only data, which `anomalies` checks. Times are nanoseconds of one monotonic clock, so that
answers and questions of different threads can be ordered.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum


class SendOutcome(Enum):
    """The outcome of one record for a client."""

    ACKNOWLEDGED = "acknowledged"
    # The error says for certain that the record was not appended.
    REFUSED = "refused"
    # It may have been appended or not, after a timeout, a lost connection, or no answer.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LogPlace:
    """An offset in a partition."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class SentRecord:
    """One record that a producer sent. `number` counts the sends of that producer, and `value` is unique in
    the history. `place` is that of the acknowledgement; None without one, or if it has no offset (acks=0)."""

    producer: str
    number: int
    key: bytes
    value: bytes
    outcome: SendOutcome
    place: LogPlace | None
    completed_ns: int


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """One record that was read. `reader` names one pass over the log, from one position onwards."""

    reader: str
    place: LogPlace
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class EndSeen:
    """One answer to a question for the high watermark, which is `place.offset`."""

    observer: str
    place: LogPlace
    asked_ns: int
    answered_ns: int


@dataclass(slots=True)
class History:
    """All observations of one or more topics, in the order in which they were noted."""

    sends: list[SentRecord] = field(default_factory=list)
    reads: list[ReadRecord] = field(default_factory=list)
    ends: list[EndSeen] = field(default_factory=list)

    def acknowledged(self) -> Iterable[SentRecord]:
        """The sends that were acknowledged."""
        return (send for send in self.sends if send.outcome is SendOutcome.ACKNOWLEDGED)

    def count(self, outcome: SendOutcome) -> int:
        """The number of sends with this outcome."""
        return sum(send.outcome is outcome for send in self.sends)
