"""What an operator does to a running cluster, by the command line alone."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from e2e.command_line import as_json, command, environment, hightide, succeed
from hightide import Admin, TopicDescription
from hightide_local.cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

LINES = b"".join(b"k%d:%0100d\n" % (at % 50, at) for at in range(20_000))
SETTLED_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Four brokers, for this file alone."""
    with LocalCluster(tmp_path_factory.mktemp("operator"), brokers=4) as four:
        yield four


def described(cluster: LocalCluster, topic: str) -> TopicDescription:
    with Admin(cluster.bootstrap) as admin:
        return admin.describe_topics([topic])[0]


def replicas_of(cluster: LocalCluster, topic: str) -> list[list[int]]:
    return [list(each.replicas) for each in described(cluster, topic).partitions]


def isr_of(cluster: LocalCluster, topic: str, number: int) -> tuple[int, ...]:
    return described(cluster, topic).partitions[number].isr


def leaders_of(cluster: LocalCluster, topic: str) -> list[int | None]:
    return [each.leader for each in described(cluster, topic).partitions]


def alive(cluster: LocalCluster) -> set[int]:
    """The brokers that live, as far as the controller knows."""
    with Admin(cluster.bootstrap) as admin:
        return {each.broker_id for each in admin.describe_cluster().brokers if each.alive}


def until(condition: Callable[[], bool], what: str) -> None:
    """Ask again until it holds."""
    give_up_s = time.monotonic() + SETTLED_S
    while not condition():
        assert time.monotonic() < give_up_s, f"gave up waiting until {what}"
        threading.Event().wait(0.05)


def create(cluster: LocalCluster, topic: str, *assignment: str) -> None:
    succeed(cluster, "topic", "create", topic, "--assignment", ":".join(assignment))


def is_healthy(cluster: LocalCluster) -> bool:
    return hightide(cluster, "cluster", "health").returncode == 0


def test_a_topic_is_moved_over_four_brokers_under_the_eyes_of_its_operator(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    create(cluster, "orders", "1,2", "2,1", "1,2", "2,1", "1,2", "2,1")
    create(cluster, "other", "1,2")
    succeed(cluster, "topic", "produce", "orders", "-K", ":", stdin=LINES)
    succeed(cluster, "topic", "produce", "other", "-K", ":", stdin=LINES)

    plan_file = tmp_path / "plan.json"
    plan = as_json(cluster, "reassign", "plan", "-t", "orders", "-b", "1,2,3,4", "-f", str(plan_file))
    assert json.loads(plan_file.read_text()) == plan
    assert plan["bytes_to_move"] > 1_000_000
    assert [
        (each["replicas"]["to"], each["preferred_leaders"]["to"] in (1, 2)) for each in plan["brokers"]
    ] == [(3, True)] * 4
    shown = succeed(cluster, "reassign", "plan", "-t", "orders").decode()
    assert "ARRIVES ON" in shown
    assert "in all" in shown

    tried = succeed(cluster, "reassign", "apply", str(plan_file), "--dry-run").decode()
    assert "would begin" in tried
    assert b"nothing is on the move" in succeed(cluster, "reassign", "ls")

    # So slow that no move is over before the limit is lifted; a batch that is larger passes once.
    begun = as_json(cluster, "reassign", "apply", str(plan_file), "--throttle", "1kB")
    assert all(each["error"] is None for each in begun["partitions"])
    under_way = as_json(cluster, "reassign", "ls")
    assert under_way["throttle_bytes_per_s"] == 1_000
    assert {each["partition"] for each in under_way["reassignments"]} <= set(range(6))
    health = json.loads(hightide(cluster, "cluster", "health", "-o", "json").stdout)
    assert 0 < health["moves_under_way"] <= len(under_way["reassignments"])
    assert health["throttle_bytes_per_s"] == 1_000
    assert (health["healthy"], health["under_replicated_partitions"]) == (True, 0)
    an_interrupted_watch_leaves_the_moves_running(cluster)

    # Another move is taken back while it is under way.
    succeed(cluster, "reassign", "apply", "--topic", "other", "--partition", "0", "--replicas", "3,4")
    assert "other" in {each["topic"] for each in as_json(cluster, "reassign", "ls")["reassignments"]}
    assert b"other-0" in succeed(cluster, "reassign", "cancel", "--topic", "other", "--partition", "0")
    assert replicas_of(cluster, "other") == [[1, 2]]

    assert b"not throttled" in succeed(cluster, "reassign", "throttle", "off")
    looks = [json.loads(line) for line in succeed(cluster, "reassign", "watch", "-o", "json").splitlines()]
    assert all(each["arrived"] for each in looks[-1].get("finished", ()))
    wanted = {each["partition"]: each["replicas"] for each in plan["partitions"]}
    now = dict(enumerate(replicas_of(cluster, "orders")))
    assert {partition: now[partition] for partition in wanted} == wanted
    again = succeed(cluster, "reassign", "apply", str(plan_file)).decode()
    assert "every partition is where the plan wants it" in again

    read = succeed(cluster, "topic", "consume", "orders", "--exit", "-f", r"%k:%v\n")
    assert sorted(read.splitlines()) == sorted(LINES.splitlines())
    succeed(cluster, "topic", "delete", "orders", "other", "--yes")
    until(lambda: is_healthy(cluster), "the cluster is healthy")


def an_interrupted_watch_leaves_the_moves_running(cluster: LocalCluster) -> None:
    watcher = subprocess.Popen(
        command("reassign", "watch", "--interval", "0.2", "-o", "json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(cluster),
    )
    assert watcher.stdout is not None
    looks = [json.loads(watcher.stdout.readline()) for _ in range(2)]
    assert looks[0]["moves"][0]["copies"][0]["end_offset"] > 0
    assert 0 <= looks[1]["bytes_done"] < looks[1]["bytes_total"]
    os.kill(watcher.pid, signal.SIGINT)
    _, said = watcher.communicate(timeout=60)
    assert watcher.returncode == 130
    assert b"the moves go on" in said
    assert as_json(cluster, "reassign", "ls")["reassignments"]


def test_apply_watches_its_own_moves_to_the_end(cluster: LocalCluster) -> None:
    create(cluster, "watched", "1,2")
    succeed(cluster, "topic", "produce", "watched", stdin=LINES)
    arguments = ("--topic", "watched", "--partition", "0", "--replicas", "3,1", "--watch")
    said = succeed(cluster, "reassign", "apply", *arguments).decode()
    assert "1 move begun" in said
    assert "1 of 1 moves have arrived" in said
    assert replicas_of(cluster, "watched") == [[3, 1]]
    succeed(cluster, "topic", "delete", "watched", "--yes")


def test_a_plan_that_is_out_of_date_is_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    create(cluster, "aged", "1,2")
    plan_file = tmp_path / "plan.json"
    plan_file.write_text(
        '{"partitions": [{"topic": "aged", "partition": 0, "replicas": [3, 4], "from": [2, 3]}]}'
    )
    run = hightide(cluster, "reassign", "apply", str(plan_file))
    assert (run.returncode, run.stderr.decode()) == (
        1,
        f"error: {plan_file} is out of date: aged-0 was on brokers 2,3 when it was made, and is on 1,2: "
        "make a new plan\n",
    )
    succeed(cluster, "topic", "delete", "aged", "--yes")


def test_a_broker_is_emptied_before_it_goes(cluster: LocalCluster, tmp_path: Path) -> None:
    create(cluster, "leaving", "4,1", "1,2", "3,4")
    plan_file = str(tmp_path / "without-4.json")
    plan = as_json(cluster, "reassign", "plan", "-t", "leaving", "--decommission", "4", "-f", plan_file)
    assert [each["partition"] for each in plan["partitions"]] == [0, 2]
    succeed(cluster, "reassign", "apply", plan_file, "--watch")
    assert all(4 not in replicas for replicas in replicas_of(cluster, "leaving"))
    succeed(cluster, "topic", "delete", "leaving", "--yes")


def test_a_topic_is_altered_grown_shrunk_and_deleted(cluster: LocalCluster) -> None:
    succeed(cluster, "topic", "create", "lives", "-p", "2", "-r", "3")
    succeed(cluster, "topic", "produce", "lives", "-K", ":", stdin=LINES[:10_000])

    altered = as_json(
        cluster, "topic", "alter", "lives", "--set", "retention.ms=1000000", "--set", "min.insync.replicas=2"
    )
    assert altered["configs"] == {"retention.ms": "1000000", "min.insync.replicas": "2"}
    assert b"min.insync.replicas=2" in succeed(cluster, "topic", "alter", "lives", "--reset", "retention.ms")
    tried = as_json(cluster, "topic", "alter", "lives", "--reset", "min.insync.replicas", "--dry-run")
    assert tried["configs"] == {}
    assert described(cluster, "lives").configs == {"min.insync.replicas": "2"}

    grown = as_json(cluster, "topic", "add-partitions", "lives", "-p", "4", "--assignment", "1,2,3:4,3,2")
    assert [each["replicas"] for each in grown["added"]] == [[1, 2, 3], [4, 3, 2]]
    assert replicas_of(cluster, "lives")[2:] == [[1, 2, 3], [4, 3, 2]]
    succeed(cluster, "topic", "produce", "lives", "-p", "3", stdin=b"one\ntwo\n")

    until(
        lambda: as_json(cluster, "topic", "offsets", "lives")["partitions"][3]["records"] == 2,
        "they are there",
    )
    warned = hightide(cluster, "topic", "remove-partitions", "lives", "-p", "3", "--dry-run").stderr.decode()
    assert "partition 3 would go, with 2 records" in warned
    assert "consumer groups" in warned
    unanswered = hightide(cluster, "topic", "remove-partitions", "lives", "-p", "3")
    assert unanswered.returncode == 1
    assert "nothing was changed: nobody answered the question; give --yes" in unanswered.stderr.decode()
    assert len(replicas_of(cluster, "lives")) == 4
    removed = as_json(cluster, "topic", "remove-partitions", "lives", "-p", "3", "--yes")
    assert (removed["removed"], removed["records"]) == ([3], 2)
    assert len(replicas_of(cluster, "lives")) == 3

    declined = hightide(cluster, "topic", "delete", "lives", stdin=b"n\n")
    assert declined.returncode == 1
    assert b"error: nothing was changed\n" in declined.stderr
    tried = as_json(cluster, "topic", "delete", "lives", "--dry-run")
    assert tried["deleted"][0]["partitions"] == 3
    confirmed = hightide(cluster, "topic", "delete", "lives", stdin=b"y\n")
    assert confirmed.returncode == 0, confirmed.stderr.decode()
    assert b"topic lives deleted" in confirmed.stdout
    assert b"lives" not in succeed(cluster, "topic", "ls")
    assert b"nothing to delete" in succeed(cluster, "topic", "delete", "lives", "--if-exists", "--yes")
    succeed(cluster, "topic", "create", "lives")
    assert as_json(cluster, "topic", "offsets", "lives")["partitions"][0]["records"] == 0
    succeed(cluster, "topic", "delete", "lives", "--yes")


def test_leaders_go_back_to_the_preferred_replica(cluster: LocalCluster) -> None:
    create(cluster, "led", "1,2", "1,3", "1,4")
    cluster.restart("broker-1")
    until(lambda: 1 in isr_of(cluster, "led", 2), "broker 1 is in sync again")
    until(lambda: is_healthy(cluster), "the cluster is healthy")
    # A dry run goes by what the controller knows, which is not the leader's newest ISR at once.
    dry_run = ("elect", "preferred", "--topic", "led", "--dry-run")
    until(lambda: hightide(cluster, *dry_run).returncode == 0, "the controller knows of it")
    succeed(cluster, "elect", "preferred", "--topic", "led", "--partition", "0")
    assert leaders_of(cluster, "led")[0] == 1
    succeed(cluster, "elect", "preferred")
    assert leaders_of(cluster, "led") == [1, 1, 1]
    assert b"is led by its preferred leader" in succeed(cluster, "elect", "preferred", "--topic", "led")
    succeed(cluster, "topic", "delete", "led", "--yes")


def test_a_topic_is_deleted_while_a_broker_is_down_and_nothing_of_it_comes_back(
    cluster: LocalCluster,
) -> None:
    create(cluster, "ghost", "1,4")
    succeed(cluster, "topic", "produce", "ghost", stdin=LINES)
    cluster.kill("broker-4")
    until(lambda: 4 not in alive(cluster), "the controller knows that broker 4 is down")
    said = succeed(cluster, "topic", "delete", "ghost", "--yes").decode()
    assert said == ("topic ghost deleted; broker 4 is down and deletes its replicas when it starts\n")
    create(cluster, "ghost", "1,2")
    cluster.restart("broker-4")
    assert succeed(cluster, "topic", "consume", "ghost", "--exit") == b""
    until(lambda: is_healthy(cluster), "the cluster is healthy")
    succeed(cluster, "topic", "delete", "ghost", "--yes")


def test_an_unclean_election_says_what_it_loses(cluster: LocalCluster) -> None:
    create(cluster, "torn", "1,2")
    succeed(cluster, "topic", "produce", "torn", stdin=b"kept\n")
    cluster.kill("broker-2")
    until(lambda: isr_of(cluster, "torn", 0) == (1,), "broker 1 is alone")
    succeed(cluster, "topic", "produce", "torn", stdin=b"lost\n")
    cluster.kill("broker-1")
    until(lambda: leaders_of(cluster, "torn") == [None], "there is no leader")
    cluster.restart("broker-2", wait=False)
    ill = json.loads(hightide(cluster, "cluster", "health", "-o", "json").stdout)
    assert ill["offline_partitions"] >= 1
    assert 1 in ill["dead_brokers"]
    refused = hightide(cluster, "elect", "preferred", "--topic", "torn", "--partition", "0")
    assert refused.returncode == 1
    assert refused.stderr.decode().startswith("error: ")

    # The end of its log is asked of brokers that the others know of.
    cluster.wait_ready()
    until(lambda: elected(cluster), "broker 2 was elected")
    assert isr_of(cluster, "torn", 0) == (2,)
    read = succeed(cluster, "topic", "consume", "torn", "--exit")
    assert read == b"kept\n"
    cluster.restart("broker-1")
    until(lambda: 1 in isr_of(cluster, "torn", 0), "broker 1 follows")
    succeed(cluster, "topic", "delete", "torn", "--yes")
    until(lambda: is_healthy(cluster), "the cluster is healthy")


def elected(cluster: LocalCluster) -> bool:
    """Elect; not before the broker that is left has registered."""
    run = hightide(cluster, "elect", "unclean", "--topic", "torn", "--partition", "0", "--yes")
    if run.returncode != 0:
        return False
    said = run.stdout.decode()
    assert "torn-0: broker 2, whose log ends at offset 1, elected" in said
    assert "what only broker 1 held beyond that is lost" in said
    assert "the last in-sync replicas are on broker 1" in run.stderr.decode()
    return True


@pytest.fixture(scope="module")
def still(cluster: LocalCluster) -> LocalCluster:
    """The cluster with a topic that the bad orders are about."""
    create(cluster, "still", "1,2", "2,3")
    return cluster


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("reassign", "apply", "-t", "still", "-p", "0", "--replicas", "1,9"), ["still", "9"]),
        (("reassign", "apply", "-t", "still", "-p", "0", "--replicas", "1,1"), ["still", "1", "twice"]),
        (("reassign", "apply", "-t", "still", "-p", "0", "--replicas", "1,2"), ["still", "1"]),
        (("reassign", "apply", "-t", "still", "-p", "7", "--replicas", "1,2"), ["still", "7"]),
        (("reassign", "apply", "-t", "nowhere", "-p", "0", "--replicas", "1,2"), ["nowhere"]),
        (("reassign", "plan", "-t", "still", "-b", "1,9"), ["broker 9 is not known", "1, 2, 3, 4"]),
        (("reassign", "plan", "-t", "still", "-b", "1,1"), ["broker 1 is named twice"]),
        (
            ("reassign", "plan", "-t", "still", "-b", "1,2", "-r", "3"),
            ["3 replicas of still-0", "2 are given"],
        ),
        (("reassign", "cancel", "-t", "still", "-p", "0"), ["still", "0"]),
        (("topic", "create", "wide", "-r", "5"), ["5", "replica"]),
        (("topic", "create", "twice", "--assignment", "1,1"), ["1"]),
        (("topic", "create", "unknown", "--assignment", "1,9"), ["9"]),
        (("topic", "remove-partitions", "still", "-p", "0", "--yes"), ["still", "0"]),
        (("topic", "remove-partitions", "still", "-p", "2", "--yes"), ["still", "2"]),
        (("topic", "add-partitions", "still", "-p", "2"), ["still", "2"]),
        (("topic", "add-partitions", "still", "-p", "3", "--assignment", "1,9"), ["9"]),
        (("topic", "add-partitions", "nowhere", "-p", "2"), ["nowhere"]),
        (("topic", "alter", "still", "--set", "retention.mss=1"), ["retention.mss", "retention.ms"]),
        (("topic", "alter", "nowhere", "--set", "retention.ms=1"), ["nowhere"]),
        (("topic", "delete", "nowhere", "--yes"), ["nowhere"]),
        (("topic", "delete", "still", "nowhere", "--yes"), ["nowhere"]),
        (("elect", "preferred", "-t", "nowhere"), ["nowhere"]),
        (("elect", "preferred", "-t", "still", "-p", "7"), ["still", "7"]),
        (
            ("elect", "unclean", "-t", "still", "-p", "0", "--yes"),
            ["broker 1 leads still-0", "shows the leader"],
        ),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_one_sentence_with_the_values_and_the_next_step(
    still: LocalCluster, arguments: tuple[str, ...], said: list[str]
) -> None:
    before = replicas_of(still, "still")
    run = hightide(still, *arguments)
    error = run.stderr.decode()
    assert run.returncode == 1, error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert [text for text in said if text not in error] == []
    assert replicas_of(still, "still") == before
