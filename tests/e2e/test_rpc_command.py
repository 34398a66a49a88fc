"""Any call of any server by the command line: what reflection tells, what is answered, what is refused."""

import json

import pytest
from e2e.command_line import as_json, hightide, succeed
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster


def test_every_server_is_called_by_its_own_words(hightide_cluster: LocalCluster, hightide_topic: str) -> None:
    cluster, topic = hightide_cluster, hightide_topic
    services = as_json(cluster, "rpc", "ls")["services"]
    assert {"hightide.v1.BrokerService", "hightide.v1.ServerService", "grpc.health.v1.Health"} <= {*services}
    methods = as_json(cluster, "rpc", "ls", "ControllerService")["methods"]
    created = next(each for each in methods if each["method"] == "hightide.v1.ControllerService/CreateTopic")
    assert created["comment"]

    # A topic by the controller, records by a broker, bytes as text both ways.
    described = as_json(cluster, "rpc", "ControllerService/DescribeTopics", "-d", f'{{"topics":["{topic}"]}}')
    assert described["topics"][0]["topic"] == topic
    leader = cluster.brokers[described["topics"][0]["partitions"][0]["leader"]]
    record = {"topic": topic, "partition": 0, "records": [{"key": "k", "value": "grüße"}]}
    call = ("rpc", leader, "BrokerService/ProduceRecords", "--utf8", "-d", "-")
    succeed(cluster, *call, stdin=json.dumps(record).encode())
    wanted = json.dumps({"topic": topic, "partition": 0, "offset": "0"})
    fetched = as_json(cluster, "rpc", leader, "BrokerService/FetchRecords", "--utf8", "-d", wanted)
    assert [(each["key"], each["value"]) for each in fetched["records"]] == [("k", "grüße")]

    # Streams are printed as they come, until the deadline.
    watch = ("rpc", leader, "grpc.health.v1.Health/Watch", "--timeout", "5", "-o", "json")
    watched = hightide(cluster, *watch)
    assert json.loads(watched.stdout) == {"status": "SERVING"}
    assert (watched.returncode, b"did not answer in time" in watched.stderr) == (1, True)


def test_a_description_has_the_comments_of_the_contract(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    method = succeed(cluster, "rpc", "describe", "BrokerService/ListOffsets").decode()
    assert method.startswith("// ListOffsets ")
    assert "message hightide.v1.ListOffsetsRequest {\n  // " in method
    document = as_json(cluster, "rpc", "describe", "ErrorCode")
    assert document["values"]["ERROR_CODE_UNSPECIFIED"] == 0
    assert all(
        each["comment"] for each in as_json(cluster, "rpc", "describe", "CoordinatorService")["methods"]
    )


def test_a_refusal_tells_its_reason(hightide_cluster: LocalCluster) -> None:
    wrong = '{"controller_epoch": 2000000000}'
    refused = hightide(hightide_cluster, "rpc", "ControllerService/ResignController", "-d", wrong)
    assert refused.returncode == 1
    assert b"STALE_CONTROLLER_EPOCH" in refused.stderr
    unknown = hightide(hightide_cluster, "rpc", "NoService/Nothing")
    assert unknown.returncode == 1
    assert b"does not know hightide.v1.NoService" in unknown.stderr
