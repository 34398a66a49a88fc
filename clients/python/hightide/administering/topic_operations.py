"""The requests of an admin client about topics and the cluster. Sans-IO; shared by threads and asyncio.

An order may be carried out although its answer never comes: the controller died after it had written, or the
connection broke. `Operations.order` repeats it, to the controller of that moment. Each operation says what
its repetition means. None of them does anything twice, and none reports as failed what its own first attempt
has done.
"""

from collections.abc import Iterable, Mapping, Sequence

from hightide.administering.acl_operations import AclOperations
from hightide.administering.answers import cluster_description, described, producer_states
from hightide.administering.quota_operations import QuotaOperations
from hightide.administering.reassignment_operations import ReassignmentOperations
from hightide.administering.record_deletion import RecordDeletion
from hightide.administering.server_operations import ServerOperations
from hightide.argument_checks import (
    checked_count,
    checked_partitions,
    checked_replicas,
    checked_settings,
)
from hightide.calls.call import Method
from hightide.cluster.metadata import topic_description
from hightide.cluster.operations import LeaderQuestion, LedPartition, Operation
from hightide.consumer_group.operations import GroupOperations
from hightide.errors import InconsistentTopicIdError, TopicAlreadyExistsError, UnknownTopicError
from hightide.records import (
    ClusterDescription,
    DeletedTopic,
    ProducerState,
    TopicDescription,
    TopicPartition,
)
from hightide.v1.broker_service_pb2 import (
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from hightide.v1.controller_service_pb2 import (
    AddPartitionsRequest,
    AddPartitionsResponse,
    AlterTopicConfigRequest,
    AlterTopicConfigResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    RemovePartitionsRequest,
    RemovePartitionsResponse,
    ReplicaAssignment,
)


class AdminOperations(
    ReassignmentOperations,
    QuotaOperations,
    ServerOperations,
    RecordDeletion,
    AclOperations,
    GroupOperations,
):
    """The operations of `Admin`."""

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        *,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None,
        validate_only: bool,
    ) -> Operation[TopicDescription]:
        """Create a topic. If an attempt got no answer and the next one says that the topic exists, it counts
        as created by the first attempt if it has the wanted shape."""
        request = CreateTopicRequest(
            topic=name,
            partition_count=0 if assignment is not None else checked_count("partitions", partitions),
            replication_factor=0
            if assignment is not None
            else checked_count("replication_factor", replication_factor),
            assignment=_assignment(assignment),
            configs={key: str(value) for key, value in configs.items()},
            validate_only=validate_only,
        )
        try:
            answer = yield from self.order(Method.CREATE_TOPIC, request, CreateTopicResponse)
        except TopicAlreadyExistsError:
            if not self.is_uncertain:
                raise
            (existing,) = yield from self.describe_topics([name])
            count = partitions if assignment is None else len(assignment)
            if len(existing.partitions) != count:
                raise
            return existing
        return topic_description(answer.topic)

    def delete_topic(self, name: str, *, validate_only: bool) -> Operation[DeletedTopic]:
        """Delete a topic. The topic is looked up first, and every attempt names its id. If that id is gone,
        the topic counts as deleted; another topic that was created under the name meanwhile is left alone."""
        (before,) = yield from self.describe_topics([name])

        def settled() -> Operation[DeleteTopicResponse | None]:
            now = yield from self._described_or_none(name)
            return None if now is not None and now.topic_id == before.topic_id else DeleteTopicResponse()

        request = DeleteTopicRequest(topic=name, validate_only=validate_only, topic_id=before.topic_id)
        try:
            answer = yield from self.order(Method.DELETE_TOPIC, request, DeleteTopicResponse, settled=settled)
        except (UnknownTopicError, InconsistentTopicIdError):
            # It existed a moment ago: an earlier attempt, or another client, has deleted it.
            return DeletedTopic(before)
        return DeletedTopic(before, tuple(answer.absent_brokers))

    def add_partitions(
        self,
        name: str,
        partition_count: int,
        *,
        assignment: Sequence[Sequence[int]] | None,
        validate_only: bool,
    ) -> Operation[TopicDescription]:
        """Grow a topic to a number of partitions. If an attempt got no answer and the topic has that number,
        it counts as done."""
        request = AddPartitionsRequest(
            topic=name,
            partition_count=checked_count("partition_count", partition_count),
            assignment=_assignment(assignment),
            validate_only=validate_only,
        )

        def settled() -> Operation[AddPartitionsResponse | None]:
            (now,) = yield from self.describe_topics([name])
            return AddPartitionsResponse() if len(now.partitions) == partition_count else None

        answer = yield from self.order(Method.ADD_PARTITIONS, request, AddPartitionsResponse, settled=settled)
        return (yield from self._topic_after(name, answer))

    def remove_partitions(
        self, name: str, partition_count: int, *, validate_only: bool
    ) -> Operation[TopicDescription]:
        """Shrink a topic to a number of partitions. The topic is looked up first, and every attempt names its
        id. If an attempt got no answer and the topic has that number, it counts as done. If another topic has
        the name meanwhile, that topic keeps its partitions, and UnknownTopicError is raised."""
        count = checked_count("partition_count", partition_count)
        (before,) = yield from self.describe_topics([name])
        request = RemovePartitionsRequest(
            topic=name, partition_count=count, validate_only=validate_only, topic_id=before.topic_id
        )

        def settled() -> Operation[RemovePartitionsResponse | None]:
            (now,) = yield from self.describe_topics([name])
            if now.topic_id != before.topic_id:
                raise _replaced(name)
            return RemovePartitionsResponse() if len(now.partitions) == partition_count else None

        try:
            answer = yield from self.order(
                Method.REMOVE_PARTITIONS, request, RemovePartitionsResponse, settled=settled
            )
        except InconsistentTopicIdError as error:
            raise _replaced(name) from error
        return (yield from self._topic_after(name, answer))

    def _topic_after(
        self, name: str, answer: AddPartitionsResponse | RemovePartitionsResponse
    ) -> Operation[TopicDescription]:
        """The topic in the controller's answer or, if that answer was lost, as it is now."""
        if answer.HasField("topic"):
            return topic_description(answer.topic)
        (now,) = yield from self.describe_topics([name])
        return now

    def alter_topic_config(
        self, name: str, configs: Mapping[str, str], reset: Iterable[str], *, validate_only: bool
    ) -> Operation[dict[str, str]]:
        """Change settings. Repeating it changes nothing."""
        request = AlterTopicConfigRequest(
            topic=name,
            set={key: str(value) for key, value in configs.items()},
            reset=checked_settings(configs, reset),
            validate_only=validate_only,
        )
        answer = yield from self.order(Method.ALTER_TOPIC_CONFIG, request, AlterTopicConfigResponse)
        return dict(answer.configs)

    def describe_topics(self, names: Sequence[str] | None) -> Operation[list[TopicDescription]]:
        """Describe topics from the controller. Raises UnknownTopicError."""
        if names is not None and not names:
            return []
        answer = yield from self.order(
            Method.DESCRIBE_TOPICS, DescribeTopicsRequest(topics=names or ()), DescribeTopicsResponse
        )
        return [described(topic) for topic in answer.topics]

    def _described_or_none(self, name: str) -> Operation[TopicDescription | None]:
        try:
            (topic,) = yield from self.describe_topics([name])
        except UnknownTopicError:
            return None
        return topic

    def list_topics(self) -> Operation[list[str]]:
        """The names of all topics, as a broker knows them."""
        answer = yield from self.metadata(all_topics=True)
        return sorted(topic.topic for topic in answer.topics)

    def describe_producers(
        self, partitions: Iterable[TopicPartition], producer_ids: Iterable[int] | None
    ) -> Operation[dict[TopicPartition, list[ProducerState]]]:
        """The state that logs keep of producers, from their leaders."""
        wanted = None if producer_ids is None else sorted(set(producer_ids))
        if wanted is not None and not wanted:
            return {partition: [] for partition in partitions}

        def request(asked: Sequence[LedPartition]) -> DescribeProducersRequest:
            return DescribeProducersRequest(
                partitions=[
                    DescribeProducersPartition(
                        topic_id=each.topic_id,
                        partition=each.partition.partition,
                        leader_epoch=each.leader_epoch,
                    )
                    for each in asked
                ],
                producer_ids=wanted or (),
            )

        question = LeaderQuestion(
            Method.DESCRIBE_PRODUCERS, request, DescribeProducersResponse, producer_states
        )
        return (yield from self.at_leaders(checked_partitions(partitions), question))

    def describe_cluster(self) -> Operation[ClusterDescription]:
        """The cluster from the controller."""
        answer = yield from self.order(
            Method.DESCRIBE_CLUSTER, DescribeClusterRequest(), DescribeClusterResponse
        )
        return cluster_description(answer)


def _replaced(name: str) -> UnknownTopicError:
    message = f"topic {name} was deleted meanwhile, and another one of this name was created"
    return UnknownTopicError(message, topic=name)


def _assignment(assignment: Sequence[Sequence[int]] | None) -> list[ReplicaAssignment]:
    return [
        ReplicaAssignment(replicas=checked_replicas(replicas, f"partition {at} of the assignment"))
        for at, replicas in enumerate(assignment or ())
    ]
