"""What a broker can be told: flags, or HIGHTIDE_BROKER_<FIELD> in the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from hightide_runtime.addresses import HostPort
from hightide_runtime.process.settings import Address, ServiceSettings
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
        raise ValueError("no directory is given")
    # The disk is not asked, since it may not answer; a link to the same is found by its lock.
    resolved = [os.path.abspath(path) for path in paths]
    for place, path in enumerate(resolved):
        if path in resolved[:place]:
            raise ValueError(f"{paths[place]} is given twice")
    return paths


#: NoDecode: pydantic-settings would expect JSON in the environment.
Directories = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_paths), AfterValidator(_distinct)]


class BrokerSettings(ServiceSettings, env_prefix="HIGHTIDE_BROKER_", cli_prog_name="hightide-broker"):
    """A broker: it stores the records. Each flag may also be a variable of the environment, as
    HIGHTIDE_BROKER_DATA_DIR for --data-dir; a flag comes before it."""

    broker_id: int = Field(ge=0, le=2**31 - 1, description="this broker's id, unique in the cluster")
    listen: Address = Field(HostPort("127.0.0.1", 9092), description="host:port to listen on")
    data_dir: Directories = Field(
        description="where logs lie; give it again for each further disk, or separate by commas; belongs to "
        "this broker alone"
    )
    replica_lag_time_max_ms: int = Field(
        10_000, ge=100, description="a follower that is not caught up for so long leaves the ISR"
    )
    min_insync_replicas: int = Field(
        1,
        ge=1,
        description="for topics without min.insync.replicas: one that is created with three replicas or more "
        "has 2 of its own unless it says otherwise",
    )
    replica_fetch_max_wait_ms: int = Field(
        500, ge=10, le=30_000, description="how long a follower's fetch is parked while nothing is new"
    )
    replica_fetch_max_bytes: int = Field(
        8 * 1024 * 1024,
        ge=1024,
        le=15 * 1024 * 1024,
        description="how much one answer to a follower's fetch holds at most",
    )
    high_watermark_checkpoint_interval_ms: int = Field(
        5_000, ge=100, description="how often high watermarks are written down for the next start"
    )
    flush_interval_ms: int = Field(
        30_000, ge=100, description="how often logs are synced that nobody waits for; bounds recovery"
    )
    retention_check_interval_ms: int = Field(
        60_000, ge=100, description="how often it is looked for records that retention lets go"
    )
    scrub_bytes_per_s: int = Field(
        4 * 1024 * 1024,
        ge=0,
        description="how fast what is at rest is read and checked, in bytes a second; 0: not at all",
    )
    scrub_interval_ms: int = Field(
        24 * 60 * 60 * 1000, ge=100, description="how often at most all that is at rest is read and checked"
    )
    in_flight_produce_bytes_max: int = Field(
        256 * 1024 * 1024, ge=1024 * 1024, description="unfinished produce requests beyond it are refused"
    )
    parked_fetches_max: int = Field(10_000, ge=1, description="waiting fetches beyond it are refused")
    disk_timeout_ms: int = Field(
        30_000,
        ge=1_000,
        description="a single call to a disk that takes longer takes its data directory offline; the sync of "
        "much that was written may take many seconds. Others lead what clients wait for after five sixths of "
        "the session timeout, 5 s at the least",
    )
    controlled_shutdown_timeout_ms: int = Field(
        5_000, ge=0, description="how long SIGTERM waits for leadership to move elsewhere"
    )
