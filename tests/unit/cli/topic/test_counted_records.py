"""Records that nobody could be asked for are not said to be none."""

import pytest
from hightide.v1.broker_service_pb2 import DescribeReplicasResponse, GetMetadataResponse, ReplicaDescription
from hightide.v1.controller_service_pb2 import (
    DeleteTopicResponse,
    DescribeTopicsResponse,
    RemovePartitionsResponse,
)
from hightide.v1.metadata_pb2 import Endpoint, PartitionMetadata, TopicMetadata
from hightide_cli.main import main
from unit.cli.answering_server import AnsweringServer

TOPIC_ID = b"t" * 16
NOT_COUNTED = "; 1 partition is not counted, since no broker that answers holds it"


@pytest.fixture
def cluster() -> AnsweringServer:
    """Partition 0 is on broker 1, which answers, and partition 1 on broker 2, which does not."""
    parts = [PartitionMetadata(partition=at, leader=at + 1, replicas=[at + 1], isr=[at + 1]) for at in (0, 1)]
    topic = TopicMetadata(topic="t", topic_id=TOPIC_ID, partitions=parts)
    held = ReplicaDescription(
        topic="t", topic_id=TOPIC_ID, is_leader=True, log_end_offset=7, high_watermark=7
    )
    server = AnsweringServer(
        {
            "DescribeTopics": DescribeTopicsResponse(topics=[topic]),
            "DescribeReplicas": DescribeReplicasResponse(broker_id=1, replicas=[held]),
            "DeleteTopic": DeleteTopicResponse(),
            "RemovePartitions": RemovePartitionsResponse(),
        }
    )
    server.answers["GetMetadata"] = GetMetadataResponse(
        cluster_id="c", brokers=[server.endpoint, Endpoint(id=2, host="127.0.0.1", port=1)],
        controller=server.endpoint, topics=[topic],
    )  # fmt: skip
    return server


def test_who_deletes_a_topic_is_told_what_is_not_counted(
    cluster: AnsweringServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """ "0 records" were to be deleted where all brokers with records were away."""
    assert main(["topic", "delete", "t", "--dry-run", "--bootstrap", cluster.address]) == 0
    assert capsys.readouterr().err == f"t: 2 partitions, 7 records, 0 B{NOT_COUNTED}\n"


def test_who_removes_partitions_is_told_what_is_not_counted(
    cluster: AnsweringServer, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("topic", "remove-partitions", "t", "-p", "1", "--dry-run", "--bootstrap", cluster.address)
    assert main(words) == 0
    assert f"partition 1 would go, with 0 records, 0 B{NOT_COUNTED}." in capsys.readouterr().err


@pytest.mark.parametrize("words", [("ls",), ("describe", "t")])
def test_a_wide_table_says_whose_replicas_it_lacks(
    cluster: AnsweringServer, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topic", *words, "-o", "wide", "--bootstrap", cluster.address]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("broker 2 does not answer, so its replicas are not counted: ")
