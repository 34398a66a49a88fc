"""The tables of the spans of a controller's traces, with their beginnings and ends.

WRITES begin with an effect and end with its outcome. Stretches are between two moments of a trace: those in
PAST are known when the trace begins, those in AHEAD when it ends. DURATIONS are stretches that the root has
as attributes. All spans are children of the root. Among them are the steps of V3's "End-to-end latency during
a broker failure": steps 1 to 4 are the controller's. Brokers add steps 5 and 6 below `inform_broker`, whose
traceparent is in gRPC metadata and in znodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from hightide_runtime.telemetry import span_kinds as kinds

from hightide_controller.core.effects import (
    ReadStates,
    ReadTopics,
    SendLeaderAndIsr,
    SendStopReplica,
    StoreLeaderAndIsr,
    StoreTopic,
)
from hightide_controller.core.writes import StoreWrites

__all__ = ["AHEAD", "DURATIONS", "INFORMS", "PAST", "READS", "WRITES", "SpanOfMarks", "TraceMark"]


class TraceMark(Enum):
    """A moment of a trace."""

    BEGAN = auto()
    """The failure, or the request."""
    NOTICED = auto()
    ELECTED = auto()
    """The controller was elected."""
    TOLD = auto()
    """The core took the event. A controller that takes over has read everything before."""
    DECIDED = auto()
    """The core has returned its effects, so ZooKeeper works from here on."""
    STORED = auto()
    """The last write had its outcome."""
    SENT = auto()
    """The first decision was passed on, to be sent."""
    INFORMED = auto()
    """The last broker acknowledged."""
    LED = auto()
    """A new leader acknowledged the last partition of the lost brokers."""


@dataclass(frozen=True, slots=True)
class SpanOfMarks:
    """A span between two moments. There is none if one of them did not come."""

    name: str
    begins: TraceMark
    ends: TraceMark
    attributes: tuple[str, ...] = ()
    """The attributes that it shares with the root."""


WRITES: Final[Mapping[tuple[str, type], str]] = {
    (kinds.FAILOVER, StoreLeaderAndIsr): kinds.ZOOKEEPER_MULTI,
    (kinds.CONTROLLER_FAILOVER, StoreLeaderAndIsr): kinds.ZOOKEEPER_MULTI,
    (kinds.TOPIC_CREATION, StoreTopic): kinds.TOPIC_ZNODES,
    (kinds.TOPIC_CREATION, StoreLeaderAndIsr): kinds.ZOOKEEPER_MULTI,
    (kinds.TOPIC_DELETION, StoreLeaderAndIsr): kinds.ZOOKEEPER_MULTI,
    (kinds.TOPIC_DELETION, StoreWrites): kinds.DELETION_ZNODES,
}
"""The names of spans, by the kind of the trace and the effect that begins the write."""

INFORMS: Final[Mapping[str, type[SendLeaderAndIsr | SendStopReplica]]] = {
    kinds.FAILOVER: SendLeaderAndIsr,
    kinds.CONTROLLER_FAILOVER: SendLeaderAndIsr,
    kinds.TOPIC_CREATION: SendLeaderAndIsr,
    kinds.TOPIC_DELETION: SendStopReplica,
}
"""The messages that brokers must acknowledge before a trace of a kind ends."""

READS: Final[Mapping[str, type[ReadStates | ReadTopics]]] = {
    kinds.FAILOVER: ReadStates,
    kinds.CONTROLLER_FAILOVER: ReadStates,
    kinds.TOPIC_CREATION: ReadStates,
    kinds.TOPIC_DELETION: ReadTopics,
}
"""The reads that must be done before a trace of a kind ends."""

PAST: Final[Mapping[tuple[str, bool], tuple[SpanOfMarks, ...]]] = {
    (kinds.FAILOVER, False): (
        SpanOfMarks(kinds.BROKER_DOWN, TraceMark.BEGAN, TraceMark.NOTICED, ("reason",)),
        SpanOfMarks(kinds.BROKER_WATCHER_TRIGGERED, TraceMark.NOTICED, TraceMark.TOLD),
    ),
    (kinds.FAILOVER, True): (SpanOfMarks(kinds.CONTROLLER_REPLACED, TraceMark.BEGAN, TraceMark.TOLD),),
    (kinds.CONTROLLER_FAILOVER, False): (
        SpanOfMarks(kinds.CONTROLLER_DETECTION, TraceMark.BEGAN, TraceMark.NOTICED),
        SpanOfMarks(kinds.CONTROLLER_ELECTION, TraceMark.NOTICED, TraceMark.ELECTED),
        SpanOfMarks(kinds.CONTROLLER_LOAD, TraceMark.ELECTED, TraceMark.TOLD),
    ),
}
"""The stretches by the kind of the trace, and by whether another controller began it."""

AHEAD: Final[Mapping[str, tuple[SpanOfMarks, ...]]] = {
    kinds.FAILOVER: (
        SpanOfMarks(
            kinds.LEADERSHIP_CHANGE, TraceMark.TOLD, TraceMark.STORED, ("controller_epoch", "partition_count")
        ),
    ),
    kinds.CONTROLLER_FAILOVER: (
        SpanOfMarks(kinds.CONTROLLER_ADOPT, TraceMark.TOLD, TraceMark.STORED, ("partition_count",)),
        SpanOfMarks(kinds.CONTROLLER_FAN_OUT, TraceMark.SENT, TraceMark.INFORMED),
    ),
    kinds.TOPIC_DELETION: (SpanOfMarks(kinds.DELETION_STOP, TraceMark.SENT, TraceMark.INFORMED),),
}
"""The stretches by the kind of the trace."""

_FAN_OUT: Final = SpanOfMarks("fan_out_ms", TraceMark.SENT, TraceMark.INFORMED)
DURATIONS: Final[Mapping[tuple[str, bool], tuple[SpanOfMarks, ...]]] = {
    (kinds.FAILOVER, False): (
        SpanOfMarks("detect_ms", TraceMark.BEGAN, TraceMark.TOLD),
        SpanOfMarks("elect_ms", TraceMark.TOLD, TraceMark.STORED),
        _FAN_OUT,
        SpanOfMarks("all_led_ms", TraceMark.TOLD, TraceMark.LED),
    ),
    # The root of the lost controller, if it was written, has the other durations.
    (kinds.FAILOVER, True): (_FAN_OUT, SpanOfMarks("all_led_ms", TraceMark.TOLD, TraceMark.LED)),
    (kinds.CONTROLLER_FAILOVER, False): (
        SpanOfMarks("detect_ms", TraceMark.BEGAN, TraceMark.NOTICED),
        SpanOfMarks("elect_ms", TraceMark.NOTICED, TraceMark.STORED),
        _FAN_OUT,
        SpanOfMarks("takeover_ms", TraceMark.NOTICED, TraceMark.INFORMED),
    ),
}
"""The stretches, with the keys of PAST. `zookeeper_ms` is not among them: it is the time in which a read or
write was under way."""
