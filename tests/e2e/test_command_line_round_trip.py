"""What an operator does in a day, by the command line alone, on a real cluster."""

import json
from pathlib import Path

import pytest
from e2e.command_line import as_json, hightide, succeed
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster


def test_records_written_from_lines_are_read_back_as_lines(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    created = as_json(
        cluster, "topic", "create", "lines", "-p", "3", "-r", "3", "-c", "min.insync.replicas=2"
    )
    assert (created["topic"], len(created["partitions"]), created["replicas"]) == ("lines", 3, 3)
    assert created["configs"] == {"min.insync.replicas": "2"}

    written = as_json(cluster, "topic", "produce", "lines", "-K", ":", stdin=b"k1:one\nk2:two\nk1:three\n")
    assert written["records"] == 3
    read = succeed(cluster, "topic", "consume", "lines", "--from-beginning", "--exit", "-f", r"%k=%v\n")
    assert sorted(read.splitlines()) == [b"k1=one", b"k1=three", b"k2=two"]
    assert [line for line in read.splitlines() if line.startswith(b"k1")] == [b"k1=one", b"k1=three"]

    offsets = as_json(cluster, "topic", "offsets", "lines", "--at", "2000-01-01")
    assert sum(each["records"] for each in offsets["partitions"]) == 3
    assert {each["at_time"] for each in offsets["partitions"] if each["records"]} == {0}


def test_json_lines_go_round_unchanged(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    succeed(cluster, "topic", "create", "documents")
    record = {"key": "k", "value_base64": "/wA=", "timestamp_us": 1_500_000, "headers": {"h": "x"}}
    succeed(cluster, "topic", "produce", "documents", "--json", stdin=json.dumps(record).encode() + b"\n")
    (line,) = succeed(cluster, "topic", "consume", "documents", "--exit", "-o", "json").splitlines()
    read = json.loads(line)
    assert {name: read[name] for name in record} == record
    assert (read["topic"], read["partition"], read["offset"]) == ("documents", 0, 0)


def test_a_reader_may_start_anywhere_and_stop_anywhere(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    succeed(cluster, "topic", "create", "places")
    succeed(cluster, "topic", "produce", "places", stdin=b"".join(b"%d\n" % number for number in range(100)))

    def read(*arguments: str) -> list[int]:
        return [int(line) for line in succeed(cluster, "topic", "consume", "places", *arguments).splitlines()]

    assert read("--exit") == list(range(100))
    assert read("--from", "90", "--exit") == list(range(90, 100))
    assert read("--from", "-3", "--exit") == [97, 98, 99]
    assert read("--from", "10", "-n", "2") == [10, 11]
    assert read("--from", "latest", "--exit") == []
    assert read("--from", "@2000-01-01", "-n", "1") == [0]


def test_the_cluster_and_its_topics_are_described(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    succeed(cluster, "topic", "create", "described", "-p", "2", "-r", "3")
    (described,) = as_json(cluster, "topic", "describe", "described")["topics"]
    assert [each["partition"] for each in described["partitions"]] == [0, 1]
    assert all(sorted(each["isr"]) == [1, 2, 3] for each in described["partitions"])
    assert b"described" in succeed(cluster, "topic", "ls")
    assert len(as_json(cluster, "cluster", "info")["brokers"]) == 3
    watched = succeed(cluster, "cluster", "health", "--until-healthy", "--interval", "0.2", "-o", "json")
    assert json.loads(watched.splitlines()[-1])["healthy"] is True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("topic", "create", "../x"), "../x"),
        (("topic", "create", "."), "."),
        (("topic", "create", "a" * 250), "249"),
        (("topic", "create", "none", "-p", "0"), "partition"),
        (("topic", "create", "many", "-p", "1000000"), "partition"),
        (("topic", "create", "none", "-r", "0"), "replica"),
        (("topic", "create", "many", "-r", "4"), "replica"),
        (("topic", "create", "set", "-c", "min.insync.replica=2"), "min.insync.replicas"),
        (("topic", "describe", "nowhere"), "nowhere"),
        (("topic", "consume", "nowhere", "--exit"), "nowhere"),
        (("topic", "produce", "nowhere"), "nowhere"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line_that_says_what(
    hightide_cluster: LocalCluster, arguments: tuple[str, ...], said: str
) -> None:
    run = hightide(hightide_cluster, *arguments, stdin=b"x\n")
    error = run.stderr.decode()
    assert run.returncode == 1, error
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1


def test_a_log_on_disk_is_dumped_batch_by_batch(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    succeed(cluster, "topic", "create", "dumped", "-r", "3")
    succeed(cluster, "topic", "produce", "dumped", stdin=b"one\ntwo\n")
    (described,) = as_json(cluster, "topic", "describe", "dumped")["topics"]
    leader = described["partitions"][0]["leader"]
    folder = cluster.data_directory(leader) / f"{described['topic_id']}-0"
    batches = [
        json.loads(line) for line in succeed(cluster, "dump-log", str(folder), "-o", "json").splitlines()
    ]
    assert sum(batch["record_count"] for batch in batches) == 2
    assert batches[0]["base_offset"] == 0
    assert all(batch["valid"] for batch in batches)


def test_nothing_listening_is_one_line_that_names_the_address(hightide_cluster: LocalCluster) -> None:
    run = hightide(hightide_cluster, "topic", "ls", "--bootstrap", "127.0.0.1:1")
    assert run.returncode == 3
    assert run.stderr.decode().startswith("error: ")
    assert "127.0.0.1:1" in run.stderr.decode()


def test_a_directory_without_traces_is_no_failure_of_the_program(
    hightide_cluster: LocalCluster, tmp_path: Path
) -> None:
    assert as_json(hightide_cluster, "trace", "ls", "--directory", str(tmp_path)) == {"traces": []}
