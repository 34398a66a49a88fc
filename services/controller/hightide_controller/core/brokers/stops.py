"""Ordering brokers to stop replicas that are not assigned to them any more (V3's StopReplica)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hightide_controller.core.effects import Effect, ReplicaStop, SendStopReplica
from hightide_controller.core.state.cluster_state import ClusterState

__all__ = ["send_stops"]


def send_stops(state: ClusterState, stops: Mapping[int, Sequence[ReplicaStop]], cause: str) -> list[Effect]:
    """One SendStopReplica for each live broker; the others find out when they start."""
    effects: list[Effect] = []
    for broker_id in sorted(stops):
        if state.is_live(broker_id):
            epoch = state.brokers[broker_id].broker_epoch
            sequence = state.take_sequence()
            effects.append(SendStopReplica(broker_id, epoch, sequence, tuple(stops[broker_id]), cause))
    return effects
