"""What a coordinator can be told: flags, or HIGHTIDE_COORDINATOR_<FIELD> in the environment."""

from __future__ import annotations

from hightide_runtime.addresses import HostPort
from hightide_runtime.process.settings import Address, ServiceSettings
from hightide_runtime.znodes.group_znodes import SHARDS_MAX
from pydantic import Field

from hightide_coordinator.core.values.limits import GroupLimits

__all__ = ["CoordinatorSettings"]


class CoordinatorSettings(
    ServiceSettings, env_prefix="HIGHTIDE_COORDINATOR_", cli_prog_name="hightide-coordinator"
):
    """A coordinator: it shares partitions out among consumers. Each flag may also be a variable of the
    environment, as HIGHTIDE_COORDINATOR_ZOOKEEPER for --zookeeper; a flag comes before it."""

    coordinator_id: int = Field(ge=0, le=2**31 - 1, description="its id, unique in the cluster")
    listen: Address = Field(HostPort("127.0.0.1", 9292), description="host:port to listen on")
    shards: int = Field(
        1,
        ge=1,
        le=SHARDS_MAX,
        description="into how many shards groups are divided; fixed by the first coordinator of a cluster",
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
        description="how many pings in a row may go unanswered beyond the first",
    )
    commit_interval_ms: int = Field(
        5_000, ge=10, description="how often positions of auto-committing consumers are written down"
    )
    join_window_ms: int = Field(
        100, ge=0, description="how long a change of members waits for more of them before a rebalance"
    )
    join_window_max_ms: int = Field(
        3_000, ge=0, description="how long it waits at most, while more of them come"
    )
    rebalance_retries_max: int = Field(
        4, ge=0, description="how often a rebalance is tried again before the group counts as failed"
    )
    rebalance_backoff_ms: int = Field(500, ge=1, description="the pause before a rebalance is tried again")
    rebalance_backoff_max_ms: int = Field(10_000, ge=1, description="the longest such pause; it doubles")
    consumers_max: int = Field(
        20_000, ge=1, description="how many consumers a shard, and a process, takes; more are refused"
    )
    groups_max: int = Field(10_000, ge=1, description="how many groups a shard takes; more are refused")
    request_timeout_ms: int = Field(
        25_000, ge=100, description="how long a commit, reset or delete waits until it is durable"
    )
    group_lag_interval_ms: int = Field(
        0,
        ge=0,
        le=86_400_000,
        description="how often leaders are asked where logs end, to report the lag of groups; 0: never",
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
