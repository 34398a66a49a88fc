"""Refreshing the cache where it may be stale, because leaders let followers in without the controller."""

from __future__ import annotations

from itertools import islice

from hightide_controller.core.effects import Effect
from hightide_controller.core.elections.stores import READS_MAX, candidates_for, candidates_of, read_again
from hightide_controller.core.partition_election import Candidates
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.values.partition import TopicPartition

__all__ = ["on_ticked"]


def on_ticked(state: ClusterState) -> list[Effect]:
    """Read again partitions whose missing replicas are alive and may have come back, at most READS_MAX a
    tick.

    The cost grows with what is not well, not with what exists. It also makes the next failover's optimistic
    writes succeed.
    """
    candidates = candidates_of(state)
    looked_at = list(islice(state.under_replicated, READS_MAX))
    names = [name for name in looked_at if _may_have_grown(state, name, candidates)]
    for name in looked_at:
        # To the end of the queue, so that a partition whose ISR stays small does not hold up the others.
        del state.under_replicated[name]
        state.under_replicated[name] = None
    return read_again(names, cause="")


def _may_have_grown(state: ClusterState, name: TopicPartition, candidates: Candidates) -> bool:
    if name in state.storing or name in state.rereading or name in state.unled:
        return False
    partition = state.partitions[name]
    assert partition.leader_and_isr is not None
    isr = partition.leader_and_isr.isr
    live = candidates_for(state, name, candidates).live
    return any(broker_id in live and broker_id not in isr for broker_id in partition.replicas)
