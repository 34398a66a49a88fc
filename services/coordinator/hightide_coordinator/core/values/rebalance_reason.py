"""Why a group is shared out anew: the few kinds that metrics count. A sentence for people goes with each."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["RebalanceReason"]


class RebalanceReason(StrEnum):
    """What a rebalance began with."""

    TAKEOVER = "takeover"
    TOPICS = "topics"
    ZOOKEEPER = "zookeeper"
    SUBSCRIPTION = "subscription"
    NEW_PROCESS = "new_process"
    JOINED = "joined"
    LEFT = "left"
    DECLARED_DEAD = "declared_dead"
    OTHER = "other"
