"""The settings of a broker: flags, or HIGHTIDE_BROKER_<FIELD> in the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from hightide_runtime.addresses import HostPort
from hightide_runtime.process.settings import Address, ServiceSettings
from hightide_runtime.znodes.coordination_znode import Coordination
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode


def _paths(value: object) -> object:
    """One path, several separated by commas, or a list of such."""
    given = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if not all(isinstance(each, str | Path) for each in given):
        return value
    return tuple(Path(path.strip()) for each in given for path in str(each).split(",") if path.strip())


def _distinct(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    if not paths:
        raise ValueError("it names no directory; give a path")
    # The disk is not asked, since it may not answer; a link to the same is found by its lock.
    resolved = [os.path.abspath(path) for path in paths]
    for place, path in enumerate(resolved):
        if path in resolved[:place]:
            raise ValueError(f"{paths[place]} is given twice; give each directory once")
    return paths


#: NoDecode: pydantic-settings would expect JSON in the environment.
Directories = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_paths), AfterValidator(_distinct)]


class BrokerSettings(ServiceSettings, env_prefix="HIGHTIDE_BROKER_", cli_prog_name="hightide-broker"):
    """A broker: it stores the records. Each flag may also be set by an environment variable, for example
    --data-dir by HIGHTIDE_BROKER_DATA_DIR. A flag overrides the variable."""

    broker_id: int = Field(
        ge=0, le=2**31 - 1, description="the id of this broker; no other broker of the cluster may have it"
    )
    listen: Address = Field(HostPort("127.0.0.1", 9092), description="the host:port to listen on")
    data_dir: Directories = Field(
        description="the directory for the logs; no other broker may use it. For more disks, give the flag "
        "once for each, or separate the directories by commas"
    )
    coordination: Coordination = Field(
        Coordination.CONTROLLER,
        description="who decides which broker leads a partition: the controller, or the replicas themselves; "
        "the same for all brokers of a cluster",
    )
    replica_lag_time_max_ms: int = Field(
        10_000,
        ge=100,
        description="a follower that has not caught up with its leader for so long leaves the ISR",
    )
    min_insync_replicas: int = Field(
        1,
        ge=1,
        description="min.insync.replicas of topics that do not set it. A topic that is created with three "
        "replicas or more sets it to 2, unless another value is given",
    )
    replica_fetch_max_wait_ms: int = Field(
        500,
        ge=10,
        le=30_000,
        description="how long a follower's fetch waits at the leader if there are no new records",
    )
    replica_fetch_max_bytes: int = Field(
        8 * 1024 * 1024,
        ge=1024,
        le=15 * 1024 * 1024,
        description="the most bytes in one answer to a follower's fetch",
    )
    high_watermark_checkpoint_interval_ms: int = Field(
        5_000, ge=100, description="how often high watermarks are written to disk, for the next start"
    )
    flush_interval_ms: int = Field(
        30_000,
        ge=100,
        description="how often logs are synced to disk if no acknowledgement waits for it "
        "(flush=replicated); bounds what a power loss can take, and how long recovery takes",
    )
    retention_check_interval_ms: int = Field(
        60_000, ge=100, description="how often the broker looks for segments that retention deletes"
    )
    scrub_bytes_per_s: int = Field(
        4 * 1024 * 1024,
        ge=0,
        description="how fast all logs on disk are read and checked for damage, in bytes per second; a log "
        "of less than 4 MiB counts as 4 MiB; 0 switches the check off",
    )
    scrub_interval_ms: int = Field(
        24 * 60 * 60 * 1000, ge=100, description="the least time between the beginnings of two such checks"
    )
    in_flight_produce_bytes_max: int = Field(
        256 * 1024 * 1024,
        ge=1024 * 1024,
        description="the most bytes of unfinished produce requests; the broker refuses more with OVERLOADED",
    )
    in_flight_answer_bytes_max: int = Field(
        256 * 1024 * 1024,
        ge=64 * 1024 * 1024,
        description="the most bytes of answers that clients have not read yet; answers to other brokers have "
        "as many of their own. A connection may hold a quarter of what is free: beyond that its fetches get "
        "smaller answers, wait for at most max_wait_ms, and are refused with OVERLOADED. Each byte takes two "
        "bytes of memory",
    )
    parked_fetches_max: int = Field(
        10_000,
        ge=1,
        description="the most fetches that may wait for new records; more are refused. A connection may hold "
        "a quarter of the free places",
    )
    disk_timeout_ms: int = Field(
        30_000,
        ge=1_000,
        description="if one call to a disk takes longer, its data directory goes offline; leave room for a "
        "sync of much data, which may take many seconds. Already after five sixths of the session timeout, "
        "and at least 5 s, other brokers lead the partitions that clients wait for",
    )
    controlled_shutdown_timeout_ms: int = Field(
        5_000,
        ge=0,
        description="how long the broker waits, after SIGTERM, until other brokers lead its partitions",
    )
