"""What is said of moves is so: a broker that leaves is there, who watches a plan sees its moves, and a move
that did not arrive is a failure."""

import json
from pathlib import Path

import pytest
from hightide.v1.broker_service_pb2 import DescribeReplicasResponse
from hightide.v1.controller_service_pb2 import (
    BrokerDescription,
    DescribeClusterResponse,
    DescribeTopicsResponse,
    ListReassignmentsResponse,
    PartitionName,
    Reassignment,
    ReassignPartitionsResponse,
)
from hightide.v1.metadata_pb2 import Endpoint, PartitionMetadata, TopicMetadata
from hightide_cli.main import main
from unit.cli.answering_server import AnsweringServer

TOPIC_ID = b"t" * 16
MOVING = ListReassignmentsResponse(
    reassignments=[
        Reassignment(
            partition=PartitionName(topic="t", partition=0), topic_id=TOPIC_ID,
            original=[1, 2], target=[1, 3], replicas=[1, 2, 3], isr=[1, 2], leader=1,
        )
    ]
)  # fmt: skip
NOTHING_MOVES = ListReassignmentsResponse()


def described(*replicas: int) -> DescribeTopicsResponse:
    part = PartitionMetadata(partition=0, leader=1, replicas=replicas, isr=replicas)
    return DescribeTopicsResponse(topics=[TopicMetadata(topic="t", topic_id=TOPIC_ID, partitions=[part])])


@pytest.fixture
def cluster() -> AnsweringServer:
    server = AnsweringServer({"DescribeReplicas": DescribeReplicasResponse(broker_id=1)})
    brokers = [
        BrokerDescription(endpoint=server.endpoint, alive=True),
        BrokerDescription(endpoint=Endpoint(id=4)),
    ]
    server.answers["DescribeCluster"] = DescribeClusterResponse(cluster_id="c", brokers=brokers)
    server.answers["ReassignPartitions"] = ReassignPartitionsResponse()
    return server


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 3]}]}))
    return str(path)


def test_a_broker_that_nobody_knows_is_not_planned_away(
    cluster: AnsweringServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number that was mistyped had "nothing to move", as if that broker could be stopped."""
    cluster.answers |= {"DescribeTopics": described(1), "ListReassignments": NOTHING_MOVES}
    plan = ("reassign", "plan", "--bootstrap", cluster.address, "--decommission")
    assert main([*plan, "33"]) == 1
    assert capsys.readouterr().err == "error: there is no broker 33; there are: 1, 4\n"
    assert main([*plan, "4"]) == 0
    assert "nothing to move" in capsys.readouterr().out


def test_who_applies_a_plan_again_watches_its_moves_that_are_under_way(
    cluster: AnsweringServer, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are skipped, as moves that are done, and nothing was said to be on the move."""
    cluster.answers |= {
        "DescribeTopics": [described(1, 2, 3), described(1, 3)],
        "ListReassignments": [MOVING, MOVING, MOVING, NOTHING_MOVES],
    }
    assert main(["reassign", "apply", plan, "--watch", "--bootstrap", cluster.address]) == 0
    said = capsys.readouterr().out
    assert "nothing is on the move" not in said
    assert "1 of 1 moves have arrived" in said


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_move_that_did_not_arrive_is_a_failure_of_the_watching(
    cluster: AnsweringServer, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """A script went on to stop the broker from which nothing had been moved."""
    cluster.answers |= {"DescribeTopics": described(1, 2), "ListReassignments": [MOVING, NOTHING_MOVES]}
    watch = ["reassign", "watch", "--interval", "0.1", "--bootstrap", cluster.address, "-o", form]
    assert main(watch) == 1
    said = capsys.readouterr()
    assert ("t-0 was cancelled and is on brokers 1,2" in said.out) is (form == "table")
    assert said.err == "error: 1 of 1 moves did not arrive\n"
