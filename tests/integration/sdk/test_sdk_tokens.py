"""Clients with tokens on a real cluster: its processes have certificates, and its external listeners ask for
tokens. They produce, read in a group, and go on while tokens and keys are replaced."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hightide import Admin, Consumer, Producer, RangeReader
from hightide.aio import Admin as AioAdmin
from hightide.aio import Consumer as AioConsumer
from hightide.aio import Producer as AioProducer
from hightide.errors import NotAuthenticatedError, TokenNotSentError
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_runtime.access.tokens import LEEWAY_S
from integration.sdk import outside_token_listener
from token_issuer import AUDIENCE, ISSUER, TokenIssuer, write_key_set

pytestmark = pytest.mark.cluster

FIRST = TokenIssuer("first")
RECORDS = 50
PATIENCE_S = 60.0


class Outside:
    """A cluster as clients from outside see it."""

    def __init__(self, cluster: LocalCluster, keys: Path) -> None:
        self.cluster = cluster
        self.keys = keys
        assert cluster.certificates is not None
        self.ca = str(cluster.certificates.client.ca)
        ports = (address.rpartition(":")[2] for address in cluster.brokers.values())
        self.bootstrap = ",".join(f"{outside_token_listener.OUTSIDE}:{port}" for port in ports)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    directory = tmp_path_factory.mktemp("tokens")
    keys = write_key_set(directory / "keys.json", FIRST)
    asking = ("--token-keys", str(keys), "--token-issuer", ISSUER, "--token-audience", AUDIENCE)

    def program(module: str) -> tuple[str, ...]:
        return sys.executable, outside_token_listener.__file__, module

    with LocalCluster(
        directory / "cluster",
        brokers=2,
        controllers=1,
        coordinators=1,
        tls=True,
        broker_program=program("hightide_broker.main"),
        controller_program=program("hightide_controller.main"),
        coordinator_program=program("hightide_coordinator.main"),
        broker_arguments=asking,
        controller_arguments=asking,
        coordinator_arguments=asking,
    ) as running:
        running.active_coordinator()
        yield Outside(running, keys)


def test_a_client_with_a_token_does_all_that_a_client_does(outside: Outside, tmp_path: Path) -> None:
    token_file = tmp_path / "alice.jwt"
    token_file.write_text(FIRST.token())
    sent = [b"%d" % number for number in range(RECORDS)]
    with Admin(outside.bootstrap, tls_ca=outside.ca, token_file=token_file) as admin:
        topic = admin.create_topic("rows", 1, 2)
    with Producer(outside.bootstrap, tls_ca=outside.ca, token_file=token_file) as producer:
        for value in sent:
            producer.send("rows", value)
    read: list[bytes] = []
    with Consumer(
        outside.bootstrap, group="readers", topics=["rows"], tls_ca=outside.ca, token=FIRST.token
    ) as consumer:
        while len(read) < RECORDS:
            read.extend(record.value or b"" for record in consumer.poll(1.0))
    assert read == sent
    with RangeReader(outside.bootstrap, tls_ca=outside.ca, token=FIRST.token()) as reader:
        batches = reader.read("rows", topic.topic_id, 0, 0, RECORDS)
        assert sum(batch.rows.num_rows for batch in batches) == RECORDS


def test_asyncio_does_so_too(outside: Outside) -> None:
    async def scenario() -> None:
        async with AioAdmin(outside.bootstrap, tls_ca=outside.ca, token=FIRST.token) as admin:
            await admin.create_topic("aio", 1, 2)
        async with AioProducer(outside.bootstrap, tls_ca=outside.ca, token=FIRST.token) as producer:
            await producer.send_and_wait("aio", b"value")
        async with AioConsumer(
            outside.bootstrap, group="aio-readers", topics=["aio"], tls_ca=outside.ca, token=FIRST.token
        ) as consumer:
            async with asyncio.timeout(PATIENCE_S):
                while not (records := await consumer.poll(1.0)):
                    pass
        assert [record.value for record in records] == [b"value"]

    asyncio.run(scenario())


def poll_for_ever(consumer: Consumer) -> None:
    while True:
        consumer.poll(1.0)


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (FIRST.token(lasts_s=-LEEWAY_S - 1), "it expired at "),
        (TokenIssuer("first").token(), "its signature is not of a key of --token-keys"),
        (FIRST.token(aud="other"), "it is not for the audience 'hightide'"),
    ],
)
def test_every_client_with_a_token_that_is_refused_says_why_at_once(
    outside: Outside, token: str, why: str
) -> None:
    """And long before it would give up an address that does not answer."""
    given: dict[str, Any] = {"tls_ca": outside.ca, "token": token}
    with pytest.raises(NotAuthenticatedError, match=why) as refused:
        Admin(outside.bootstrap, timeout_ms=600_000, **given).list_topics()
    assert token not in str(refused.value)
    with (
        Producer(outside.bootstrap, max_block_ms=600_000, **given) as producer,
        pytest.raises(NotAuthenticatedError, match=why),
    ):
        producer.send("rows", b"")
    for group in ("refused", None):
        with (
            Consumer(
                outside.bootstrap, topics=["rows"], group=group, unavailable_timeout_ms=600_000, **given
            ) as consumer,
            pytest.raises(NotAuthenticatedError, match=why),
        ):
            poll_for_ever(consumer)


def test_a_client_without_a_token_is_told_what_to_give(outside: Outside) -> None:
    with (
        pytest.raises(NotAuthenticatedError) as refused,
        Admin(outside.bootstrap, tls_ca=outside.ca) as admin,
    ):
        admin.list_topics()
    assert "asks for a bearer token, and the call has none" in str(refused.value)
    assert "--token-file" in str(refused.value)


def test_a_token_that_its_function_cannot_get_fails_the_call(outside: Outside) -> None:
    def source() -> str:
        raise OSError("the issuer is away")

    with (
        Admin(outside.bootstrap, tls_ca=outside.ca, token=source, timeout_ms=600_000) as admin,
        pytest.raises(TokenNotSentError, match="the issuer is away"),
    ):
        admin.list_topics()


def test_a_consumer_of_a_group_outlives_its_tokens_and_keeps_its_partitions(
    outside: Outside, tmp_path: Path
) -> None:
    """Its stream ends when the token expires; by then the file has another one."""
    token_file = tmp_path / "alice.jwt"
    token_file.write_text(FIRST.token(lasts_s=3 - LEEWAY_S))
    given: dict[str, Any] = {"tls_ca": outside.ca, "token_file": token_file}
    lost: list[object] = []
    with Admin(outside.bootstrap, tls_ca=outside.ca, token=FIRST.token) as admin:
        admin.create_topic("lasting", 1, 2)
        with Consumer(
            outside.bootstrap, group="lasting", topics=["lasting"], on_lost=lost.append, **given
        ) as consumer:
            while not consumer.assignment:
                consumer.poll(0.1)
            token_file.write_text(FIRST.token())
            log = outside.cluster.log_directory / "coordinator-1.log"

            def has_expired() -> bool:
                consumer.poll(0.1)
                return "RegisterConsumer has expired meanwhile" in log.read_text()

            wait_until("the token has expired", has_expired, PATIENCE_S)
            with Producer(outside.bootstrap, tls_ca=outside.ca, token=FIRST.token) as producer:
                producer.send_and_wait("lasting", b"after")
            read: list[bytes | None] = []
            while not read:
                read.extend(record.value for record in consumer.poll(1.0))
            consumer.commit()
            assert read == [b"after"]
            assert len(admin.describe_group("lasting").members) == 1
    assert lost == []


def test_a_key_is_revoked_while_clients_run(outside: Outside) -> None:
    second = TokenIssuer("second")
    write_key_set(outside.keys, FIRST, second)
    with (
        Admin(outside.bootstrap, tls_ca=outside.ca, token=second.token("bob")) as bob,
        Admin(outside.bootstrap, tls_ca=outside.ca, token=FIRST.token()) as alice,
    ):

        def is_let_in() -> bool:
            try:
                bob.list_topics()
            except NotAuthenticatedError:
                return False
            return True

        wait_until("the new key is read", is_let_in, PATIENCE_S)
        write_key_set(outside.keys, FIRST)
        wait_until("the key is gone", lambda: not is_let_in(), PATIENCE_S)
        with pytest.raises(NotAuthenticatedError, match="'second' is unknown"):
            bob.list_topics()
        alice.list_topics()


def test_commands_use_a_token(outside: Outside, tmp_path: Path) -> None:
    token_file = tmp_path / "alice.jwt"
    token_file.write_text(FIRST.token())

    def hightide(*arguments: str, token: Path = token_file) -> "subprocess.CompletedProcess[str]":
        given = ["--bootstrap", outside.bootstrap, "--tls-ca", outside.ca, "--token-file", str(token)]
        command = [sys.executable, "-m", "hightide_cli", *arguments, *given]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert hightide("topic", "create", "commanded").returncode == 0
    listed = hightide("topic", "ls", "-o", "json")
    assert "commanded" in [each["topic"] for each in json.loads(listed.stdout)["topics"]]
    described = hightide("rpc", "call", "BrokerService/GetMetadata")
    assert described.returncode == 0, described.stderr
    expired = tmp_path / "expired.jwt"
    expired.write_text(FIRST.token(lasts_s=-LEEWAY_S - 1))
    refused = hightide("topic", "ls", token=expired)
    assert refused.returncode == 1
    assert "the token of the call is refused: it expired at" in refused.stderr
    assert "Traceback" not in refused.stderr
