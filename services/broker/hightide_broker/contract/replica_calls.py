"""The requests of brokers to each other, as the broker's own values (V3 section G)."""

from __future__ import annotations

from hightide.v1.errors_pb2 import ErrorCode
from msgspec import Struct

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.core.fetch_session import SessionRequest
from hightide_broker.core.lineage import EpochEnd


class Follower(Struct, frozen=True):
    """The sender of a request: a broker of a cluster, with its registration."""

    cluster_id: str
    replica_id: int
    broker_epoch: int
    incarnation: int = -1
    """The number of starts of the process. Only ReplicaFetch has it."""


class ReplicaFetchCall(Struct, frozen=True):
    """The content of one ReplicaFetch request."""

    follower: Follower
    session: SessionRequest[PartitionKey]
    max_wait_ms: int
    max_bytes: int


class EpochQuestion(Struct, frozen=True):
    """One look-up of EndOffsetForLeaderEpoch."""

    key: PartitionKey
    current_leader_epoch: int
    epoch: int


class DigestQuestion(Struct, frozen=True):
    """The content of one DigestBatches request."""

    follower: Follower
    key: PartitionKey
    leader_epoch: int
    base_offset: int
    end_offset: int


class EpochAnswer(Struct, frozen=True):
    """The answer to an EpochQuestion. `end` is only valid if `code` is ERROR_CODE_UNSPECIFIED."""

    key: PartitionKey
    code: ErrorCode.ValueType
    end: EpochEnd
