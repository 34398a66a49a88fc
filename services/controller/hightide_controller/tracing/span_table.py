"""Which spans a controller's traces have, as tables: what begins each of them, and what ends it.

WRITES begin with an effect, and end when its fate comes. Stretches lie between two moments of a trace: PAST
are known when it begins, AHEAD when it ends. DURATIONS are the stretches that its root tells as numbers. All
hang right below the root. The steps of V3's "End-to-end latency during a broker failure" are among them: 1 to
4 are the controller's; brokers add 5 and 6 below `inform_broker`, whose context travels in gRPC metadata, and
in the znodes.
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
    """The break, or the request."""
    NOTICED = auto()
    ELECTED = auto()
    """A controller was elected."""
    TOLD = auto()
    """The core was about to be told; a controller that takes over had read everything by then."""
    DECIDED = auto()
    """The core had said what it wants; from here on ZooKeeper works."""
    STORED = auto()
    """The outcome of the last write was known."""
    SENT = auto()
    """The first decision was handed over to be sent."""
    INFORMED = auto()
    """The last broker had acknowledged."""
    LED = auto()
    """The last partition that was led by what was lost had a leader that has acknowledged."""


@dataclass(frozen=True, slots=True)
class SpanOfMarks:
    """A span between two moments; there is none where one of them did not come."""

    name: str
    begins: TraceMark
    ends: TraceMark
    attributes: tuple[str, ...] = ()
    """The attributes that the span shares with the root."""


WRITES: Final[Mapping[tuple[str, type], str]] = {
    (kinds.FAILOVER, StoreLeaderAndIsr): kinds.ZOOKEEPER_MULTI,
    (kinds.CONTROLLER_FAILOVER, StoreLeaderAndIsr): kinds.ZOOKEEPER_MULTI,
    (kinds.TOPIC_CREATION, StoreTopic): kinds.TOPIC_ZNODES,
    (kinds.TOPIC_CREATION, StoreLeaderAndIsr): kinds.ZOOKEEPER_MULTI,
    (kinds.TOPIC_DELETION, StoreLeaderAndIsr): kinds.ZOOKEEPER_MULTI,
    (kinds.TOPIC_DELETION, StoreWrites): kinds.DELETION_ZNODES,
}
"""By kind of trace, and the effect that begins it."""

INFORMS: Final[Mapping[str, type[SendLeaderAndIsr | SendStopReplica]]] = {
    kinds.FAILOVER: SendLeaderAndIsr,
    kinds.CONTROLLER_FAILOVER: SendLeaderAndIsr,
    kinds.TOPIC_CREATION: SendLeaderAndIsr,
    kinds.TOPIC_DELETION: SendStopReplica,
}
"""What brokers have to acknowledge before a trace of a kind ends."""

READS: Final[Mapping[str, type[ReadStates | ReadTopics]]] = {
    kinds.FAILOVER: ReadStates,
    kinds.CONTROLLER_FAILOVER: ReadStates,
    kinds.TOPIC_CREATION: ReadStates,
    kinds.TOPIC_DELETION: ReadTopics,
}
"""What the core has to have read before a trace of a kind ends."""

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
"""By kind of trace, and whether another controller began it."""

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
"""By kind of trace."""

_FAN_OUT: Final = SpanOfMarks("fan_out_ms", TraceMark.SENT, TraceMark.INFORMED)
DURATIONS: Final[Mapping[tuple[str, bool], tuple[SpanOfMarks, ...]]] = {
    (kinds.FAILOVER, False): (
        SpanOfMarks("detect_ms", TraceMark.BEGAN, TraceMark.TOLD),
        SpanOfMarks("elect_ms", TraceMark.TOLD, TraceMark.STORED),
        _FAN_OUT,
        SpanOfMarks("all_led_ms", TraceMark.TOLD, TraceMark.LED),
    ),
    # What the controller that was lost knows better, its own root says, if it came to that.
    (kinds.FAILOVER, True): (_FAN_OUT, SpanOfMarks("all_led_ms", TraceMark.TOLD, TraceMark.LED)),
    (kinds.CONTROLLER_FAILOVER, False): (
        SpanOfMarks("detect_ms", TraceMark.BEGAN, TraceMark.NOTICED),
        SpanOfMarks("elect_ms", TraceMark.NOTICED, TraceMark.STORED),
        _FAN_OUT,
        SpanOfMarks("takeover_ms", TraceMark.NOTICED, TraceMark.INFORMED),
    ),
}
"""As PAST. `zookeeper_ms` is no stretch: it is the time in which any read or write was under way."""
