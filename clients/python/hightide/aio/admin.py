"""The asyncio admin client."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Literal, Self, TypeVar

from hightide.addresses import bootstrap_addresses
from hightide.admin_operations import AdminOperations
from hightide.aio.running import run
from hightide.driver import now_ms
from hightide.errors import ClosedError
from hightide.leaders_seen import LeadersSeen
from hightide.offset_at import offset_at
from hightide.operations import Operation
from hightide.records import ClusterDescription, TopicDescription, TopicPartition
from hightide.transport import AioTransport

T = TypeVar("T")

OffsetWhen = Literal["earliest", "latest"] | datetime | int


class Admin:
    """Creates and describes on one event loop. It finds the active controller by itself and follows it when
    it changes.

    Every method retries what may pass until timeout_ms is over, then raises what stood in the way last:
    BrokersUnavailableError, ControllerUnavailableError, or the server's typed error.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        timeout_ms: int = 30_000,
        client_id: str | None = None,
    ) -> None:
        self._bootstrap = bootstrap_addresses(bootstrap)
        self._timeout_ms = timeout_ms
        self._seen = LeadersSeen()
        self._transport = AioTransport(client_id)
        self._closed = False

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        *,
        configs: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> TopicDescription:
        """Create a topic and wait until its partitions have leaders. `assignment` names the brokers of each
        partition and then stands for the two numbers. Raises TopicAlreadyExistsError, InvalidTopicNameError,
        InvalidPartitionCountError, InvalidReplicationFactorError, InvalidAssignmentError,
        InvalidConfigError."""
        return await self._run(
            self._operations().create_topic(
                name,
                partitions,
                replication_factor,
                configs=configs or {},
                assignment=assignment,
                validate_only=validate_only,
            )
        )

    async def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        """These topics in this order, or all by name, from the controller. Raises UnknownTopicError."""
        return await self._run(self._operations().describe_topics(None if names is None else list(names)))

    async def list_topics(self) -> list[str]:
        """The names of all topics, sorted, as any broker knows them."""
        return await self._run(self._operations().list_topics())

    async def describe_cluster(self) -> ClusterDescription:
        """The brokers, the controller, and what is not well."""
        return await self._run(self._operations().describe_cluster())

    async def list_offsets(
        self, partitions: Iterable[TopicPartition], at: OffsetWhen = "latest"
    ) -> dict[TopicPartition, int | None]:
        """The first ("earliest"), the next ("latest"), or the first offset at or after a time; None where no
        committed record is that late. Raises UnknownTopicError, UnknownPartitionError."""
        look_up = offset_at(at)
        return await self._run(self._operations().list_offsets(dict.fromkeys(partitions, look_up)))

    def _operations(self) -> AdminOperations:
        return AdminOperations(self._bootstrap, self._timeout_ms, now_ms, self._seen)

    async def _run(self, operation: Operation[T]) -> T:
        if self._closed:
            raise ClosedError("this admin client is closed")
        return await run(operation, self._transport)

    async def close(self) -> None:
        """Let go of all connections. Closing twice does nothing."""
        self._closed = True
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
