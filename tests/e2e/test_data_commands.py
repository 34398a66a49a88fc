"""What is in topics, by the command line alone: get, search, copy, trim, watch, read from and to anywhere."""

import json
import subprocess
import threading
from pathlib import Path

import pytest
from e2e.command_line import command, environment, hightide
from e2e.commands_here import documents_here, json_here, run_here, succeed_here
from hightide import Admin, Producer, TopicPartition
from hightide_cli.documents.form import departures
from hightide_cli.documents.registry import DOCUMENTS
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

PARTITIONS = 3
PER_PARTITION = 40
STARTED_US = 1_600_000_000_000_000


@pytest.fixture(scope="module")
def words(hightide_cluster: LocalCluster) -> str:
    """A topic whose records are known: partition p holds the numbers from 100p on, a second apart."""
    with Admin(hightide_cluster.bootstrap) as admin, Producer(hightide_cluster.bootstrap) as producer:
        admin.create_topic("words", PARTITIONS, 3)
        for number in range(PARTITIONS * PER_PARTITION):
            partition, at = divmod(number, PER_PARTITION)
            producer.send(
                "words",
                f"word {partition * 100 + at}".encode() if at else None,
                f"key {at}".encode() if at % 2 else None,
                partition=partition,
                timestamp_us=STARTED_US + at * 1_000_000,
                headers=[("colour", b"blue")] if at == 7 else None,
            )
    return "words"


def test_one_record_is_got_by_its_offset(hightide_cluster: LocalCluster, words: str) -> None:
    record = json_here(hightide_cluster, "topic", "get", words, "1", "7")
    assert (record["partition"], record["offset"], record["value"]) == (1, 7, "word 107")
    assert (record["key"], record["headers"]) == ("key 7", {"colour": "blue"})
    assert record["timestamp_us"] == STARTED_US + 7_000_000
    assert succeed_here(hightide_cluster, "topic", "get", words, "1", "7", "-f", "%v") == b"word 107"
    text = succeed_here(hightide_cluster, "topic", "get", words, "1", "0").decode()
    assert ["value", "-"] in [line.split() for line in text.splitlines()], "a tombstone has no value"
    beyond = hightide(hightide_cluster, "topic", "get", words, "1", "40")
    assert beyond.returncode == 1
    assert beyond.stderr == b"error: there is no offset 40: words-1 has offsets 0 to 39\n"


def test_records_are_searched_by_key_value_and_header(hightide_cluster: LocalCluster, words: str) -> None:
    def found(*arguments: str) -> list[tuple[int, int]]:
        records = documents_here(hightide_cluster, "topic", "grep", words, *arguments)
        return sorted((each["partition"], each["offset"]) for each in records)

    assert found("word (7|107)$") == [(0, 7), (1, 7)]
    assert found("KEY 7$", "-i") == [(0, 7), (1, 7), (2, 7)]
    assert found("blue", "--header") == [(0, 7), (1, 7), (2, 7)]
    assert found("7", "-F", "--value", "--until", "10", "-p", "0") == [(0, 7)]
    assert run_here(hightide_cluster, "topic", "grep", words, "word 2.", "-F").return_value == 1
    assert found("word", "-v", "--value", "-p", "2") == [(2, 0)], "a tombstone has nothing that matches"
    assert found("word", "--from", "38", "-p", "0") == [(0, 38), (0, 39)]
    assert found("word", "--until", "2", "--from", "-39") == [(0, 1), (1, 1), (2, 1)]
    assert len(found("word", "-n", "5")) == 5
    assert succeed_here(hightide_cluster, "topic", "grep", words, "word 203") == b"2@3\tkey 3\tword 203\n"
    assert json_here(hightide_cluster, "topic", "grep", words, "word", "-c")["records"] == 117
    nothing = run_here(hightide_cluster, "topic", "grep", words, "nowhere")
    assert (nothing.return_value, nothing.stdout_bytes) == (1, b"")
    wrong = hightide(hightide_cluster, "topic", "grep", words, "(")
    assert wrong.returncode == 2
    assert b"missing )" in wrong.stderr


def test_a_reader_stops_where_it_is_told(hightide_cluster: LocalCluster, words: str) -> None:
    def read(*arguments: str) -> list[int]:
        lines = succeed_here(hightide_cluster, "topic", "consume", words, "-p", "0", "-f", "%o\n", *arguments)
        return list(map(int, lines.splitlines()))

    assert read("--until", "3") == [0, 1, 2]
    assert read("--from", "37", "-e") == [37, 38, 39]
    assert read("-o", "-2", "-e") == [38, 39]
    assert read("--tail", "1", "--exit") == [39]
    assert read("-o", "beginning", "-n", "2") == [0, 1]
    time_ms = STARTED_US // 1000 + 5_000
    assert read("-o", f"s@{time_ms}", "--until", f"@{time_ms + 2000}") == [5, 6]
    assert read("-o", f"e@{time_ms}") == [0, 1, 2, 3, 4]
    assert read("--from", "@-1h", "-e") == [], "its records are older"
    assert read("--from", "40", "-e") == [], "where the next one will be"
    for beyond in (("consume", words, "--from", "1700000000000", "-e"), ("grep", words, "w", "--from", "41")):
        refused = hightide(hightide_cluster, "topic", *beyond)
        assert refused.returncode == 2
        assert b"is behind the end of each partition of words, at most 40" in refused.stderr
    assert (
        succeed_here(
            hightide_cluster, "topic", "consume", words, "-p", "1", "--until", "2", "-f", r"%S:%K %s\x21\n"
        )
        == b"-1:-1 !\n8:5 word 101!\n"
    )
    (line,) = succeed_here(
        hightide_cluster, "topic", "consume", words, "--json", "-p", "2", "--from", "39", "-e"
    ).splitlines()
    assert json.loads(line)["value"] == "word 239"


def test_a_file_is_written_line_by_line(hightide_cluster: LocalCluster, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"".join(b"k%d|v%d\n" % (number, number) for number in range(5_000)))
    succeed_here(hightide_cluster, "topic", "create", "from-file", "-p", "2", "-r", "3")
    written = json_here(hightide_cluster, "topic", "produce", "from-file", str(file), "-K", "|")
    assert written["records"] == 5_000
    (size,) = json_here(hightide_cluster, "topic", "size", "from-file")["topics"]
    assert size["records"] == 5_000
    assert size["bytes_on_disk"] >= size["bytes"] > 0
    assert b"from-file-1" in succeed_here(hightide_cluster, "topic", "size", "from-file", "--by-partition")


def records_of(cluster: LocalCluster, topic: str) -> list[tuple[object, ...]]:
    records = documents_here(cluster, "topic", "consume", topic, "-e")
    return sorted(
        (
            r["partition"],
            r["offset"],
            r["key"] or "",
            r["value"] or "",
            r["timestamp_us"],
            str(r.get("headers")),
        )
        for r in records
    )


def test_a_topic_is_copied_whole_and_the_same_command_goes_on(
    hightide_cluster: LocalCluster, words: str, tmp_path: Path
) -> None:
    cluster = hightide_cluster
    command = ("topic", "copy", words, "words-again", "--create", "--notes", str(tmp_path / "notes.json"))
    planned = json_here(cluster, *command, "--dry-run")
    assert (planned["dry_run"], planned["records"]) == (True, 120)
    assert not (tmp_path / "notes.json").exists()
    part = json_here(cluster, *command, "--until", "30")
    assert part["records"] == 90
    assert json_here(cluster, *command)["records"] == 30
    assert json_here(cluster, *command)["records"] == 0, "nothing is copied twice"
    assert records_of(cluster, "words-again") == records_of(cluster, words)
    elsewhere = (*command[:-1], str(tmp_path / "other.json"))
    lost = hightide(cluster, *elsewhere)
    assert lost.returncode == 1
    assert b"whose notes are not on this machine" in lost.stderr


def test_a_copy_that_was_killed_goes_on_where_the_log_says_it_was(
    hightide_cluster: LocalCluster, words: str, tmp_path: Path
) -> None:
    """The notes of a run that was killed tell where it began; how far it came, only the target knows."""
    cluster, notes = hightide_cluster, tmp_path / "notes.json"
    command = ("topic", "copy", words, "words-killed", "--create", "--notes", str(notes))
    assert json_here(cluster, *command, "--until", "0")["records"] == 0
    finished = json.loads(notes.read_text())
    begun = {**finished, "finished": False}
    notes.write_text(json.dumps(begun))
    assert json_here(cluster, *command, "--until", "25")["records"] == 75
    # As if it had been killed behind the last record and before it could note that.
    notes.write_text(json.dumps(begun))
    assert json_here(cluster, *command)["records"] == 45
    assert records_of(cluster, "words-killed") == records_of(cluster, words)


def test_what_was_deleted_before_it_was_copied_is_left_out_only_where_that_is_said(
    hightide_cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster = hightide_cluster
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic("trimmed-source", 1, 1)
        for number in range(40):
            producer.send("trimmed-source", b"%d" % number)
    topics = ("trimmed-source", "trimmed-target")
    command = ("topic", "copy", *topics, "--create", "--notes", str(tmp_path / "notes.json"))
    assert json_here(cluster, *command, "--until", "10")["records"] == 10
    succeed_here(cluster, "topic", "trim", "trimmed-source", "--before-offset", "15", "--yes")
    refused = hightide(cluster, *command)
    assert refused.returncode == 1
    assert b"5 records of trimmed-source were deleted" in refused.stderr
    assert b"the offsets 10 to 14: give --skip-deleted" in refused.stderr
    assert json_here(cluster, *command, "--skip-deleted")["records"] == 25
    with Producer(cluster.bootstrap) as producer:
        producer.send("trimmed-source", b"40")
    assert json_here(cluster, *command)["records"] == 1, "it goes on by itself again"
    copied = [each["value"] for each in documents_here(cluster, "topic", "consume", "trimmed-target", "-e")]
    assert copied == [str(number) for number in (*range(10), *range(15, 41))]


def test_a_copy_that_copied_nothing_before_a_trim_begins_at_what_is_left(
    hightide_cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster, notes = hightide_cluster, tmp_path / "notes.json"
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic("trimmed-early", 1, 1)
        for number in range(9):
            producer.send("trimmed-early", b"%d" % number)
    command = ("topic", "copy", "trimmed-early", "early-target", "--create", "--notes", str(notes))
    assert json_here(cluster, *command, "--until", "0")["records"] == 0
    # As if it had been killed before it sent anything: nothing is finished, and the count is the first one.
    begun = {**json.loads(notes.read_text()), "finished": False, "writer_version": 0}
    notes.write_text(json.dumps(begun))
    succeed_here(cluster, "topic", "trim", "trimmed-early", "--before-offset", "4", "--yes")
    assert json_here(cluster, *command)["records"] == 5


def test_a_copy_by_key_goes_where_the_keys_belong(hightide_cluster: LocalCluster, words: str) -> None:
    cluster = hightide_cluster
    succeed_here(cluster, "topic", "create", "words-by-key", "-p", "2", "-r", "3")
    refused = hightide(cluster, "topic", "copy", words, "words-by-key")
    assert refused.returncode == 1
    assert b"--by-key" in refused.stderr
    assert json_here(cluster, "topic", "copy", words, "words-by-key", "--by-key")["records"] == 120
    places: dict[str, set[int]] = {}
    for record in documents_here(cluster, "topic", "consume", "words-by-key", "-e"):
        if record["key"] is not None:
            places.setdefault(record["key"], set()).add(record["partition"])
    assert {len(each) for each in places.values()} == {1}
    assert len(places) == 20


def test_what_is_not_in_sync_is_listed_and_watched_until_it_is(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    succeed_here(cluster, "topic", "create", "watched", "-p", "2", "-r", "3", "-c", "min.insync.replicas=3")
    wait_until(
        "all topics are in sync",
        lambda: json_here(cluster, "topic", "describe", "--under-replicated")["topics"] == [],
        60.0,
    )
    assert run_here(cluster, "topic", "describe", "--offline").stderr == "there is no such partition\n"
    cluster.kill("broker-3")
    try:
        with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap, acks=1) as producer:
            for partition in (0, 1):
                producer.send("watched", b"x", partition=partition).result(30)
            left = threading.Event()
            while any(3 in each.isr for each in admin.describe_topics(["watched"])[0].partitions):
                assert not left.wait(0.1)
            assert len(admin.list_offsets([TopicPartition("watched", 0)])) == 1
        for requested in ("--under-replicated", "--under-min-isr"):
            (topic,) = json_here(cluster, "topic", "describe", "watched", requested)["topics"]
            assert [each["partition"] for each in topic["partitions"]] == [0, 1]
        watching = ("topic", "isr-watch", "watched", "--until-full", "--interval", "0.05")
        too_late = run_here(cluster, *watching, "--timeout", "0.2")
        assert too_late.return_value == 1
        assert "isr" in too_late.stdout
        watcher = subprocess.Popen(
            command(*watching, "--timeout", "120", "-o", "json"),
            stdout=subprocess.PIPE,
            env=environment(cluster),
        )
        assert watcher.stdout is not None
        seen = [json.loads(watcher.stdout.readline()) for _ in (0, 1)]
        assert [sorted(each["isr"]) for each in seen] == [[1, 2], [1, 2]], "it begins with what is not well"
    finally:
        cluster.restart("broker-3")
    with watcher:
        changes = [json.loads(line) for line in watcher.stdout]
    assert watcher.returncode == 0
    full = {each["partition"]: sorted(each["isr"]) for each in changes}
    assert full == {0: [1, 2, 3], 1: [1, 2, 3]}
    assert {tuple(each["joined"]) for each in changes} >= {(3,)}


def test_nothing_is_lost_while_a_broker_is_killed_and_a_checker_says_so(
    hightide_cluster: LocalCluster,
) -> None:
    cluster = hightide_cluster
    arguments = (
        "bench",
        "verify",
        "--duration",
        "4",
        "--throughput",
        "500",
        "--partitions",
        "3",
        "-o",
        "json",
    )
    with subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, env=environment(cluster)) as checker:
        try:
            with Admin(cluster.bootstrap) as admin:
                there = threading.Event()
                while not any(name.startswith("bench-verify-") for name in admin.list_topics()):
                    assert not there.wait(0.05)
            cluster.kill("broker-2")
        finally:
            cluster.restart("broker-2")
        assert checker.stdout is not None
        found = json.loads(checker.stdout.read())
    assert checker.returncode == 0, found
    assert departures(DOCUMENTS["bench verify"], found) == []
    assert (found["lost"], found["duplicated"], found["reordered"]) == (0, 0, 0)
    assert found["acknowledged"] + found["unsure"] == 2_000
    assert found["topic"] not in {each["topic"] for each in json_here(cluster, "topic", "ls")["topics"]}
