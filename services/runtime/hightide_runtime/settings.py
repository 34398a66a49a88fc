"""What every service can be told: flags in kebab-case, or HIGHTIDE_<SERVICE>_<FIELD> in the environment."""

import enum
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, PlainSerializer
from pydantic_settings import BaseSettings

from hightide_runtime.addresses import HostPort


def _host_port(value: object) -> object:
    return HostPort.parse(value) if isinstance(value, str) else value


#: A settings field that is written host:port.
Address = Annotated[HostPort, BeforeValidator(_host_port), PlainSerializer(str, return_type=str)]


class LogLevel(enum.StrEnum):
    """How much is logged."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class ServiceSettings(BaseSettings):
    """The settings that all services share. A service derives from it and adds its own fields.

    class BrokerSettings(ServiceSettings, env_prefix="HIGHTIDE_BROKER_", cli_prog_name="hightide-broker"): ...
    """

    listen: Address = Field(description="host:port to listen on; loopback unless told otherwise")
    advertise: Address | None = Field(None, description="host:port that others are told; default: listen")
    zookeeper: str = Field("127.0.0.1:2181", description="host:port[,host:port…][/chroot] of ZooKeeper")
    zookeeper_session_timeout_ms: int = Field(6000, ge=200, le=120_000)
    zookeeper_connect_timeout_ms: int = Field(30_000, ge=100)
    log_level: LogLevel = LogLevel.INFO

    @property
    def advertised(self) -> HostPort:
        """Where others reach this process."""
        return self.advertise or self.listen

    @classmethod
    def from_command_line(cls, arguments: Sequence[str] | None = None) -> Self:
        """Read flags, then the environment, then defaults. Mains call it first.

        `--help` prints and exits with 0; a bad value exits with 2 and one line that names the flag.
        """
        raise NotImplementedError
