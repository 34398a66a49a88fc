"""What operates a cluster by the command line: health, brokers, the controller, settings, versions."""

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.command_line import as_json, command, environment, hightide, succeed
from hightide import Admin
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

THERE_S = 60.0


@pytest.fixture(autouse=True)
def no_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_brokers_tell_what_they_hold_and_who_they_are(
    hightide_cluster: LocalCluster, hightide_topic: str
) -> None:
    cluster = hightide_cluster
    listed = as_json(cluster, "broker", "ls")["brokers"]
    assert [each["id"] for each in listed] == [1, 2, 3]
    assert listed == as_json(cluster, "cluster", "info")["brokers"]
    assert yaml.safe_load(succeed(cluster, "broker", "ls", "-o", "yaml"))["brokers"] == listed
    wide = succeed(cluster, "broker", "ls", "-o", "wide").decode().splitlines()
    assert wide[0].split()[-3:] == ["EXTERNAL", "VERSION", "SINCE"]
    assert wide[1].split()[-2] == "0.1.0"

    assert wide[0] in succeed(cluster, "cluster", "info", "-o", "wide").decode()
    assert "UNDER-REPLICATED" in succeed(cluster, "topic", "ls", "-o", "wide").decode()
    assert "HIGH WATERMARK" in succeed(cluster, "topic", "describe", hightide_topic, "-o", "wide").decode()

    described = as_json(cluster, "broker", "describe", "2", "--replicas")
    assert described["server"]["advertised"] == described["address"]
    assert [each["state"] for each in described["log_directories"]] == ["online"]
    assert hightide_topic in {each["topic"] for each in described["held"]}
    assert "version" in succeed(cluster, "broker", "describe", "2").decode()

    directories = as_json(cluster, "broker", "log-dirs")["log_directories"]
    assert [each["broker"] for each in directories] == [1, 2, 3]
    assert all(0 < each["free_bytes"] <= each["total_bytes"] for each in directories)
    assert len(as_json(cluster, "broker", "log-dirs", "3")["log_directories"]) == 1
    unknown = hightide(cluster, "broker", "describe", "9")
    assert (unknown.returncode, unknown.stderr) == (1, b"error: there is no broker 9; there are: 1, 2, 3\n")


def test_a_shell_completes_what_the_cluster_has(hightide_cluster: LocalCluster, hightide_topic: str) -> None:
    words = {"_HIGHTIDE_COMPLETE": "bash_complete", "COMP_CWORD": "3"}

    def completed(line: str) -> str:
        return subprocess.run(
            command(),
            env={**environment(hightide_cluster), **words, "COMP_WORDS": line},
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout

    # A cluster that does not answer within the third of a second that it is given completes nothing.
    topics = f"hightide topic describe {hightide_topic[:20]}"
    found = wait_until("a topic is completed", lambda: completed(topics), THERE_S)
    assert found == f"plain,{hightide_topic}\n"
    found = wait_until("brokers are completed", lambda: completed("hightide broker drain "), THERE_S)
    assert found == "plain,1\nplain,2\nplain,3\n"


def test_a_topic_has_settings_with_an_origin(hightide_cluster: LocalCluster, hightide_topic: str) -> None:
    cluster, topic = hightide_cluster, hightide_topic
    would = as_json(cluster, "config", "set", topic, "retention.ms=1000", "--dry-run")
    assert [(each["name"], each["value"]) for each in would["changed"]] == [("retention.ms", "1000")]
    (own,) = as_json(cluster, "config", "get", topic, "--own")["settings"]
    assert (own["name"], own["value"]) == ("min.insync.replicas", "2"), (
        "what a topic of three replicas begins with"
    )
    changed = as_json(cluster, "config", "set", topic, "retention.ms=1000")["changed"]
    assert [(each["value"], each["previous"]) for each in changed] == [("1000", "604800000")]
    own = as_json(cluster, "config", "get", topic, "--own")["settings"][-1]
    assert (own["name"], own["value"], own["origin"]) == ("retention.ms", "1000", "topic")
    assert "for ever" in succeed(cluster, "config", "get", topic, "retention.ms", "-o", "wide").decode()
    back = as_json(cluster, "config", "set", topic, "--reset", "retention.ms")["changed"]
    assert [(each["value"], each["origin"]) for each in back] == [("604800000", "default")]
    wrong = hightide(cluster, "config", "get", topic, "retention")
    assert wrong.returncode == 1
    assert b"there is no topic setting 'retention'" in wrong.stderr


def test_every_server_tells_its_version(hightide_cluster: LocalCluster) -> None:
    def told_by_all() -> Any:
        """None where a server took too long, or nobody knows yet of the one that stands by."""
        told = as_json(hightide_cluster, "version")
        return told if len([each for each in told["servers"] if each["version"]]) == 6 else None

    told = wait_until("every server answers", told_by_all, THERE_S)
    assert told["error"] is None
    kinds = sorted(each["service"] for each in told["servers"])
    assert kinds == ["broker"] * 3 + ["controller"] * 2 + ["coordinator"], "also the one that stands by"
    assert {each["version"] for each in told["servers"]} == {told["client"]}
    assert succeed(hightide_cluster, "--version").decode() == f"hightide {told['client']}\n"
    nobody = hightide(hightide_cluster, "version", "--bootstrap", "127.0.0.1:1", "-o", "json")
    assert nobody.returncode == 0
    document = json.loads(nobody.stdout)
    assert (document["client"], document["servers"]) == (told["client"], [])
    assert "127.0.0.1:1" in document["error"]


def test_a_controller_that_stands_by_is_told_of(hightide_cluster: LocalCluster) -> None:
    # It serves a little before it is told of.
    wait_until("it is told of", lambda: as_json(hightide_cluster, "cluster", "info")["standbys"], THERE_S)
    info = as_json(hightide_cluster, "cluster", "info")
    (standby,) = info["standbys"]
    assert (standby["service"], {standby["id"], info["controller"]["id"]}) == ("controller", {1, 2})
    line = next(
        each
        for each in succeed(hightide_cluster, "cluster", "info").decode().splitlines()
        if each.startswith("standing by")
    )
    assert line.endswith(f"controller {standby['id']} at {standby['address']}")


def test_running_servers_tell_their_settings_and_who_said_so(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster

    def shown() -> Any:
        """None where a server took too long, or nobody knows yet of the one that stands by."""
        run = hightide(cluster, "config", "show", "-o", "json")
        told = json.loads(run.stdout)["servers"]
        return told if run.returncode == 0 and len(told) == 6 else None

    servers = wait_until("every server is shown", shown, THERE_S)
    names = [f"{each['service']}-{each['instance']}" for each in servers]
    assert names == ["broker-1", "broker-2", "broker-3", "controller-1", "controller-2", "coordinator-1"]
    by_name = dict(zip(names, servers, strict=True))
    of_broker = {each["name"]: each for each in by_name["broker-2"]["settings"]}
    assert (of_broker["broker-id"]["value"], of_broker["broker-id"]["origin"]) == ("2", "argument")
    # Local clusters say this one, though it is the default.
    assert of_broker["log-level"]["value"] == of_broker["log-level"]["default"] == "INFO"
    assert of_broker["log-level"]["origin"] == "argument"
    assert of_broker["flush-interval-ms"]["value"] == of_broker["flush-interval-ms"]["default"] == "30000"
    assert of_broker["flush-interval-ms"]["origin"] == "default"
    assert of_broker["zookeeper"]["value"] == cluster.zookeeper

    own = as_json(cluster, "config", "show", "--own", by_name["broker-3"]["address"], "controller-2")
    assert [(each["service"], each["instance"]) for each in own["servers"]] == [
        ("broker", "3"),
        ("controller", "2"),
    ]
    assert "default" not in {each["origin"] for of in own["servers"] for each in of["settings"]}
    assert b"HIGHTIDE_BROKER_LOG_LEVEL" in succeed(cluster, "config", "show", "broker-1", "-o", "wide")

    unknown = hightide(cluster, "config", "show", "broker-9")
    assert unknown.returncode == 1
    assert b"there is no broker-9; there are broker-1, broker-2, broker-3, controller-1" in unknown.stderr
    silent = hightide(cluster, "config", "show", "127.0.0.1:1", "-o", "json")
    assert silent.returncode == 1
    assert "127.0.0.1:1" in json.loads(silent.stdout)["servers"][0]["error"]


def test_a_controller_steps_down_and_another_one_reigns(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    before = as_json(cluster, "controller", "show")
    assert before["server"]["version"] == as_json(cluster, "version", "--client")["client"]
    would = as_json(cluster, "controller", "resign", "--dry-run")
    assert would["resigned"] == {"id": before["id"], "epoch": before["epoch"]}
    assert would["controller"] is None
    stale = hightide(cluster, "controller", "resign", "--epoch", str(before["epoch"] + 7))
    assert stale.returncode == 1
    resigned = as_json(cluster, "controller", "resign", "--epoch", str(before["epoch"]))
    assert resigned["controller"]["epoch"] > before["epoch"]
    assert as_json(cluster, "controller", "show")["epoch"] == resigned["controller"]["epoch"]


def test_a_coordinator_gives_up_its_shards(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    before = as_json(cluster, "coordinator", "show")
    (address,) = cluster.coordinators.values()
    assert before == {"shards": [{"shard": 0, "id": 1, "address": address}], "standbys": []}
    assert address.encode() in succeed(cluster, "coordinator", "show")
    would = as_json(cluster, "coordinator", "resign", "1", "--dry-run")
    assert would == {"dry_run": True, "id": 1, "shards": [0]}
    wrong = hightide(cluster, "coordinator", "resign", "1", "--shard", "7", "--dry-run")
    assert (wrong.returncode, b"not active for shard 7" in wrong.stderr) == (1, True)
    nobody = hightide(cluster, "coordinator", "resign", "9")
    assert (nobody.returncode, b"there is no coordinator 9; there are: 1" in nobody.stderr) == (1, True)
    resigned = as_json(cluster, "coordinator", "resign", "1", "--shard", "0")
    assert resigned == {"dry_run": False, "id": 1, "shards": [0]}
    # It is alone, and is elected again.
    with Admin(cluster.bootstrap) as admin:
        assert admin.list_groups() is not None, "it answers about groups"


def test_a_broker_is_drained_before_it_is_stopped(hightide_cluster: LocalCluster) -> None:
    cluster, topic = hightide_cluster, f"drained-{uuid.uuid4().hex}"
    # What was not in sync would be among what remains.
    succeed(cluster, "cluster", "health", "--until-healthy", "--interval", "0.2")
    succeed(cluster, "topic", "create", topic, "--assignment", "2,1:2,3:2")
    would = as_json_anyway(cluster, "broker", "drain", "2", "--dry-run")
    assert would["led"] >= 3
    assert {"topic": topic, "partition": 2} in would["without_another_in_sync"]
    with Admin(cluster.bootstrap) as admin:
        assert [each.leader for each in admin.describe_topics([topic])[0].partitions] == [2, 2, 2]
        drained = as_json_anyway(cluster, "broker", "drain", "2", "--timeout", "10")
        assert drained["remaining"] == would["remaining"]
        leaders = [each.leader for each in admin.describe_topics([topic])[0].partitions]
        assert (leaders[0], leaders[1]) == (1, 3)
        admin.delete_topic(topic)
    # It leads again after a start; so it is as it was for whoever comes next.
    cluster.restart("broker-2")
    cluster.wait_ready()


def as_json_anyway(cluster: LocalCluster, *arguments: str) -> Any:
    """The document of a command whose exit code says that not all is well."""
    run = hightide(cluster, *arguments, "-o", "json")
    assert run.returncode == 1, run.stderr.decode()
    return json.loads(run.stdout)


def test_health_is_told_with_an_exit_code_also_without_a_controller(hightide_cluster: LocalCluster) -> None:
    cluster = hightide_cluster
    health = ("cluster", "health", "--until-healthy", "--interval", "0.2")
    # A line a look: the broker that was started again may not be in sync at the first one.
    well = json.loads(succeed(cluster, *health, "-o", "json").splitlines()[-1])
    assert (well["healthy"], well["problems"]) == (True, [])
    controllers = [name for name in cluster.names if name.startswith("controller-")]
    for name in controllers:
        cluster.kill(name)
    ill = as_json_anyway(cluster, "cluster", "health", "--timeout", "5")
    assert ill["controller"] is None
    assert ill["problems"][0].startswith("no controller is active")
    assert (ill["partitions"], ill["brokers"]) == (well["partitions"], 3)
    for name in controllers:
        cluster.restart(name, wait=False)
    cluster.wait_ready()
    watched = succeed(cluster, *health).decode()
    assert watched.splitlines()[-1].endswith(" healthy")


def test_zookeeper_is_looked_into_and_left_alone(hightide_cluster: LocalCluster, hightide_topic: str) -> None:
    cluster, where = hightide_cluster, ("--zookeeper", hightide_cluster.zookeeper)
    shown = succeed(cluster, "zk", "tree", "/brokers", "--depth", "2", *where).decode()
    assert "  ids\n    1 (ephemeral)\n    2 (ephemeral)\n    3 (ephemeral)\n" in shown
    held = as_json(cluster, "zk", "get", f"/brokers/topics/{hightide_topic}/0/leaderAndISR", *where)
    assert sorted(json.loads(held["data"])["isr"]) == [1, 2, 3]
    # Not more is said to be there than there is.
    ids = as_json(cluster, "zk", "tree", "/brokers/ids", *where)["znodes"]
    whole = as_json(cluster, "zk", "tree", "/brokers/ids", "--limit", str(len(ids)), *where)
    assert (whole["truncated"], whole["znodes"]) == (False, ids)
    listed = as_json(cluster, "zk", "tree", "--limit", "5", *where)
    assert (len(listed["znodes"]), listed["truncated"]) == (5, True)
    missing = hightide(cluster, "zk", "get", "/nowhere", *where)
    assert (missing.returncode, b"there is no znode /nowhere" in missing.stderr) == (1, True)


def test_top_prints_one_look_where_there_is_no_terminal(
    hightide_cluster: LocalCluster, hightide_topic: str
) -> None:
    cluster, topic = hightide_cluster, hightide_topic
    succeed(cluster, "topic", "produce", topic, stdin=b"a\nb\nc\n")
    succeed(cluster, "topic", "consume", topic, "--group", f"g-{topic}", "-n", "2")
    shown = as_json(cluster, "top", "--interval", "0.2")
    assert [(each["broker"], each["alive"]) for each in shown["brokers"]] == [(1, True), (2, True), (3, True)]
    (own,) = [each for each in shown["by_topic"] if each["topic"] == topic]
    assert own["records_per_s"] == 0.0
    assert own["size_bytes"] > 0
    (group,) = [each for each in shown["groups"] if each["group"] == f"g-{topic}"]
    assert group["lag"] == 1
    assert "records/s" in succeed(cluster, "top", "--once", "--interval", "0.2").decode()
