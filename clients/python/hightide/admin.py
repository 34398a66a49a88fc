# Generated from aio/admin.py by `make blocking`: change that one, not this.
"""The blocking admin client."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Literal, Self, TypeVar

from hightide.acls import AccessDecision, Acl, AclListing, AlteredAcls, OperationName, ResourceTypeName
from hightide.administering.reassignment_operations import ElectionKindName
from hightide.administering.topic_operations import AdminOperations
from hightide.calls.addresses import bootstrap_addresses
from hightide.calls.credentials import Token, chosen_credentials
from hightide.calls.tls_files import FilePath
from hightide.cluster.leaders_seen import LeadersSeen
from hightide.cluster.offset_at import offset_at
from hightide.cluster.operations import Operation
from hightide.consumer_group.operations import ResetTo
from hightide.errors import ClosedError, HightideError
from hightide.groups import CommittedOffset, GroupDescription, GroupListing, OffsetReset, PartitionLag
from hightide.quotas import NO_LIMITS, Quota
from hightide.records import (
    ClusterDescription,
    DeletedTopic,
    Election,
    PartitionOutcome,
    ProducerState,
    ReassignmentListing,
    ReplicaListing,
    TopicDescription,
    TopicPartition,
)
from hightide.servers import LogDirectory, ResignedController, ServerDescription
from hightide.transport.driver import now_ms
from hightide.transport.running import run
from hightide.transport.transport import Transport

T = TypeVar("T")

OffsetWhen = Literal["earliest", "latest"] | datetime | int


class Admin:
    """Creates, changes and describes; thread-safe. It finds the active controller by itself and follows it
    when it changes.

    Every method retries after errors that may pass, until timeout_ms is over. Then it raises the last one:
    BrokersUnavailableError, ControllerUnavailableError, or the server's typed error.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        timeout_ms: int = 30_000,
        client_id: str | None = None,
        tls_ca: FilePath | None = None,
        tls_certificate: FilePath | None = None,
        tls_key: FilePath | None = None,
        token: Token | None = None,
        token_file: FilePath | None = None,
    ) -> None:
        self._bootstrap = bootstrap_addresses(bootstrap)
        self._timeout_ms = timeout_ms
        self._seen = LeadersSeen()
        credentials = chosen_credentials(tls_ca, tls_certificate, tls_key, token, token_file)
        self._transport = Transport(client_id, credentials)
        self._closed = False

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
        partition, and then replaces the two numbers. A topic with three replicas or more, and no
        min.insync.replicas in `configs`, gets the value 2. Raises TopicAlreadyExistsError,
        InvalidTopicNameError, InvalidPartitionCountError, InvalidReplicationFactorError,
        InvalidAssignmentError, InvalidConfigError."""
        return self._run(
            self._operations().create_topic(
                name,
                partitions,
                replication_factor,
                configs=configs or {},
                assignment=assignment,
                validate_only=validate_only,
            )
        )

    def delete_topic(self, name: str, *, validate_only: bool = False) -> DeletedTopic:
        """Delete a topic and its data, even if the broker of a replica is down, and wait until the name is
        free. Raises UnknownTopicError. Safe to repeat: see `AdminOperations.delete_topic`."""
        return self._run(self._operations().delete_topic(name, validate_only=validate_only))

    def add_partitions(
        self,
        name: str,
        partition_count: int,
        *,
        assignment: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> TopicDescription:
        """Grow a topic to this many partitions and wait until the new ones have leaders. From then on, keys
        hash to other partitions. `assignment` names the brokers of each new partition. Raises
        UnknownTopicError, InvalidPartitionCountError, InvalidAssignmentError."""
        return self._run(
            self._operations().add_partitions(
                name, partition_count, assignment=assignment, validate_only=validate_only
            )
        )

    def remove_partitions(
        self, name: str, partition_count: int, *, validate_only: bool = False
    ) -> TopicDescription:
        """Shrink a topic to this many partitions. The partitions with the highest numbers are removed with
        their records. From then on, keys hash to other partitions, and offsets that groups committed for the
        removed partitions are void. Raises UnknownTopicError, InvalidPartitionCountError,
        ReassignmentInProgressError."""
        return self._run(
            self._operations().remove_partitions(name, partition_count, validate_only=validate_only)
        )

    def alter_topic_config(
        self,
        name: str,
        configs: Mapping[str, str] | None = None,
        *,
        reset: Iterable[str] = (),
        validate_only: bool = False,
    ) -> dict[str, str]:
        """Set topic settings, or reset them to their defaults. Returns all settings that differ from the
        defaults afterwards. When it returns, they hold on the live brokers. Raises UnknownTopicError,
        InvalidConfigError."""
        return self._run(
            self._operations().alter_topic_config(name, configs or {}, reset, validate_only=validate_only)
        )

    def reassign_partitions(
        self,
        moves: Mapping[TopicPartition, Sequence[int]],
        *,
        throttle_bytes_per_s: int | None = None,
        validate_only: bool = False,
    ) -> list[PartitionOutcome]:
        """Begin to move partitions to these brokers, of which the first is the preferred leader. Each move is
        accepted or refused on its own. Returns when all are recorded; `list_reassignments` shows their
        progress. `throttle_bytes_per_s` is the speed limit from now on; 0 means none, None leaves it as it
        is. Safe to repeat."""
        return self._run(
            self._operations().reassign_partitions(
                moves, throttle_bytes_per_s=throttle_bytes_per_s, validate_only=validate_only
            )
        )

    def cancel_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, validate_only: bool = False
    ) -> list[PartitionOutcome]:
        """Cancel moves of these partitions, or of all: the partitions stay where they were."""
        return self._run(self._operations().cancel_reassignments(partitions, validate_only=validate_only))

    def list_reassignments(self, partitions: Iterable[TopicPartition] | None = None) -> ReassignmentListing:
        """The moves that are not finished, of these partitions or of all, and their speed limit."""
        return self._run(self._operations().list_reassignments(partitions))

    def set_reassignment_throttle(self, bytes_per_s: int) -> None:
        """Let each broker send at most this many bytes a second to replicas that are being moved; 0 means no
        limit. The limit also holds for moves under way. It slows no replica that is in sync."""
        self._run(self._operations().set_reassignment_throttle(bytes_per_s))

    def describe_quotas(self) -> dict[str, Quota]:
        """All quotas, by principal: `client/alice`; `client/*`, which holds for each client where its own has
        no limit; `anonymous`, which holds for all who do not show who they are, together."""
        return self._run(self._operations().describe_quotas())

    def alter_quota(
        self,
        principal: str,
        limits: Quota = NO_LIMITS,
        *,
        reset: Iterable[str] = (),
        validate_only: bool = False,
    ) -> Quota:
        """Give a principal these limits; those that are None stay as they are. `reset` names limits to take
        away. The cluster knows them within a second. Returns the principal's own quota after the change.
        Raises InvalidArgumentError, InvalidRequestError."""
        return self._run(
            self._operations().alter_quota(principal, limits, reset, validate_only=validate_only)
        )

    def elect_leaders(
        self,
        kind: ElectionKindName,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        validate_only: bool = False,
    ) -> list[Election]:
        """Elect leaders at an operator's request. A "preferred" election makes the preferred leader of each
        partition (None: of all) its leader again, if it is alive and in sync. An "unclean" election lets any
        live replica lead where no in-sync replica is alive. It loses records, so each partition must be
        named. For all partitions, returns only the elections that changed something. Raises
        InvalidArgumentError."""
        return self._run(self._operations().elect_leaders(kind, partitions, validate_only=validate_only))

    def describe_replicas(self, topics: Iterable[str] | None = None) -> ReplicaListing:
        """Sizes and offsets of the replicas of these topics, or of all, from every live broker. Raises
        BrokersUnavailableError, or the last error if no broker answers."""
        return self._run(self._operations().describe_replicas(topics))

    def describe_server(self, address: str) -> ServerDescription:
        """Describe the process that answers at host:port, be it a broker, a controller or a coordinator: its
        version, its clock, and the duration of a call. It is asked at once and without retries. Raises
        AddressUnreachableError, RequestTimeoutError, UnexpectedAnswerError, InvalidArgumentError."""
        return self._run(self._operations().describe_server(address))

    def describe_log_directories(self) -> list[LogDirectory]:
        """The log directories of every live broker, and their free space. A broker that does not answer has
        one entry, whose `error` says why. Raises BrokersUnavailableError, or the last error if no broker
        answers."""
        return self._run(self._operations().describe_log_directories())

    def drain_broker(self, broker_id: int) -> int:
        """Move leadership away from a broker that is about to be stopped, again and again until it leads
        nothing or timeout_ms is over. Returns how many partitions it still leads, because no other replica is
        in sync. After a restart it leads again. Raises UnknownBrokerError, StaleBrokerEpochError."""
        return self._run(self._operations().drain_broker(broker_id))

    def resign_controller(self, controller_epoch: int = 0) -> ResignedController:
        """Let the active controller step down, so that another one is elected; if there is only one, it is
        elected again. With an epoch, only the controller of that epoch steps down: raises
        StaleControllerEpochError if another one is active by now. Safe to repeat with an epoch."""
        return self._run(self._operations().resign_controller(controller_epoch))

    def resign_coordinator(self, coordinator_id: int, shards: Iterable[int] = ()) -> tuple[int, ...]:
        """Let a coordinator give up these shards of groups, or all that it is active for, so that another one
        is elected for each. Returns the shards that it gave up. Consumers register again and keep their
        partitions. Raises InvalidArgumentError for a coordinator that does not exist or what is no shard,
        InvalidRequestError for a shard that does not exist, NotCoordinatorError for a shard of another
        coordinator, ZooKeeperUnavailableError."""
        return self._run(self._operations().resign_coordinator(coordinator_id, shards))

    def describe_acls(self) -> AclListing:
        """All rules about who may do what, and whether they are obeyed."""
        return self._run(self._operations().describe_acls())

    def alter_acls(
        self, add: Iterable[Acl] = (), remove: Iterable[Acl] = (), *, validate_only: bool = False
    ) -> AlteredAcls:
        """Remove some rules and add others, all of them or none. The processes of the cluster obey the change
        as soon as ZooKeeper tells them. Safe to repeat: a rule that is there may be added, and one that is
        not may be removed. Raises InvalidRequestError for what no rule can say, LimitExceededError."""
        return self._run(self._operations().alter_acls(add, remove, validate_only=validate_only))

    def check_access(
        self,
        principal: str,
        operation: OperationName,
        resource_type: ResourceTypeName,
        name: str = "",
    ) -> AccessDecision:
        """Whether somebody ("client/alice") may do something to a topic, a group or the cluster by the rules,
        and which rule decides. Raises InvalidRequestError, InvalidArgumentError."""
        return self._run(self._operations().check_access(principal, operation, resource_type, name))

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, validate_only: bool = False
    ) -> dict[TopicPartition, int | HightideError]:
        """Delete the records before these offsets on all replicas; -1 stands for all committed records.
        Returns, for each partition, the offset of its oldest record afterwards (with `validate_only`: the
        offset it would have), or the reason why nothing happened, such as OffsetOutOfRangeError for an offset
        that is not committed. The records may stay on disk for a while, but nobody can read them. Safe to
        repeat. Raises UnknownTopicError, UnknownPartitionError, InvalidArgumentError, before anything is
        deleted."""
        return self._run(self._operations().delete_records(before, validate_only=validate_only))

    def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        """Describe these topics in this order, or all by name, from the controller. Raises
        UnknownTopicError."""
        return self._run(self._operations().describe_topics(None if names is None else list(names)))

    def list_topics(self) -> list[str]:
        """The names of all topics, sorted, as any broker knows them."""
        return self._run(self._operations().list_topics())

    def describe_cluster(self) -> ClusterDescription:
        """The brokers, the controller, and the complaints."""
        return self._run(self._operations().describe_cluster())

    def list_offsets(
        self, partitions: Iterable[TopicPartition], at: OffsetWhen = "latest"
    ) -> dict[TopicPartition, int | None]:
        """The first ("earliest") or the next offset ("latest"), or the first offset at or after a time; None
        if no committed record is that late. Raises UnknownTopicError, UnknownPartitionError."""
        look_up = offset_at(at)
        return self._run(self._operations().list_offsets(dict.fromkeys(partitions, look_up)))

    def describe_producers(
        self, partitions: Iterable[TopicPartition], producer_ids: Iterable[int] | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """The state that the logs of these partitions keep of these idempotent producers, or of all. A
        producer that a log does not remember is left out. Raises UnknownTopicError, UnknownPartitionError."""
        return self._run(self._operations().describe_producers(partitions, producer_ids))

    def coordinators(self) -> tuple[str | None, ...]:
        """host:port of the active coordinator of each shard of the consumer groups, as any broker knows it;
        None for a shard without one. There is one shard unless the cluster was set up with more. Raises
        BrokersUnavailableError."""
        return self._run(self._operations().coordinators())

    def list_groups(self) -> list[GroupListing]:
        """All consumer groups, by name. Raises CoordinatorUnavailableError."""
        return self._run(self._operations().list_groups())

    def describe_group(self, group: str) -> GroupDescription:
        """Describe a group with its members, owners and committed offsets, and the reason for its state.
        Raises UnknownGroupError, CoordinatorUnavailableError."""
        return self._run(self._operations().describe_group(group))

    def group_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The offsets that a group has committed for these partitions, or for all. Raises
        UnknownGroupError."""
        return self._run(self._operations().group_offsets(group, partitions))

    def group_lag(self, group: str) -> list[PartitionLag]:
        """The lag of a group by partition, including partitions that no consumer reads. Raises
        UnknownGroupError."""
        return self._run(self._operations().group_lag(group))

    def reset_offsets(
        self,
        group: str,
        to: ResetTo | None = None,
        *,
        shift_by: int | None = None,
        topics: Iterable[str] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        validate_only: bool = False,
    ) -> list[OffsetReset]:
        """Set committed offsets of a group without members. `to` is "earliest", "latest", an aware datetime
        (the first record at or after it), an offset, or an offset for each partition; or `shift_by` moves the
        committed offsets by this many records, as far as there are records. It applies to these partitions,
        to all of these topics, or to all that have a committed offset; each is accepted or refused on its
        own. The group need not exist. `validate_only` returns what would happen. Raises GroupNotEmptyError,
        UnknownTopicError, InvalidArgumentError."""
        return self._run(
            self._operations().reset_offsets(
                group,
                to,
                shift_by=shift_by,
                topics=topics,
                partitions=partitions,
                validate_only=validate_only,
            )
        )

    def commit_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]
    ) -> None:
        """Commit offsets of a group without members. This is for programs that keep positions elsewhere and
        publish them here. The offsets are durable when it returns. The group need not exist. Raises
        GroupNotEmptyError while the group has members, UnknownTopicError, UnknownPartitionError; offsets that
        the error does not name may have been written."""
        self._run(self._operations().commit_group_offsets(group, offsets))

    def delete_group_offsets(self, group: str, topics: Iterable[str], *, validate_only: bool = False) -> int:
        """Delete the offsets that a group has committed for these topics, to which no member may subscribe.
        Returns how many partitions had a committed offset. Raises GroupNotEmptyError if a member subscribes
        to one of them, UnknownGroupError."""
        return self._run(self._operations().delete_group_offsets(group, topics, validate_only=validate_only))

    def delete_group(self, group: str) -> None:
        """Delete a group without members, and all offsets that it has committed. Raises UnknownGroupError,
        GroupNotEmptyError."""
        self._run(self._operations().delete_group(group))

    def _operations(self) -> AdminOperations:
        return AdminOperations(self._bootstrap, self._timeout_ms, now_ms, self._seen)

    def _run(self, operation: Operation[T]) -> T:
        if self._closed:
            raise ClosedError("this admin client is closed")
        return run(operation, self._transport)

    def close(self) -> None:
        """Close all connections. Closing twice does nothing."""
        self._closed = True
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<{type(self).__name__} of {', '.join(self._bootstrap)}: {state}>"
