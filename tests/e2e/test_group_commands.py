"""Consumer groups by the command line alone: read as one, see who reads what, set offsets, delete."""

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from e2e.command_line import as_json, command, environment, hightide, succeed
from hightide import Admin, Producer
from hightide.errors import UnknownGroupError
from hightide_local.cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SETTLED_S = 60.0
PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The smallest cluster that has groups, for this file alone."""
    directory = tmp_path_factory.mktemp("groups")
    with LocalCluster(directory, brokers=1, controllers=1, coordinators=1) as small:
        yield small


def until(condition: Callable[[], bool], what: str) -> None:
    """Ask again until it holds."""
    give_up_s = time.monotonic() + SETTLED_S
    while not condition():
        assert time.monotonic() < give_up_s, f"gave up waiting until {what}"
        threading.Event().wait(0.05)


def topic_with(cluster: LocalCluster, name: str, count: int) -> None:
    """A topic of which each partition has `count` records, numbered over all."""
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic(name, PARTITIONS, 1)
        for number in range(PARTITIONS * count):
            producer.send(name, b"%d" % number, partition=number // count)


def read(cluster: LocalCluster, topic: str, group: str, *arguments: str) -> list[int]:
    output = succeed(cluster, "topic", "consume", topic, "--group", group, *arguments)
    return [int(line) for line in output.splitlines()]


def described(cluster: LocalCluster, group: str) -> dict[str, Any]:
    (document,) = as_json(cluster, "group", "describe", group)["groups"]
    assert isinstance(document, dict)
    return document


def owners(cluster: LocalCluster, group: str) -> dict[str, int]:
    """How many partitions each member owns; nothing where the group does not exist yet."""
    with Admin(cluster.bootstrap) as admin:
        try:
            return {each.consumer_id: len(each.partitions) for each in admin.describe_group(group).members}
        except UnknownGroupError:
            return {}


def committed(cluster: LocalCluster, group: str) -> list[int]:
    with Admin(cluster.bootstrap) as admin:
        return [each.offset for _, each in sorted(admin.group_offsets(group).items())]


@contextmanager
def member(cluster: LocalCluster, topic: str, group: str, name: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A member of the group that reads until it is ended."""
    arguments = ("topic", "consume", topic, "--group", group, "--consumer-id", name)
    with subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(cluster)
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_group_goes_on_where_it_has_come_to(cluster: LocalCluster) -> None:
    topic_with(cluster, "resumed", 25)
    first = read(cluster, "resumed", "readers", "-n", "30")
    assert len(first) == 30
    rest = read(cluster, "resumed", "readers", "--exit")
    assert sorted(first + rest) == list(range(PARTITIONS * 25)), "nothing twice, nothing skipped"
    assert read(cluster, "resumed", "others", "--exit", "--from", "earliest") != []
    lag = as_json(cluster, "group", "lag", "readers")
    assert lag["lag"] == 0
    assert [each["committed"] for each in lag["partitions"]] == [25] * PARTITIONS
    assert b"lag 0 in 4 partitions, 4 read by nobody" in succeed(cluster, "group", "lag", "readers")


def test_the_cluster_tells_who_coordinates_its_groups(cluster: LocalCluster) -> None:
    (address,) = cluster.coordinators.values()
    assert as_json(cluster, "cluster", "info")["coordinators"] == [address]
    assert as_json(cluster, "cluster", "health")["coordinators"] == [address]
    assert address in succeed(cluster, "cluster", "health").decode()


def test_a_cluster_whose_coordinator_is_gone_is_not_healthy(cluster: LocalCluster) -> None:
    def named() -> list[str | None]:
        found: list[str | None] = json.loads(hightide(cluster, "cluster", "health", "-o", "json").stdout)[
            "coordinators"
        ]
        return found

    cluster.terminate("coordinator-1")
    try:
        until(lambda: named() == [None], "brokers know that it is gone")
        told = hightide(cluster, "cluster", "health")
        assert told.returncode == 1
        assert "not healthy: no consumer coordinator is active" in told.stdout.decode()
        assert "start `hightide-coordinator`" in told.stdout.decode()
    finally:
        cluster.restart("coordinator-1")
    succeed(cluster, "cluster", "health", "--until-healthy", "--interval", "0.2")


def test_a_cluster_whose_coordinator_died_is_not_healthy_from_then_on(cluster: LocalCluster) -> None:
    """Also before its session ends, until when brokers take it for the active one."""
    cluster.kill("coordinator-1")
    try:
        told = hightide(cluster, "cluster", "health")
        assert told.returncode == 1
        assert re.search(
            r"the coordinator at \S+ does not answer|no consumer coordinator is active", told.stdout.decode()
        )
    finally:
        cluster.restart("coordinator-1")
    succeed(cluster, "cluster", "health", "--until-healthy", "--interval", "0.2")


def test_members_share_the_partitions_and_the_last_one_has_them_all(cluster: LocalCluster) -> None:
    topic_with(cluster, "shared", 5)
    with (
        member(cluster, "shared", "sharers", "one") as one,
        member(cluster, "shared", "sharers", "two") as two,
    ):
        until(lambda: owners(cluster, "sharers") == {"one": 2, "two": 2}, "both own two")
        until(lambda: described(cluster, "sharers")["state"] == "stable", "nothing is handed over any more")
        group = described(cluster, "sharers")
        assert (group["state"], group["topics"]) == ("stable", ["shared"])
        assert {each["consumer"] for each in group["partitions"]} == {"one", "two"}
        text = succeed(cluster, "group", "describe", "sharers").decode()
        assert "coordinator" in text
        assert "yes" in text, "both are connected"
        assert ["sharers", "stable", "2"] in [
            line.split()[:3] for line in succeed(cluster, "group", "ls").decode().splitlines()
        ]
        refused = hightide(cluster, "group", "delete", "sharers", "--yes")
        assert refused.returncode == 1
        assert b"group sharers has members" in refused.stderr
        one.send_signal(signal.SIGTERM)
        printed, error = one.communicate(timeout=60)
        assert (one.returncode, error) == (0, b"")
        until(lambda: owners(cluster, "sharers") == {"two": 4}, "the other owns all")
        until(lambda: committed(cluster, "sharers") == [5] * PARTITIONS, "it has read what was left")
        two.send_signal(signal.SIGINT)
        printed_too, error = two.communicate(timeout=60)
        assert (two.returncode, error) == (0, b"")
    assert sorted(map(int, (printed + printed_too).split())) == list(range(PARTITIONS * 5))
    until(lambda: described(cluster, "sharers")["state"] == "empty", "nobody is left")
    assert committed(cluster, "sharers") == [5] * PARTITIONS


def test_offsets_are_reset_and_a_dry_run_comes_first(cluster: LocalCluster) -> None:
    topic_with(cluster, "reset", 40)
    read(cluster, "reset", "resetters", "--exit")

    def reset(*arguments: str) -> list[int]:
        document = as_json(cluster, "group", "reset-offsets", "resetters", *arguments)
        assert document["dry_run"] == ("--execute" not in arguments)
        assert [each["error"] for each in document["partitions"]] == [None] * len(document["partitions"])
        return [each["new"] for each in document["partitions"]]

    shown = succeed(cluster, "group", "reset-offsets", "resetters", "--to-earliest")
    assert b"-40" in shown
    assert committed(cluster, "resetters") == [40] * PARTITIONS, "it was only shown"
    assert reset("--shift-by", "-10", "--execute") == [30] * PARTITIONS
    assert committed(cluster, "resetters") == [30] * PARTITIONS
    assert sorted(read(cluster, "reset", "resetters", "--exit")) == [
        partition * 40 + at for partition in range(PARTITIONS) for at in range(30, 40)
    ]
    assert reset("--to-offset", "100", "--execute") == [40] * PARTITIONS, "the log ends there"
    assert reset("--to-offset", "7", "--topic", "reset", "--partition", "2", "--execute") == [7]
    assert committed(cluster, "resetters") == [40, 40, 7, 40]
    assert reset("--to-time", "2000-01-01") == [0] * PARTITIONS
    assert reset("--to-time", "2100-01-01") == [40] * PARTITIONS
    assert reset("--by-duration", "1h") == [0] * PARTITIONS
    assert reset("--to-latest") == [40] * PARTITIONS
    assert reset("--to-earliest", "--execute") == [0] * PARTITIONS
    assert len(read(cluster, "reset", "resetters", "--exit")) == PARTITIONS * 40


def test_a_group_that_does_not_exist_yet_gets_its_offsets_before_it_reads(cluster: LocalCluster) -> None:
    topic_with(cluster, "ahead", 10)
    nothing = hightide(cluster, "group", "reset-offsets", "planned", "--to-latest")
    assert nothing.returncode == 1
    assert b"--topic" in nothing.stderr
    setting = ("group", "reset-offsets", "planned", "--topic", "ahead", "--to-offset", "8")
    succeed(cluster, *setting)
    assert "planned" not in {each["group"] for each in as_json(cluster, "group", "ls")["groups"]}
    succeed(cluster, *setting, "--execute")
    assert len(read(cluster, "ahead", "planned", "--exit")) == PARTITIONS * 2


def test_the_offsets_of_a_group_with_members_are_not_touched_nor_planned(cluster: LocalCluster) -> None:
    topic_with(cluster, "busy", 3)
    with member(cluster, "busy", "workers", "w"):
        until(lambda: owners(cluster, "workers") == {"w": PARTITIONS}, "it owns all")
        until(lambda: committed(cluster, "workers") == [3] * PARTITIONS, "all is read")
        for execute in ([], ["--execute"]):
            run = hightide(cluster, "group", "reset-offsets", "workers", "--to-earliest", *execute)
            assert run.returncode == 1
            assert b"workers" in run.stderr
            assert run.stderr.startswith(b"error: ")
            assert run.stdout == b"", "a plan would read as if it had been done"
        for dry_run in ([], ["--dry-run"]):
            run = hightide(cluster, "group", "commit", "workers", "busy:0=1", "--yes", *dry_run)
            assert (run.returncode, run.stdout) == (1, b"")
            assert b"workers" in run.stderr
        assert committed(cluster, "workers") == [3] * PARTITIONS


def test_the_lag_is_watched_until_it_is_interrupted(cluster: LocalCluster) -> None:
    topic_with(cluster, "watched", 6)
    succeed(cluster, "group", "reset-offsets", "behind", "-t", "watched", "--to-earliest", "--execute")
    watching = command("group", "lag", "behind", "--watch", "--interval", "0.1", "-o", "json")
    with subprocess.Popen(watching, stdout=subprocess.PIPE, env=environment(cluster)) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["lag"], first["read_per_s"]) == (PARTITIONS * 6, None)
        assert json.loads(process.stdout.readline())["read_per_s"] == 0
        read(cluster, "watched", "behind", "--exit")
        for line in process.stdout:
            if json.loads(line)["lag"] == 0:
                break
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 0


def test_a_deleted_group_begins_anew(cluster: LocalCluster) -> None:
    topic_with(cluster, "again", 2)
    assert len(read(cluster, "again", "forgetful", "--exit")) == PARTITIONS * 2
    assert as_json(cluster, "group", "delete", "forgetful", "--dry-run")["deleted"] == [
        {"group": "forgetful", "offsets": PARTITIONS}
    ]
    unasked = hightide(cluster, "group", "delete", "forgetful")
    assert (unasked.returncode, b"--yes" in unasked.stderr) == (1, True)
    assert b"group forgetful deleted" in succeed(cluster, "group", "delete", "forgetful", "--yes")
    assert "forgetful" not in {each["group"] for each in as_json(cluster, "group", "ls")["groups"]}
    assert b"nothing to delete" in succeed(cluster, "group", "delete", "forgetful", "--if-exists", "--yes")
    assert len(read(cluster, "again", "forgetful", "--exit")) == PARTITIONS * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("group", "describe", "nobody"), "nobody"),
        (("group", "lag", "nobody"), "nobody"),
        (("group", "delete", "nobody", "--yes"), "nobody"),
        (("group", "describe", "../x"), "../x"),
        (("group", "reset-offsets", "g", "--to-latest", "--topic", "nowhere"), "nowhere"),
        (("group", "reset-offsets", "g", "--topic", "bad-input", "--shift-by", "1"), "no committed offset"),
        (("group", "reset-offsets", "g", "-t", "bad-input", "-p", "99", "--to-latest"), "99"),
        (("topic", "consume", "bad-input", "--group", "a b"), "a b"),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line_that_says_what(
    cluster: LocalCluster, arguments: tuple[str, ...], said: str
) -> None:
    succeed(cluster, "topic", "create", "bad-input", "-r", "1", "--if-not-exists")
    run = hightide(cluster, *arguments)
    error = run.stderr.decode()
    assert run.returncode == 1, error
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1
