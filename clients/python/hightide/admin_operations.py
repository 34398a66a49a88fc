"""What an admin client asks of the controller. Sans-IO; shared by threads and asyncio."""

from collections.abc import Mapping, Sequence

from hightide.calls import Method
from hightide.cluster import topic_description
from hightide.errors import InvalidArgumentError, TopicAlreadyExistsError, UnknownTopicError, from_code
from hightide.operations import Operation, Operations
from hightide.records import BrokerDescription, ClusterDescription, TopicDescription
from hightide.v1 import errors_pb2
from hightide.v1.controller_service_pb2 import (
    CreateTopicRequest,
    CreateTopicResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    ReplicaAssignment,
)
from hightide.v1.metadata_pb2 import Endpoint, TopicMetadata

_INT32_MAX = 2**31 - 1


class AdminOperations(Operations):
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
        """Create a topic. Where an attempt got no answer and the next one says that the topic exists, it is
        the one that was asked for, if it has its shape."""
        for what, number in (("partitions", partitions), ("replication_factor", replication_factor)):
            if not -_INT32_MAX <= number <= _INT32_MAX:
                raise InvalidArgumentError(f"{what} is {number}; no topic is that large")
        request = CreateTopicRequest(
            topic=name,
            partition_count=0 if assignment is not None else partitions,
            replication_factor=0 if assignment is not None else replication_factor,
            assignment=[ReplicaAssignment(replicas=replicas) for replicas in assignment or ()],
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

    def describe_topics(self, names: Sequence[str] | None) -> Operation[list[TopicDescription]]:
        """Describe topics from the controller. Raises UnknownTopicError."""
        if names is not None and not names:
            return []
        answer = yield from self.order(
            Method.DESCRIBE_TOPICS, DescribeTopicsRequest(topics=names or ()), DescribeTopicsResponse
        )
        return [_described(topic) for topic in answer.topics]

    def list_topics(self) -> Operation[list[str]]:
        """The names of all topics, as a broker knows them."""
        answer = yield from self.metadata(all_topics=True)
        return sorted(topic.topic for topic in answer.topics)

    def describe_cluster(self) -> Operation[ClusterDescription]:
        """The cluster from the controller."""
        answer = yield from self.order(
            Method.DESCRIBE_CLUSTER, DescribeClusterRequest(), DescribeClusterResponse
        )
        return ClusterDescription(
            cluster_id=answer.cluster_id,
            controller_id=answer.controller.id,
            controller_address=_address(answer.controller) or "",
            controller_epoch=answer.controller_epoch,
            brokers=tuple(
                BrokerDescription(
                    broker_id=broker.endpoint.id,
                    address=_address(broker.endpoint),
                    alive=broker.alive,
                    broker_epoch=broker.broker_epoch,
                    leader_count=broker.leader_count,
                    replica_count=broker.replica_count,
                )
                for broker in answer.brokers
            ),
            topic_count=answer.topic_count,
            partition_count=answer.partition_count,
            offline_partition_count=answer.offline_partition_count,
            under_replicated_partition_count=answer.under_replicated_partition_count,
            under_min_isr_partition_count=answer.under_min_isr_partition_count,
        )


def _described(topic: TopicMetadata) -> TopicDescription:
    if topic.error_code == errors_pb2.ERROR_CODE_UNKNOWN_TOPIC:
        raise UnknownTopicError(f"topic {topic.topic} does not exist")
    if topic.error_code != errors_pb2.ERROR_CODE_UNSPECIFIED:
        raise from_code(topic.error_code, "", topic=topic.topic)
    return topic_description(topic)


def _address(endpoint: Endpoint) -> str | None:
    return f"{endpoint.host}:{endpoint.port}" if endpoint.port else None
