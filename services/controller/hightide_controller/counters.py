"""Counters for a controller's metrics: elections by reason, and how long they took."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hightide_runtime.telemetry.metric_declarations import Distribution

from hightide_controller.core.events import Event, StoreCommitted
from hightide_controller.core.state.cluster_state import ClusterState, StoreInFlight, TopicStoreInFlight
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, TopicPartition
from hightide_controller.core.writes import LeaderAndIsrWrite
from hightide_controller.tracing.causes import reason_of

__all__ = ["ELECTION_REASONS", "Counters"]

ELECTION_REASONS: Final = (
    "new_partition",
    "process_died",
    "pings_unanswered",
    "session_ended",
    "controlled_shutdown",
    "replicas_failed",
    "broker_silent",
    "controller_failover",
    "back_online",
    "asked_for",
    "balance",
    "reassignment",
    "other",
)
"""The reason in the cause that the shell gives an event; or the one that the partition itself shows."""


class Counters:
    """One for each shell. Counted on the event loop, read on any thread."""

    def __init__(self) -> None:
        self.elections = dict.fromkeys(ELECTION_REASONS, 0)
        self.unclean_elections = 0
        self.gone_offline = 0
        self.mutations_refused = 0
        self.event_s = Distribution()
        """How long the core and the shell worked on an event."""
        self.failover_s: dict[str, Distribution] = {}
        """By reason: from the break until every live broker had acknowledged."""

    def before(self, state: ClusterState, event: Event) -> None:
        """Count the elections that ZooKeeper has just accepted, before the core takes this event."""
        if isinstance(event, StoreCommitted):
            match state.stores.get(event.store_id):
                case StoreInFlight(changes=changes, cause=cause):
                    self._count(state, changes, reason_of(cause))
                case TopicStoreInFlight(writes=writes):
                    changes = tuple(each for each in writes if isinstance(each, LeaderAndIsrWrite))
                    self._count(state, changes, "reassignment")
                case _:
                    return

    def failed_over(self, reason: str, took_s: float) -> None:
        """Count a failover that is over."""
        self.failover_s.setdefault(reason, Distribution()).record(max(0.0, took_s))

    def _count(self, state: ClusterState, changes: Iterable[LeaderAndIsrWrite], reason: str) -> None:
        for change in changes:
            partition = state.partitions.get(change.name)
            known = None if partition is None else partition.leader_and_isr
            decided = change.decided
            if known is not None and decided.leader_epoch == known.leader_epoch:
                continue  # Only its ISR has changed.
            if decided.leader == NO_LEADER:
                self.gone_offline += 1
                continue
            self.elections[_reason(state, change.name, known, reason)] += 1
            if known is not None and decided.is_unclean:
                self.unclean_elections += 1


def _reason(state: ClusterState, name: TopicPartition, known: LeaderAndIsr | None, reason: str) -> str:
    if known is None:
        return "new_partition"
    if (by_hand := state.elections.get(name)) is not None:
        return "asked_for" if by_hand.request_ids else "balance"
    if known.leader == NO_LEADER:
        return "back_online"
    return reason if reason in ELECTION_REASONS else "other"
