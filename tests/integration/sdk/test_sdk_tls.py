"""Every kind of client reaches a cluster with TLS by its arguments alone, and outlives the renewal of its own
certificate."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hightide.aio
import pytest
from hightide import Admin, Consumer, Producer, RangeReader
from hightide_cli.main import main
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster

PATIENCE_S = 120.0
RECORDS = 100


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("tls"), coordinators=1, tls=True) as started:
        yield started


@pytest.fixture
def files(cluster: LocalCluster) -> dict[str, Any]:
    """The arguments for clients; the environment says nothing."""
    assert cluster.certificates is not None
    client = cluster.certificates.client
    return {"tls_ca": client.ca, "tls_certificate": client.certificate, "tls_key": client.key}


def values(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def create(cluster: LocalCluster, files: dict[str, Any], topic: str) -> bytes:
    with Admin(cluster.bootstrap, **files) as admin:
        return admin.create_topic(topic, 1, 3, configs={"min.insync.replicas": "2"}).topic_id


def send(producer: Producer, topic: str, sent: list[bytes]) -> None:
    deliveries = [producer.send(topic, value) for value in sent]
    for delivery in deliveries:
        delivery.result(PATIENCE_S)


def test_blocking_clients_write_and_read(cluster: LocalCluster, files: dict[str, Any]) -> None:
    topic_id = create(cluster, files, "blocking")
    with Producer(cluster.bootstrap, **files) as producer:
        send(producer, "blocking", values(0, RECORDS))
    with Consumer(cluster.bootstrap, topics="blocking", **files) as consumer:
        assert [record.value for record in consumer.read_to_end()] == values(0, RECORDS)
    with RangeReader(cluster.bootstrap, **files) as reader:
        batches = list(reader.read("blocking", topic_id, 0, 10, 20))
    assert [row for batch in batches for row in batch.rows["value"].to_pylist()] == values(10, 10)


def test_asyncio_clients_and_a_group_write_and_read(cluster: LocalCluster, files: dict[str, Any]) -> None:
    async def act() -> list[bytes | None]:
        async with hightide.aio.Producer(cluster.bootstrap, **files) as producer:
            for value in values(0, RECORDS):
                await producer.send("looped", value)
        read: list[bytes | None] = []
        async with hightide.aio.Consumer(
            cluster.bootstrap, group="looped", topics=["looped"], **files
        ) as member:
            while len(read) < RECORDS:
                read.extend(record.value for record in await member.poll(1.0))
        async with hightide.aio.Admin(cluster.bootstrap, **files) as admin:
            assert (await admin.describe_group("looped")).group == "looped"
        return read

    create(cluster, files, "looped")
    assert asyncio.run(act()) == values(0, RECORDS)


def test_running_clients_take_the_renewed_certificate_with_them_to_the_next_leader(
    cluster: LocalCluster, files: dict[str, Any]
) -> None:
    assert cluster.certificates is not None
    create(cluster, files, "renewed")
    with (
        Producer(cluster.bootstrap, **files) as producer,
        Consumer(cluster.bootstrap, group="renewed", topics=["renewed"], **files) as member,
    ):
        send(producer, "renewed", values(0, RECORDS))
        read = [record.value for record in member.poll(PATIENCE_S)]
        cluster.certificates.issue("client/local")
        leader = cluster.leader_of("renewed")
        cluster.kill(leader)
        send(producer, "renewed", values(RECORDS, RECORDS))
        while len(read) < 2 * RECORDS:
            read.extend(record.value for record in member.poll(1.0))
    cluster.restart(leader)
    cluster.wait_isr("renewed")
    assert read == values(0, 2 * RECORDS)


def test_commands_use_the_files_of_a_context(
    cluster: LocalCluster,
    files: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    given = [f"--{name.replace('_', '-')}={path}" for name, path in files.items()]
    assert main(["context", "add", "secret", f"--bootstrap={cluster.bootstrap}", "--select", *given]) == 0
    for command in (
        "topic create copied -p 1 -r 3",
        f"topic produce copied {lines}",
        "topic copy copied copied-again --create --to-context secret",
        "cluster health",
        "cluster info",
        "group ls",
        "rpc call BrokerService/GetMetadata",
        "rpc ls ControllerService",
    ):
        assert main(command.split()) == 0, (command, capsys.readouterr().err)
    capsys.readouterr()
    assert main(["topic", "ls", "-o", "json"]) == 0
    assert "copied-again" in capsys.readouterr().out
