"""What the SDK tells of the servers of a cluster. All of it is immutable."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide.errors import HightideError


class SettingOrigin(Enum):
    """Who said what a setting of a server is."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    ARGUMENT = "argument"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ServerSetting:
    """One setting of a process. `value` and `default` are as on its command line, "" where there is none;
    `variable` of its environment says the same as `--name`."""

    name: str
    value: str
    default: str
    origin: SettingOrigin
    variable: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A controller or a coordinator, and where it is reached."""

    server_id: int
    address: str


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """One process: a broker, a controller or a coordinator. `clock_ms` is what its clock showed, in
    milliseconds since 1970, about the middle of `round_trip_ms`; `external_advertised` is "" where it has no
    external listener, `zookeeper_session_timeout_ms` 0 while it has no session. `settings` are empty where it
    is of a version that does not tell them."""

    service: str
    instance: str
    version: str
    started_at_ms: int
    clock_ms: int
    advertised: str
    external_advertised: str
    zookeeper_session_timeout_ms: int
    round_trip_ms: float
    settings: tuple[ServerSetting, ...] = ()


@dataclass(frozen=True, slots=True)
class ResignedController:
    """The controller that stepped down, and the epoch that ended with it."""

    controller_id: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """One directory in which a broker keeps logs. `failed`: it cannot be used any more. The sizes are those
    of the file system that it lies on; 0 where they are not known.

    A broker that does not answer stands in a listing with one entry without a path, whose `error` says
    why."""

    broker_id: int
    path: str
    total_bytes: int
    free_bytes: int
    failed: bool
    error: "HightideError | None" = None
