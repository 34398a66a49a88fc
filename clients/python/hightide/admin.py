"""The blocking admin client."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Literal, Self

from hightide.records import ClusterDescription, TopicDescription, TopicPartition

OffsetAt = Literal["earliest", "latest"] | datetime | int


class Admin:
    """Creates and describes; thread-safe. It finds the active controller by itself and follows it when it changes.

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
        raise NotImplementedError

    def create_topic(
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
        InvalidPartitionCountError, InvalidReplicationFactorError, InvalidAssignmentError, InvalidConfigError."""
        raise NotImplementedError

    def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        """These topics in this order, or all by name, from the controller. Raises UnknownTopicError."""
        raise NotImplementedError

    def list_topics(self) -> list[str]:
        """The names of all topics, sorted, as any broker knows them."""
        raise NotImplementedError

    def describe_cluster(self) -> ClusterDescription:
        """The brokers, the controller, and what is not well."""
        raise NotImplementedError

    def list_offsets(
        self, partitions: Iterable[TopicPartition], at: OffsetAt = "latest"
    ) -> dict[TopicPartition, int | None]:
        """The first ("earliest"), the next ("latest"), or the first offset at or after a time; None where no
        committed record is that late. Raises UnknownTopicError, UnknownPartitionError."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of all connections. Closing twice does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
