"""docker/compose.yaml for real: one cluster, to which these tests do one thing after the other, in order.

Skipped where there is no Docker engine. `pytest -s` shows every command with what it prints.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
import yaml
from docs.markdown import fences_of
from e2e.compose_cluster import HOST, PROFILES, ROOT, ComposeCluster, why_not
from hightide import Admin, Consumer, Producer, TopicPartition
from hightide.records import BrokerDescription
from hightide_local.histories.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

PAGE = ROOT / "docs" / "compose.md"
KINDS = ("broker", "controller", "coordinator")
TOPIC, PARTITIONS, RECORDS = "flights", 6, 3_000
SPARK_TIMEOUT_S = 240
BUILD_TIMEOUT_S = 540
LIST_PACKAGES = "import pkgutil; print(*(module.name for module in pkgutil.iter_modules()))"


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeCluster]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    cluster = ComposeCluster(tmp_path_factory.mktemp("compose"))
    cluster.remove(volumes=True)
    try:
        yield cluster
    finally:
        cluster.remove(volumes=True)


def live_brokers(bootstrap: str) -> list[BrokerDescription]:
    with Admin(bootstrap) as admin:
        return [each for each in admin.describe_cluster().brokers if each.alive]


def in_sync(bootstrap: str) -> set[int]:
    """The sizes of the ISRs of the topic."""
    with Admin(bootstrap) as admin:
        (topic,) = admin.describe_topics([TOPIC])
        return {len(each.isr) for each in topic.partitions}


def told_by(compose: ComposeCluster, service: str) -> list[str]:
    """The lines that a service has written."""
    return compose.logs(service).splitlines()


def produce(bootstrap: str, numbers: range) -> None:
    """Write records with acks=all; raises where one of them was not acknowledged."""
    with Producer(bootstrap) as producer:
        for number in numbers:
            producer.send(TOPIC, str(number).encode())
        producer.flush()


def read_all(bootstrap: str) -> list[int]:
    """Every record of the topic, once, in the order of their numbers."""
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    with Admin(bootstrap) as admin:
        expected = sum(end or 0 for end in admin.list_offsets(places).values())
    found: list[int] = []
    with Consumer(bootstrap) as consumer:
        consumer.assign(places)
        while len(found) < expected:
            found += [int(record.value or b"") for record in consumer.poll(timeout_s=10)]
    return sorted(found)


def test_every_image_is_built(compose: ComposeCluster) -> None:
    compose.run("build", timeout_s=BUILD_TIMEOUT_S)
    compose.docker("image", "ls", "--filter", "reference=hightide-*")


@pytest.mark.parametrize(("kind", "port"), [("controller", 9090), ("coordinator", 9292)])
def test_up_of_a_kind_brings_all_processes_of_it(compose: ComposeCluster, kind: str, port: int) -> None:
    compose.run("up", "-d", kind, timeout_s=180)
    for number in (1, 2):
        assert compose.inspect(f"{kind}-{number}", "{{.State.Health.Status}}") == "healthy"
    expected = [f"{kind}-{number}:{port} serves" for number in (1, 2)]
    wait_until(f"the watcher has told of each {kind}", lambda: told_by(compose, kind)[:2] == expected, 30)


def test_up_broker_brings_all_that_a_broker_needs(compose: ComposeCluster) -> None:
    compose.run("up", "-d", "broker", timeout_s=180)
    compose.run("ps")
    compose.run("logs", "broker")
    assert {each.broker_id for each in live_brokers(compose.bootstrap)} == {1, 2, 3}
    for service in (
        "zookeeper",
        "controller-1",
        "controller-2",
        "coordinator-1",
        "coordinator-2",
        "broker-1",
    ):
        assert compose.inspect(service, "{{.State.Health.Status}}") == "healthy"
    assert compose.logs("broker").splitlines()[:3] == [f"broker-{number}:9092 serves" for number in (1, 2, 3)]


def test_a_client_on_the_host_is_told_addresses_that_it_can_reach(compose: ComposeCluster) -> None:
    with Admin(compose.bootstrap) as admin:
        addresses = [each.address for each in admin.describe_cluster().brokers]
        assert addresses == [f"{HOST}:{port}" for port in (19092, 19093, 19094)]
        admin.create_topic(
            TOPIC, partitions=PARTITIONS, replication_factor=3, configs={"min.insync.replicas": "2"}
        )
        produce(compose.bootstrap, range(1_000))
        read: list[int] = []
        with Consumer(compose.bootstrap, topics=[TOPIC], group="travellers") as consumer:
            while len(read) < 1_000:
                read += [int(record.value or b"") for record in consumer.poll(timeout_s=10)]
        assert sorted(read) == list(range(1_000))
        assert admin.describe_group("travellers").coordinator_address in {f"{HOST}:19291", f"{HOST}:19292"}


def test_containers_run_as_nobody_in_particular_with_their_own_code_only(compose: ComposeCluster) -> None:
    for kind in KINDS:
        assert compose.inspect(f"{kind}-1", "{{.Config.User}}") == "10001"
        labels = json.loads(compose.inspect(f"{kind}-1", "{{json .Config.Labels}}"))
        assert labels["org.opencontainers.image.title"] == f"Hightide {kind}"
        found = compose.docker("exec", compose.container(f"{kind}-1"), "python", "-c", LIST_PACKAGES).split()
        ours = {name for name in found if name.startswith("hightide")}
        assert ours == {"hightide", "hightide_runtime", f"hightide_{kind}"}


def test_a_killed_broker_costs_no_record_and_comes_back(compose: ComposeCluster) -> None:
    with Producer(compose.bootstrap) as producer:
        for number in range(1_000, 1_500):
            producer.send(TOPIC, str(number).encode())
        compose.run("kill", "broker-1")
        for number in range(1_500, 2_000):
            producer.send(TOPIC, str(number).encode())
        producer.flush()
    assert {each.broker_id for each in live_brokers(compose.bootstrap)} == {2, 3}
    compose.run("start", "broker-1")
    wait_until("all replicas are in sync", lambda: in_sync(compose.bootstrap) == {3}, 60)
    assert read_all(compose.bootstrap) == list(range(2_000))


def test_a_broker_that_is_stopped_hands_over_and_ends_by_itself(compose: ComposeCluster) -> None:
    compose.run("stop", "broker-2")
    assert compose.inspect("broker-2", "{{.State.ExitCode}}") == "0"
    assert "leadership handed over" in compose.logs("broker-2")
    produce(compose.bootstrap, range(2_000, 2_500))
    compose.run("start", "broker-2")
    wait_until("all replicas are in sync", lambda: in_sync(compose.bootstrap) == {3}, 60)


def test_a_fourth_broker_joins_and_takes_partitions(compose: ComposeCluster) -> None:
    compose.run("up", "-d", "broker-4")
    wait_until("broker 4 lives", lambda: len(live_brokers(compose.bootstrap)) == 4, 60)
    moved = TopicPartition(TOPIC, 0)
    with Admin(compose.bootstrap) as admin:
        admin.reassign_partitions({moved: (4, 2, 3)})
        wait_until("the move is over", lambda: not admin.list_reassignments().reassignments, 60)
        admin.elect_leaders("preferred", [moved])
        (topic,) = admin.describe_topics([TOPIC])
        assert topic.partitions[0].replicas == (4, 2, 3)
        fourth = next(each for each in admin.describe_cluster().brokers if each.broker_id == 4)
        assert fourth.address == f"{HOST}:19095"
    produce(compose.bootstrap, range(2_500, RECORDS))
    assert read_all(compose.bootstrap) == list(range(RECORDS))


def test_down_and_up_again_finds_every_record(compose: ComposeCluster) -> None:
    compose.run("down", profiles=PROFILES)
    compose.run("up", "-d", "broker", "broker-4", timeout_s=180)
    wait_until("all replicas are in sync", lambda: in_sync(compose.bootstrap) == {3}, 60)
    assert read_all(compose.bootstrap) == list(range(RECORDS))
    with Admin(compose.bootstrap) as admin:
        assert sum(each.offset for each in admin.group_offsets("travellers").values()) == 1_000


def test_a_container_that_is_replaced_takes_the_place_of_the_old_one(compose: ComposeCluster) -> None:
    """As in an upgrade: another container, the same log."""
    before = compose.container("broker-1")
    compose.run("up", "-d", "--no-deps", "--force-recreate", "broker-1")
    assert compose.container("broker-1") != before
    wait_until("all replicas are in sync", lambda: in_sync(compose.bootstrap) == {3}, 60)
    assert read_all(compose.bootstrap) == list(range(RECORDS))


def test_the_profile_spark_archives_every_topic(compose: ComposeCluster) -> None:
    compose.run("build", "spark", profiles=["spark"], timeout_s=BUILD_TIMEOUT_S)
    told = compose.run("run", "--rm", "spark", profiles=["spark"], timeout_s=SPARK_TIMEOUT_S)
    assert re.search(rf"\b{RECORDS:,}\b|\b{RECORDS}\b", told)


def test_the_profile_obs_is_complete(compose: ComposeCluster) -> None:
    """Its images are those of others, and are not pulled for this."""
    configured = yaml.safe_load(compose.run("config", profiles=["obs"]))
    assert configured["services"]["otel-collector"]["volumes"]
    assert configured["services"]["jaeger"]["ports"]


def test_the_page_about_it_names_commands_that_were_carried_out_here(compose: ComposeCluster) -> None:
    """Those of compose by the tests above, in the same words; those of `hightide` now."""
    commands = [
        line for fence in fences_of(PAGE) if fence.info == "console" for line in fence.text.splitlines()
    ]
    assert commands
    environment = {**os.environ, "HIGHTIDE_BOOTSTRAP": f"{HOST}:19092"}
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "hightide":
            run = [sys.executable, "-m", "hightide_cli.main", *arguments]
            done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=60)
            print(f"\n$ {command}\n{done.stdout}{done.stderr}")
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        elif program == "docker":
            assert arguments[0] == "compose"
            assert in_words(arguments[1:]) in {in_words(each) for each in compose.carried_out}, command
        else:
            assert program in {"cd", "export"}, command


def in_words(arguments: Sequence[str]) -> str:
    """Without what only a test says: which profiles, and that a container be replaced that need not be."""
    words = [each for each in arguments if each != "--force-recreate"]
    while words[:1] == ["--profile"]:
        words = words[2:]
    return " ".join(words)
