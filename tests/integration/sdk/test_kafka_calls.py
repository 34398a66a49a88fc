"""The tables "Call by call" of docs/coming-from-kafka.md: each row is carried out, and Kafka's clients have
the calls on the left."""

import ast
import asyncio
import importlib.util
import inspect
import operator
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
from hightide import Admin, Consumer, Producer, TopicPartition, aio
from hightide_local.cluster import LocalCluster

PAGE = Path(__file__).resolve().parents[3] / "docs" / "coming-from-kafka.md"
PLACE = TopicPartition("calls", 0)
Row = tuple[str, str]


def rows_below(heading: str) -> list[Row]:
    """The rows of the table with this first column: the calls of Kafka's client, and the code here."""
    lines = iter(PAGE.read_text().splitlines())
    assert any(line.startswith(f"| {heading} |") for line in lines), heading
    assert set(next(lines)) <= set("|- "), "what divides the head from the rows"
    found: list[Row] = []
    for line in lines:
        if not line.startswith("|"):
            break
        theirs, ours = line.strip("| ").split(" | ")
        code = re.match(r"`([^`]+)`", ours)
        assert code is not None, line
        found.append((theirs, code[1]))
    return found


CONFLUENT, AIOKAFKA = rows_below("confluent-kafka"), rows_below("aiokafka")


def called(rows: list[Row]) -> list[str]:
    """The names of the calls in the left column."""
    return [name for theirs, _ in rows for name in re.findall(r"`([\w.]+)\(", theirs)]


@pytest.mark.parametrize("name", called(CONFLUENT))
def test_confluent_kafka_has_the_call(name: str) -> None:
    assert callable(operator.attrgetter(name)(confluent_kafka))


@pytest.mark.skipif(importlib.util.find_spec("aiokafka") is None, reason="aiokafka is not installed")
@pytest.mark.parametrize("name", called(AIOKAFKA))
def test_aiokafka_has_the_call(name: str) -> None:
    assert callable(operator.attrgetter(name)(importlib.import_module("aiokafka")))


def test_the_tables_are_read_whole() -> None:
    assert len(CONFLUENT) > 40
    assert len(AIOKAFKA) > 25


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with LocalCluster(tmp_path_factory.mktemp("calls"), brokers=1, controllers=1, coordinators=1) as cluster:
        cluster.active_coordinator()
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("calls", partitions=1, replication_factor=1)
        yield cluster.bootstrap


def sent_first(bootstrap: str) -> None:
    with Producer(bootstrap) as producer:
        for number in range(5):
            producer.send("calls", b"%d" % number)


def told(*_: object) -> None:
    """A callback that a row names."""


@pytest.mark.cluster
def test_each_row_for_confluent_kafka_does_its_work(bootstrap: str) -> None:
    sent_first(bootstrap)
    with (
        Producer(bootstrap) as producer,
        Consumer(bootstrap, group="callers", topics="calls", auto_commit=False) as consumer,
        Consumer(bootstrap) as reader,
        Admin(bootstrap) as admin,
    ):
        names = {
            "producer": producer,
            "consumer": consumer,
            "reader": reader,
            "admin": admin,
            "record": consumer.getone(),
            "place": PLACE,
            "told": told,
            "datetime": datetime,
            "UTC": UTC,
        }
        for theirs, ours in CONFLUENT:
            try:
                exec(compile(ours, theirs, "exec"), names)
            except Exception as error:
                error.add_note(f"in the row {theirs} | {ours}")
                raise


@pytest.mark.cluster
def test_each_row_for_aiokafka_does_its_work(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent_first(bootstrap)
    monkeypatch.setenv("HIGHTIDE_BOOTSTRAP", bootstrap)

    async def carry_out(theirs: str, ours: str, names: dict[str, Any]) -> None:
        code = compile(ours, theirs, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        try:
            outcome = eval(code, names)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception as error:
            error.add_note(f"in the row {theirs} | {ours}")
            raise

    async def scenario() -> None:
        async with (
            aio.Producer() as producer,
            aio.Consumer(group="awaiting", topics="calls", auto_commit=False) as consumer,
            aio.Consumer() as reader,
        ):
            names = {
                "producer": producer,
                "consumer": consumer,
                "reader": reader,
                "aio": aio,
                "place": PLACE,
                "record": await consumer.getone(),
                "datetime": datetime,
                "UTC": UTC,
            }
            for theirs, ours in AIOKAFKA:
                await carry_out(theirs, ours, names)

    asyncio.run(scenario())
