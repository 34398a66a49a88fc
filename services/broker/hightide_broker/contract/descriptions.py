"""Descriptions of a broker's replicas and data directories: DescribeReplicas, as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass

from hightide_broker.cluster.partition_decisions import PartitionKey


@dataclass(frozen=True, slots=True)
class DescribedDirectory:
    """One log directory. The sizes are 0 where they are not known."""

    path: str
    failed: bool
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class DescribedReplica:
    """One replica as its broker knows it."""

    key: PartitionKey
    topic: str
    is_leader: bool
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    size_bytes: int
    log_directory: int
    """The place of its directory among the --data-dir, from 0 on."""
    failed: bool
    """Its directory failed: the sizes are the last ones known."""
