"""Why a replica refuses: the core's own error kinds. `convert.py` maps each to a code of the contract."""

from __future__ import annotations

from enum import Enum, auto


class Refusal(Enum):
    """One way in which a replica can refuse what it is asked."""

    NOT_LEADER = auto()
    """This broker does not lead the partition (any more, or yet)."""
    PARTITION_OFFLINE = auto()
    """The partition has no leader: no member of its ISR is alive."""
    FENCED_LEADER_EPOCH = auto()
    """The sender's leader epoch is older than the receiver's: the sender is stale."""
    UNKNOWN_LEADER_EPOCH = auto()
    """The sender's leader epoch is newer than the receiver's: the receiver is stale."""
    STALE_CONTROLLER_EPOCH = auto()
    """The command comes from a controller that has been replaced."""
    NOT_ASSIGNED = auto()
    """The replica named is not one of the partition's assigned replicas."""
    INVALID_DECISION = auto()
    """A command contradicts itself, or what was decided earlier in the same epoch."""
    OFFSET_OUT_OF_RANGE = auto()
    """The offset is below the log start offset or beyond the log end offset."""
    OFFSET_NOT_AVAILABLE = auto()
    """The leader cannot tell what is committed: it is new (KIP-207), or its ISR is in doubt; ask again."""
    NOT_ENOUGH_REPLICAS = auto()
    """acks=all and fewer than min.insync.replicas are in sync; nothing was appended."""
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = auto()
    """The batch was appended and replicated, but the ISR fell below min.insync.replicas meanwhile."""
    STORAGE_FAILED = auto()
    """The replica's log directory failed; the replica is out of service on this broker."""
