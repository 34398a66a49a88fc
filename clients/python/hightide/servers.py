"""The values that describe the servers of a cluster. All of them are immutable."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide.errors import HightideError


class SettingOrigin(Enum):
    """The source of a server's setting."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    ARGUMENT = "argument"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ServerSetting:
    """One setting of a process. `value` and `default` are written as on its command line, "" if there is
    none. The environment variable `variable` sets the same as `--name`."""

    name: str
    value: str
    default: str
    origin: SettingOrigin
    variable: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A controller or a coordinator, and its address."""

    server_id: int
    address: str


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """One process: a broker, a controller or a coordinator. `clock_ms` is the time of its clock, in
    milliseconds since 1970, at about the middle of `round_trip_ms`. `external_advertised` is "" if it has no
    external listener. `zookeeper_session_timeout_ms` is 0 while it has no session, or ZooKeeper does not
    answer it. `settings` is empty if its version does not send them."""

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
    """One directory in which a broker keeps logs. If `failed`, it can no longer be used. The sizes are those
    of its file system, or 0 if they are not known.

    For a broker that does not answer, a listing has one entry without a path, whose `error` says why.
    """

    broker_id: int
    path: str
    total_bytes: int
    free_bytes: int
    failed: bool
    error: "HightideError | None" = None
