"""The controller and the brokers' control side under attack: who may tell them what, and what must not
change."""

import hashlib
import os
from pathlib import Path

from adversary.raw_client import Answer, RawClient
from hightide.v1 import (
    broker_control_service_pb2 as control_pb2,
)
from hightide.v1 import (
    broker_service_pb2 as broker_pb2,
)
from hightide.v1 import (
    controller_service_pb2 as controller_pb2,
)
from hightide.v1 import (
    metadata_pb2,
)
from hightide_local.histories.waiting import wait_until

CONTROLLER = "/hightide.v1.ControllerService"
CONTROL = "/hightide.v1.BrokerControlService"


_ANSWER_S = 5.0
"""So long one process is asked; a dead one never answers, and the next is asked."""


def active_controller(bootstrap: str) -> metadata_pb2.Endpoint:
    """The controller that some broker knows; waits until there is one that answers as the active one."""

    def known() -> metadata_pb2.Endpoint | None:
        return next(filter(None, map(_active_controller_told_by, bootstrap.split(","))), None)

    found = wait_until("an active controller", known, 30)
    assert found is not None
    return found


def _active_controller_told_by(broker_address: str) -> metadata_pb2.Endpoint | None:
    with RawClient(broker_address) as broker:
        answer = broker.send(
            "/hightide.v1.BrokerService/GetMetadata", broker_pb2.GetMetadataRequest(), timeout_s=_ANSWER_S
        )
    if not answer.ok:
        return None
    controller = broker_pb2.GetMetadataResponse.FromString(answer.body).controller
    if not controller.port:
        return None
    with RawClient(f"{controller.host}:{controller.port}") as client:
        active = client.send(
            f"{CONTROLLER}/DescribeCluster", controller_pb2.DescribeClusterRequest(), timeout_s=_ANSWER_S
        )
    return controller if active.ok else None


class ControlPlane:
    """The active controller of a cluster, and what it says of topics and brokers."""

    def __init__(self, bootstrap: str) -> None:
        self.endpoint = active_controller(bootstrap)
        self.client = RawClient(f"{self.endpoint.host}:{self.endpoint.port}")

    def describe_cluster(self) -> controller_pb2.DescribeClusterResponse:
        """The cluster as the controller sees it."""
        answer = self.client.send(f"{CONTROLLER}/DescribeCluster", controller_pb2.DescribeClusterRequest())
        assert answer.ok, answer
        return controller_pb2.DescribeClusterResponse.FromString(answer.body)

    def topics(self) -> dict[str, metadata_pb2.TopicMetadata]:
        """All topics by name, from the source of truth."""
        answer = self.client.send(f"{CONTROLLER}/DescribeTopics", controller_pb2.DescribeTopicsRequest())
        assert answer.ok, answer
        found = controller_pb2.DescribeTopicsResponse.FromString(answer.body).topics
        return {topic.topic: topic for topic in found}

    def create(self, request: controller_pb2.CreateTopicRequest) -> Answer:
        """CreateTopic, whatever comes of it."""
        return self.client.send(f"{CONTROLLER}/CreateTopic", request)

    def create_topic(
        self, topic: str, partitions: int = 1, replicas: int = 3, **configs: str
    ) -> metadata_pb2.TopicMetadata:
        """A topic that must come to be. In configs, `_` stands for the dot."""
        request = controller_pb2.CreateTopicRequest(
            topic=topic,
            partition_count=partitions,
            replication_factor=replicas,
            configs={name.replace("_", "."): value for name, value in configs.items()},
        )
        answer = self.create(request)
        assert answer.ok, answer
        return controller_pb2.CreateTopicResponse.FromString(answer.body).topic

    def stamp_for(self, broker_id: int) -> control_pb2.ControllerStamp:
        """The stamp that the active controller itself would send to a broker now."""
        cluster = self.describe_cluster()
        (broker,) = [each for each in cluster.brokers if each.endpoint.id == broker_id]
        return control_pb2.ControllerStamp(
            cluster_id=cluster.cluster_id,
            controller_id=cluster.controller.id,
            controller_epoch=cluster.controller_epoch,
            broker_epoch=broker.broker_epoch,
        )

    def close(self) -> None:
        """Let go of the connection."""
        self.client.close()


def names_below(directory: Path) -> set[str]:
    """Every file and folder below a directory in which processes are at work."""
    return {
        os.path.relpath(os.path.join(folder, name), directory)
        for folder, folders, files in os.walk(directory)
        for name in (*folders, *files)
    }


def names_of_topic(directory: Path, topic_id: bytes) -> set[str]:
    """Those of a topic, also in quarantine, to see that nothing came or went. What is not of this topic comes
    and goes by itself."""
    names = names_below(directory)
    return {name for name in names if topic_id.hex() in name and not name.endswith(".tmp")}


def fingerprint(directory: Path) -> str:
    """One hash over all names and bytes below a directory, to see that nothing changed.

    A lock file says who tried last, so it is left out.
    """
    digest = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.name != ".lock"):
        digest.update(path.relative_to(directory).as_posix().encode() + b"\0")
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()
