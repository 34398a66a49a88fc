"""The settings of a controller: flags, or HIGHTIDE_CONTROLLER_<FIELD> in the environment."""

from __future__ import annotations

from hightide_runtime.addresses import HostPort
from hightide_runtime.process.settings import Address, ServiceSettings
from pydantic import Field, field_validator

__all__ = ["ControllerSettings"]

_PING_TIMEOUT_MIN_MS = 300
"""Three times what a ping, its answer or a new connection may take at the least (process_watcher.py)."""


class ControllerSettings(
    ServiceSettings, env_prefix="HIGHTIDE_CONTROLLER_", cli_prog_name="hightide-controller"
):
    """A controller: it elects the leader of each partition. Each flag may also be set by an environment
    variable, for example --zookeeper by HIGHTIDE_CONTROLLER_ZOOKEEPER. A flag overrides the variable."""

    controller_id: int = Field(
        ge=0,
        le=2**31 - 1,
        description="the id of this controller; no other controller of the cluster may have it",
    )
    listen: Address = Field(HostPort("127.0.0.1", 9192), description="the host:port to listen on")
    broker_rpc_timeout_ms: int = Field(
        5_000,
        ge=100,
        description="how long the controller waits for a broker's answer before it sends the decision again",
    )
    broker_ping_timeout_ms: int = Field(
        1_200,
        ge=0,
        description="how long a broker may be silent until it counts as dead, as when it is paused or its "
        "machine is gone: a third for the answer to a ping, a third for a new connection, and the time until "
        "the ping, half a second at most; at least 300; 0: until its ZooKeeper session expires",
    )
    create_topic_timeout_ms: int = Field(
        10_000,
        ge=100,
        description="how long CreateTopic waits until all partitions of the topic have leaders",
    )
    request_timeout_ms: int = Field(
        25_000, ge=100, description="how long any other request waits until it is carried out"
    )
    controlled_shutdown_timeout_ms: int = Field(
        1_000,
        ge=10,
        description="how long a broker that shuts down waits until other brokers acknowledge its successors",
    )
    resignation_rest_ms: int = Field(
        2_000,
        ge=0,
        description="how long this controller does not stand for election after `controller resign`",
    )
    refresh_interval_ms: int = Field(
        1_000,
        ge=10,
        description="how often partitions that are not fully in sync are read from ZooKeeper again",
    )
    leader_rebalance_interval_ms: int = Field(
        300_000,
        ge=0,
        description="how often leadership returns to the preferred replicas; 0: only by `elect preferred`",
    )
    leader_imbalance_percent: int = Field(
        10,
        ge=0,
        le=100,
        description="leadership returns to a broker if other brokers lead more than this share of the "
        "partitions that prefer it",
    )

    @field_validator("broker_ping_timeout_ms", mode="after")
    @classmethod
    def _is_no_hair_trigger(cls, timeout_ms: int) -> int:
        if 0 < timeout_ms < _PING_TIMEOUT_MIN_MS:
            raise ValueError(
                f"a broker would count as dead after {timeout_ms} ms without an answer; give at least "
                f"{_PING_TIMEOUT_MIN_MS}, or 0 to leave it to ZooKeeper sessions"
            )
        return timeout_ms
