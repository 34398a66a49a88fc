"""What was deleted is told, also if the rest could not be."""

import json

import pytest
from hightide.v1.broker_service_pb2 import DescribeReplicasResponse
from hightide.v1.controller_service_pb2 import DeleteTopicResponse, DescribeTopicsResponse
from hightide.v1.metadata_pb2 import TopicMetadata
from hightide_cli.main import main
from unit.cli.answering_server import AnsweringServer


def described(*names: str) -> DescribeTopicsResponse:
    return DescribeTopicsResponse(topics=[TopicMetadata(topic=each, topic_id=b"t" * 16) for each in names])


def test_a_program_learns_which_topics_are_gone_where_the_next_one_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = AnsweringServer(
        {
            "DescribeTopics": [described("a", "b"), described("a"), described("b")],
            "DescribeReplicas": DescribeReplicasResponse(broker_id=1),
            "DeleteTopic": [DeleteTopicResponse(), None],
        }
    )
    words = ("topic", "delete", "a", "b", "--yes", "-o", "json", "--bootstrap", server.address)
    assert main(words) == 1
    said = capsys.readouterr()
    assert [each["topic"] for each in json.loads(said.out)["deleted"]] == ["a"]
    assert "error: you may not call DeleteTopic" in said.err
