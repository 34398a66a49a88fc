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

__all__ = ["AHEAD", "DURATIONS", "INFORMS", "PAST", "READS", "WRITES", "Mark", "Stretch"]


class Mark(Enum):
    """A moment of a trace."""

    BEGAN = auto()
    """The break, or the request."""
    NOTICED = auto()
    ELECTED = auto()
    """Of a controller."""
    TOLD = auto()
    """The core was about to be told; a controller that takes over had read everything by then."""
    DECIDED = auto()
    """The core had said what it wants; from here on ZooKeeper works."""
    STORED = auto()
    """The last write had its fate."""
    SENT = auto()
    """The first decision was handed over to be sent."""
    INFORMED = auto()
    """The last broker had acknowledged."""
    LED = auto()
    """The last partition that was led by what was lost had a leader that has acknowledged."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A span between two moments; there is none where one of them did not come."""

    name: str
    begins: Mark
    ends: Mark
    attributes: tuple[str, ...] = ()
    """Those that it has in common with the root."""


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

PAST: Final[Mapping[tuple[str, bool], tuple[Stretch, ...]]] = {
    (kinds.FAILOVER, False): (
        Stretch(kinds.BROKER_DOWN, Mark.BEGAN, Mark.NOTICED, ("reason",)),
        Stretch(kinds.BROKER_WATCHER_TRIGGERED, Mark.NOTICED, Mark.TOLD),
    ),
    (kinds.FAILOVER, True): (Stretch(kinds.CONTROLLER_REPLACED, Mark.BEGAN, Mark.TOLD),),
    (kinds.CONTROLLER_FAILOVER, False): (
        Stretch(kinds.CONTROLLER_DETECTION, Mark.BEGAN, Mark.NOTICED),
        Stretch(kinds.CONTROLLER_ELECTION, Mark.NOTICED, Mark.ELECTED),
        Stretch(kinds.CONTROLLER_LOAD, Mark.ELECTED, Mark.TOLD),
    ),
}
"""By kind of trace, and whether another controller began it."""

AHEAD: Final[Mapping[str, tuple[Stretch, ...]]] = {
    kinds.FAILOVER: (
        Stretch(kinds.LEADERSHIP_CHANGE, Mark.TOLD, Mark.STORED, ("controller_epoch", "partition_count")),
    ),
    kinds.CONTROLLER_FAILOVER: (
        Stretch(kinds.CONTROLLER_ADOPT, Mark.TOLD, Mark.STORED, ("partition_count",)),
        Stretch(kinds.CONTROLLER_FAN_OUT, Mark.SENT, Mark.INFORMED),
    ),
    kinds.TOPIC_DELETION: (Stretch(kinds.DELETION_STOP, Mark.SENT, Mark.INFORMED),),
}
"""By kind of trace."""

_FAN_OUT: Final = Stretch("fan_out_ms", Mark.SENT, Mark.INFORMED)
DURATIONS: Final[Mapping[tuple[str, bool], tuple[Stretch, ...]]] = {
    (kinds.FAILOVER, False): (
        Stretch("detect_ms", Mark.BEGAN, Mark.TOLD),
        Stretch("elect_ms", Mark.TOLD, Mark.STORED),
        _FAN_OUT,
        Stretch("all_led_ms", Mark.TOLD, Mark.LED),
    ),
    # What the controller that was lost knows better, its own root says, if it came to that.
    (kinds.FAILOVER, True): (_FAN_OUT, Stretch("all_led_ms", Mark.TOLD, Mark.LED)),
    (kinds.CONTROLLER_FAILOVER, False): (
        Stretch("detect_ms", Mark.BEGAN, Mark.NOTICED),
        Stretch("elect_ms", Mark.NOTICED, Mark.STORED),
        _FAN_OUT,
        Stretch("takeover_ms", Mark.NOTICED, Mark.INFORMED),
    ),
}
"""As PAST. `zookeeper_ms` is no stretch: it is the time in which any read or write was under way."""
