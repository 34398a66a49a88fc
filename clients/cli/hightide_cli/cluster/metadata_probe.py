"""One broker's knowledge of the cluster, asked for directly. Used when there is no controller to ask, and to
compare several brokers. Each question is one call that is bounded in time."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from hightide import BrokerDescription, ClusterDescription
from hightide.calls.call import MessageCall, Method
from hightide.calls.credentials import Credentials
from hightide.errors import (
    AddressUnreachableError,
    BrokersUnavailableError,
    HightideError,
    NotAuthenticatedError,
    TlsHandshakeError,
    TlsRefusedError,
    TokenNotSentError,
)
from hightide.transport.transport import Transport
from hightide.v1.broker_service_pb2 import GetMetadataRequest, GetMetadataResponse
from hightide.v1.metadata_pb2 import Endpoint

#: Stands for the id of a controller where there is none.
NO_CONTROLLER = -1


class MetadataProbe:
    """Connections to the addresses that are probed; use it as a with-block."""

    def __init__(self, timeout_ms: int, credentials: Credentials) -> None:
        self._transport = Transport("hightide-cli", credentials)
        self._timeout_ms = timeout_ms

    def ask(self, address: str, *, all_topics: bool = False) -> GetMetadataResponse:
        """The knowledge of the broker at this address. Raises HightideError."""
        request = GetMetadataRequest(all_topics=all_topics)
        call = MessageCall(address, Method.GET_METADATA, self._timeout_ms, request, GetMetadataResponse)
        try:
            return self._transport.run(call)
        except AddressUnreachableError as error:
            raise self._transport.looked_into(error, address) from error

    def ask_any(self, addresses: Iterable[str], *, all_topics: bool = False) -> GetMetadataResponse:
        """The knowledge of the first of these brokers that answers; at least one is given. Raises
        BrokersUnavailableError, of which TlsRefusedError is one, and the refusal of a token."""
        failures: dict[str, HightideError] = {}
        for address in addresses:
            try:
                return self.ask(address, all_topics=all_topics)
            except HightideError as error:
                failures[address] = error
        if all(isinstance(each, TlsHandshakeError) for each in failures.values()):
            said = "\n".join(each.message for each in failures.values())
            raise TlsRefusedError(said, addresses=tuple(failures))
        *_, last = failures.values()
        if isinstance(last, NotAuthenticatedError | TokenNotSentError):
            raise last
        raise BrokersUnavailableError(f"no broker answers: {last}", addresses=tuple(failures))

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def address_of(endpoint: Endpoint) -> str | None:
    """host:port, or None for no server."""
    return f"{endpoint.host}:{endpoint.port}" if endpoint.host else None


def coordinators_in(metadata: GetMetadataResponse) -> tuple[str | None, ...]:
    """The active coordinator of each shard of groups."""
    return tuple(address_of(each) for each in metadata.coordinators)


def without_controller(metadata: GetMetadataResponse) -> ClusterDescription:
    """The cluster as a broker last heard of it, for a cluster without a controller to describe it. The
    brokers are those that were alive then; their replicas are counted from the partitions."""
    partitions = [(topic, each) for topic in metadata.topics for each in topic.partitions]
    return ClusterDescription(
        cluster_id=metadata.cluster_id,
        controller_id=NO_CONTROLLER,
        controller_address="",
        controller_epoch=metadata.controller_epoch,
        brokers=tuple(
            BrokerDescription(
                broker_id=broker.id,
                address=address_of(broker),
                alive=True,
                broker_epoch=0,
                leader_count=sum(each.leader == broker.id for _, each in partitions),
                replica_count=sum(broker.id in each.replicas for _, each in partitions),
            )
            for broker in sorted(metadata.brokers, key=lambda each: each.id)
        ),
        topic_count=len(metadata.topics),
        partition_count=len(partitions),
        offline_partition_count=sum(each.leader < 0 for _, each in partitions),
        under_replicated_partition_count=sum(len(each.isr) < len(each.replicas) for _, each in partitions),
        under_min_isr_partition_count=sum(
            len(each.isr) < _least_in_sync(topic.configs.get("min.insync.replicas"), each.replicas)
            for topic, each in partitions
        ),
    )


def _least_in_sync(setting: str | None, replicas: Sequence[int]) -> int:
    """The value that a topic's setting asks for; an unreadable setting asks for nothing."""
    return min(int(setting), len(replicas)) if setting is not None and setting.isdigit() else 1
