"""Who waits for replicas waits for those that there are, and is told if he has not waited to the end."""

import time

import pytest
from hightide.v1.controller_service_pb2 import DescribeTopicsResponse
from hightide.v1.metadata_pb2 import PartitionMetadata, TopicMetadata
from hightide_cli.main import main
from unit.cli.answering_server import AnsweringServer


@pytest.fixture
def watch() -> list[str]:
    lacking = PartitionMetadata(partition=0, leader=1, replicas=[1, 2], isr=[1])
    topic = TopicMetadata(topic="t", topic_id=b"t" * 16, partitions=[lacking])
    server = AnsweringServer({"DescribeTopics": DescribeTopicsResponse(topics=[topic])})
    return ["topic", "isr-watch", "t", "--bootstrap", server.address]


def test_a_partition_that_there_is_not_is_not_waited_for(
    watch: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """All of none were in sync, and the waiting was over."""
    assert main([*watch, "-p", "9", "--until-full"]) == 1
    assert capsys.readouterr().err == "error: there is no partition 9 of t\n"


@pytest.mark.parametrize(("words", "code"), [(["--until-full"], 130), ([], 0)])
def test_who_is_interrupted_while_he_waits_has_not_waited_to_the_end(
    watch: list[str], words: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    assert main([*watch, *words]) == code
