"""What a controller can be told: flags, or HIGHTIDE_CONTROLLER_<FIELD> in the environment."""

from __future__ import annotations

from hightide_runtime.addresses import HostPort
from hightide_runtime.process.settings import Address, ServiceSettings
from pydantic import Field

__all__ = ["ControllerSettings"]


class ControllerSettings(
    ServiceSettings, env_prefix="HIGHTIDE_CONTROLLER_", cli_prog_name="hightide-controller"
):
    """A controller: it decides who leads. Each flag may also be a variable of the environment, as
    HIGHTIDE_CONTROLLER_ZOOKEEPER for --zookeeper; a flag comes before it."""

    controller_id: int = Field(ge=0, le=2**31 - 1, description="this controller's id, unique in the cluster")
    listen: Address = Field(HostPort("127.0.0.1", 9192), description="host:port to listen on")
    broker_rpc_timeout_ms: int = Field(
        5_000, ge=100, description="one attempt to tell a broker; it is repeated while that broker lives"
    )
    create_topic_timeout_ms: int = Field(
        10_000, ge=100, description="how long CreateTopic waits for the leaders of a topic"
    )
    request_timeout_ms: int = Field(
        25_000, ge=100, description="how long other requests wait until they are carried out"
    )
    controlled_shutdown_timeout_ms: int = Field(
        1_000, ge=10, description="how long ControlledShutdown waits for brokers to acknowledge"
    )
    resignation_rest_ms: int = Field(
        2_000, ge=0, description="how long it lets others be elected first after it was told to step down"
    )
    refresh_interval_ms: int = Field(
        1_000, ge=10, description="how often partitions that are not fully in sync are read again"
    )
    leader_rebalance_interval_ms: int = Field(
        300_000,
        ge=0,
        description="how often leadership is given back to preferred replicas; 0: only by hand",
    )
    leader_imbalance_percent: int = Field(
        10,
        ge=0,
        le=100,
        description="share of a broker's preferred partitions led elsewhere from which it is given back",
    )
