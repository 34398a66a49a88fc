"""A client that has never seen the .proto files finds its way by reflection, as `grpcurl` does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster


def buf_curl(address: str, path: str, *arguments: str) -> str:
    buf = Path(sys.executable).parent / "buf"
    run = subprocess.run(
        [
            str(buf),
            "curl",
            "--protocol",
            "grpc",
            "--http2-prior-knowledge",
            "--timeout",
            "60s",
            *arguments,
            f"http://{address}{path}",
        ],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_running_broker_lists_its_services(hightide_cluster: LocalCluster) -> None:
    address = next(iter(hightide_cluster.brokers.values()))
    assert set(buf_curl(address, "", "--list-services").split()) >= {
        "hightide.v1.BrokerService",
        "hightide.v1.ReplicaService",
        "hightide.v1.BrokerControlService",
        "hightide.v1.CallStreamService",
        "grpc.health.v1.Health",
        "grpc.channelz.v1.Channelz",
    }
    assert "hightide.v1.BrokerService/GetMetadata" in buf_curl(address, "", "--list-methods")


def test_a_running_controller_lists_its_services(hightide_cluster: LocalCluster) -> None:
    address = next(iter(hightide_cluster.controllers.values()))
    assert "hightide.v1.ControllerService" in buf_curl(address, "", "--list-services").split()


def test_a_topic_is_described_by_reflection(hightide_cluster: LocalCluster, hightide_topic: str) -> None:
    address = next(iter(hightide_cluster.brokers.values()))
    answer = json.loads(
        buf_curl(
            address, "/hightide.v1.BrokerService/GetMetadata", "-d", json.dumps({"topics": [hightide_topic]})
        )
    )
    (topic,) = answer["topics"]
    assert topic["topic"] == hightide_topic
    assert topic["partitions"][0]["leader"] in {1, 2, 3}


def test_plain_records_go_in_and_come_out_by_reflection(
    hightide_cluster: LocalCluster, hightide_topic: str
) -> None:
    metadata = json.loads(
        buf_curl(
            next(iter(hightide_cluster.brokers.values())),
            "/hightide.v1.BrokerService/GetMetadata",
            "-d",
            json.dumps({"topics": [hightide_topic]}),
        )
    )
    leader = metadata["topics"][0]["partitions"][0]["leader"]
    address = hightide_cluster.brokers[leader]
    produce = {"topic": hightide_topic, "records": [{"key": "aw==", "value": "dg=="}]}
    buf_curl(address, "/hightide.v1.BrokerService/ProduceRecords", "-d", json.dumps(produce))
    fetch = {"topic": hightide_topic, "maxWaitMs": 1000}
    answer = json.loads(buf_curl(address, "/hightide.v1.BrokerService/FetchRecords", "-d", json.dumps(fetch)))
    assert [(each["key"], each["value"]) for each in answer["records"]] == [("aw==", "dg==")]
