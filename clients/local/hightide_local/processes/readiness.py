"""Asks the processes of a cluster over gRPC whether they are ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hightide.v1 import broker_service_pb2, controller_service_pb2, coordinator_service_pb2
from hightide.v1.broker_service_pb2_grpc import BrokerServiceStub
from hightide.v1.controller_service_pb2_grpc import ControllerServiceStub
from hightide.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from hightide.v1.metadata_pb2 import PartitionMetadata

from hightide_local.errors import ClusterError

if TYPE_CHECKING:
    # It takes its time to import, and few clusters have TLS.
    from hightide_local.certificates import CertificateFiles

_Reply = TypeVar("_Reply")
#: One question waits this long for a process that starts. Then the caller checks whether the process still
#: runs.
_WAIT_S = 0.25
_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
]


class _NotFound(Exception):
    """The process answered NOT_FOUND."""


class ReadinessChannels:
    """Questions to the processes of a cluster. Use it in a with-block, which closes the channels. The answer
    is False or empty if the process does not answer."""

    def __init__(self, certificates: CertificateFiles | None = None) -> None:
        """`certificates`: those with which a cluster with TLS is called; None: it speaks plaintext."""
        self._credentials = None if certificates is None else _credentials(certificates)
        self._channels: dict[str, grpc.Channel] = {}

    def is_serving(self, address: str) -> bool:
        """Whether the health check of a process says SERVING. Waits up to _WAIT_S for one that starts."""
        stub = health_pb2_grpc.HealthStub(self._channel(address))
        request = health_pb2.HealthCheckRequest(service="")
        reply = _answer(lambda: stub.Check(request, timeout=_WAIT_S, wait_for_ready=True))
        return reply is not None and reply.status == health_pb2.HealthCheckResponse.SERVING

    def knows_brokers(self, address: str, brokers: Set[int]) -> bool:
        """Whether a broker knows an active controller and, from it, all these live brokers."""
        stub = BrokerServiceStub(self._channel(address))
        request = broker_service_pb2.GetMetadataRequest()
        reply = _answer(lambda: stub.GetMetadata(request, timeout=1.0))
        if reply is None or not reply.HasField("controller"):
            return False
        return brokers <= {broker.id for broker in reply.brokers}

    def knows_coordinators(self, address: str) -> bool:
        """Whether a broker knows an active coordinator for each shard of groups."""
        stub = BrokerServiceStub(self._channel(address))
        request = broker_service_pb2.GetMetadataRequest()
        reply = _answer(lambda: stub.GetMetadata(request, timeout=1.0))
        coordinators = () if reply is None else reply.coordinators
        return bool(coordinators) and all(each.host for each in coordinators)

    def is_active_controller(self, address: str) -> bool:
        """Whether the controller answers as the active one."""
        stub = ControllerServiceStub(self._channel(address))
        request = controller_service_pb2.DescribeClusterRequest()
        return _answer(lambda: stub.DescribeCluster(request, timeout=1.0)) is not None

    def counts_as_alive(self, address: str, brokers: Set[int]) -> bool:
        """Whether the controller is the active one and counts all these brokers as alive."""
        stub = ControllerServiceStub(self._channel(address))
        request = controller_service_pb2.DescribeClusterRequest()
        reply = _answer(lambda: stub.DescribeCluster(request, timeout=1.0))
        return reply is not None and brokers <= {each.endpoint.id for each in reply.brokers if each.alive}

    def partitions_of(self, address: str, topic: str) -> Sequence[PartitionMetadata]:
        """The partitions of a topic; none if the controller is not the active one. Raises ClusterError if
        there is no such topic."""
        stub = ControllerServiceStub(self._channel(address))
        request = controller_service_pb2.DescribeTopicsRequest(topics=[topic])
        try:
            reply = _answer(lambda: stub.DescribeTopics(request, timeout=1.0))
        except _NotFound:
            raise ClusterError(f"there is no topic {topic!r} in this cluster; create it first") from None
        if reply is None:
            return ()
        described = reply.topics[0]
        if described.error_code:
            raise ClusterError(f"there is no topic {topic!r} in this cluster; create it first")
        return described.partitions

    def is_active_coordinator(self, address: str, group: str = "") -> bool:
        """Whether the coordinator is active, for the shard of this group if one is named."""
        stub = CoordinatorServiceStub(self._channel(address))
        if group:
            offsets = coordinator_service_pb2.FetchOffsetsRequest(group=group)
            try:
                return _answer(lambda: stub.FetchOffsets(offsets, timeout=1.0)) is not None
            except _NotFound:
                return True  # Only the active coordinator answers that a group does not exist.
        groups = coordinator_service_pb2.ListGroupsRequest()
        return _answer(lambda: stub.ListGroups(groups, timeout=1.0)) is not None

    def __enter__(self) -> Self:
        """Return the questions. Channels are opened when they are needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the channels."""
        for channel in self._channels.values():
            channel.close()

    def _channel(self, address: str) -> grpc.Channel:
        if address not in self._channels:
            self._channels[address] = (
                grpc.insecure_channel(address, _OPTIONS)
                if self._credentials is None
                else grpc.secure_channel(address, self._credentials, _OPTIONS)
            )
        return self._channels[address]


def _credentials(certificates: CertificateFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        certificates.ca.read_bytes(), certificates.key.read_bytes(), certificates.certificate.read_bytes()
    )


def _answer(call: Callable[[], _Reply]) -> _Reply | None:
    try:
        return call()
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            raise _NotFound from error
        # The process has not started, or is not the active one. The caller asks again until its timeout.
        return None
