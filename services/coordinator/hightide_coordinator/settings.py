"""The settings of a coordinator: flags, or HIGHTIDE_COORDINATOR_<FIELD> in the environment."""

from __future__ import annotations

from hightide_runtime.addresses import HostPort
from hightide_runtime.process.settings import Address, ServiceSettings
from hightide_runtime.znodes.group_znodes import SHARDS_DEFAULT, SHARDS_MAX
from pydantic import Field

from hightide_coordinator.core.values.limits import GroupLimits

__all__ = ["CoordinatorSettings"]


class CoordinatorSettings(
    ServiceSettings, env_prefix="HIGHTIDE_COORDINATOR_", cli_prog_name="hightide-coordinator"
):
    """A coordinator: it assigns partitions to the consumers of groups. Each flag may also be set by an
    environment variable, for example --zookeeper by HIGHTIDE_COORDINATOR_ZOOKEEPER. A flag overrides the
    variable."""

    coordinator_id: int = Field(
        ge=0,
        le=2**31 - 1,
        description="the id of this coordinator; no other coordinator of the cluster may have it",
    )
    listen: Address = Field(HostPort("127.0.0.1", 9292), description="the host:port to listen on")
    shards: int | None = Field(
        None,
        ge=1,
        le=SHARDS_MAX,
        description="the number of shards among which groups are divided; the first coordinator of a "
        f"cluster sets it for good, to {SHARDS_DEFAULT} if it is given none; without a value, a coordinator "
        "takes any cluster as it is",
    )
    shard_balance_interval_ms: int = Field(
        10_000,
        ge=0,
        le=86_400_000,
        description="how often a coordinator compares the number of its shards with those of others; if "
        "nothing has changed since the last time, and another one has fewer by two, it gives one up; 0: "
        "never",
    )
    session_timeout_min_ms: int = Field(
        500, ge=50, description="the shortest session timeout that a consumer may ask for"
    )
    session_timeout_max_ms: int = Field(
        1_800_000, ge=50, description="the longest session timeout that a consumer may ask for"
    )
    ping_retries_max: int = Field(
        0,
        ge=0,
        le=100,
        description="how many more pings a consumer may leave unanswered before it counts as dead",
    )
    commit_interval_ms: int = Field(
        5_000,
        ge=10,
        description="how often the positions of consumers with auto_commit are written to ZooKeeper",
    )
    join_window_ms: int = Field(
        100,
        ge=0,
        description="how long a group waits for further changes of its members before it rebalances",
    )
    join_window_max_ms: int = Field(3_000, ge=0, description="the longest such wait, if changes keep coming")
    rebalance_retries_max: int = Field(
        4, ge=0, description="how often a failed rebalance is repeated before the group counts as failed"
    )
    rebalance_backoff_ms: int = Field(
        500, ge=1, description="the pause before a failed rebalance is repeated; it doubles each time"
    )
    rebalance_backoff_max_ms: int = Field(10_000, ge=1, description="the longest such pause")
    consumers_max: int = Field(
        20_000, ge=1, description="the most consumers of a shard, and of this process; more are refused"
    )
    groups_max: int = Field(10_000, ge=1, description="the most groups of a shard; more are refused")
    request_timeout_ms: int = Field(
        25_000, ge=100, description="how long a commit, reset or delete waits until it is durable"
    )
    group_lag_interval_ms: int = Field(
        0,
        ge=0,
        le=86_400_000,
        description="how often the coordinator asks leaders for the ends of their logs, to report the lag of "
        "groups as a metric; 0: never",
    )

    @property
    def limits(self) -> GroupLimits:
        """What the core decides by."""
        return GroupLimits(
            session_timeout_min_ms=self.session_timeout_min_ms,
            session_timeout_max_ms=self.session_timeout_max_ms,
            ping_retries_max=self.ping_retries_max,
            commit_interval_ms=self.commit_interval_ms,
            join_window_ms=self.join_window_ms,
            join_window_max_ms=self.join_window_max_ms,
            rebalance_retries_max=self.rebalance_retries_max,
            rebalance_backoff_ms=self.rebalance_backoff_ms,
            rebalance_backoff_max_ms=self.rebalance_backoff_max_ms,
            consumers_max=self.consumers_max,
            groups_max=self.groups_max,
        )
