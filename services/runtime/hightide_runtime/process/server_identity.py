"""ServerService: the description of every process. Each main serves it beside its own service."""

from collections.abc import Mapping
from importlib import metadata
from typing import Any, Final, Protocol

from hightide.v1 import server_service_pb2 as server_pb2
from hightide.v1.server_service_pb2_grpc import ServerServiceServicer, add_ServerServiceServicer_to_server

from hightide_runtime.clock import Clock
from hightide_runtime.process.effective_settings import EffectiveSetting, SettingOrigin
from hightide_runtime.process.settings import ServiceSettings
from hightide_runtime.serving.interceptors.interceptor import Plane
from hightide_runtime.serving.server import Service
from hightide_runtime.zookeeper.session import SessionState

SERVER_SERVICE: str = server_pb2.DESCRIPTOR.services_by_name["ServerService"].full_name
UNKNOWN_VERSION = "unknown"
_ORIGINS: Final[Mapping[SettingOrigin, server_pb2.ServerSettingOrigin.ValueType]] = {
    SettingOrigin.DEFAULT: server_pb2.SERVER_SETTING_ORIGIN_DEFAULT,
    SettingOrigin.ENVIRONMENT: server_pb2.SERVER_SETTING_ORIGIN_ENVIRONMENT,
    SettingOrigin.ARGUMENT: server_pb2.SERVER_SETTING_ORIGIN_ARGUMENT,
}


class GrantedSession(Protocol):
    """What this module needs of the ZooKeeper session."""

    @property
    def granted_timeout_ms(self) -> int:
        """The session timeout that ZooKeeper agreed to; 0 while there is no session."""
        ...

    @property
    def state(self) -> SessionState:
        """Whether ZooKeeper answers it."""
        ...


class ServerServicer(ServerServiceServicer):
    """Answers `hightide doctor`, `hightide version`, and calls by grpcurl."""

    def __init__(
        self, service: str, instance: int, settings: ServiceSettings, session: GrantedSession, clock: Clock
    ) -> None:
        """`service`: broker, controller or coordinator. The time of this call counts as the start."""
        self._service = service
        self._instance = str(instance)
        self._settings = settings
        self._session = session
        self._clock = clock
        self._version = installed_version()
        self._started_at_ms = clock.wall_us() // 1000
        # They do not change while the process runs.
        self._told = [_setting_out(each) for each in settings.effective]

    async def DescribeServer(  # noqa: N802
        self, request: server_pb2.DescribeServerRequest, context: Any
    ) -> server_pb2.DescribeServerResponse:
        """Return the program, the time of its start, its clock, and its settings."""
        external = self._settings.external_advertised
        # One that was cut off learns that its session expired only when ZooKeeper is there again.
        is_connected = self._session.state is SessionState.CONNECTED
        return server_pb2.DescribeServerResponse(
            service=self._service,
            instance=self._instance,
            version=self._version,
            started_at_ms=self._started_at_ms,
            clock_ms=self._clock.wall_us() // 1000,
            advertised=str(self._settings.advertised),
            external_advertised="" if external is None else str(external),
            zookeeper_session_timeout_ms=self._session.granted_timeout_ms if is_connected else 0,
            settings=self._told,
        )


def _setting_out(setting: EffectiveSetting) -> server_pb2.ServerSetting:
    return server_pb2.ServerSetting(
        name=setting.name,
        value=setting.value,
        default_value=setting.default,
        origin=_ORIGINS[setting.origin],
        variable=setting.variable,
        meaning=setting.meaning,
    )


def identity_service(
    service: str, instance: int, settings: ServiceSettings, session: GrantedSession, clock: Clock
) -> Service:
    """ServerService as `serve` takes it. Called by mains shortly before they serve."""
    servicer = ServerServicer(service, instance, settings, session, clock)
    return Service(SERVER_SERVICE, servicer, add_ServerServiceServicer_to_server, plane=Plane.CONTROL)


def installed_version() -> str:
    """The version of the installed package; "unknown" if it was not installed as one."""
    try:
        return metadata.version("hightide")
    except metadata.PackageNotFoundError:
        return UNKNOWN_VERSION
