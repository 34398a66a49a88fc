"""The property files of Kafka: loopback only, and what both systems are to have in common."""

from pathlib import Path

from hightide_bench.peers.clusters.kafka_properties import (
    KafkaSettings,
    broker_properties,
    controller_properties,
)


def read(text: str) -> dict[str, str]:
    pairs = [line.partition("=") for line in text.splitlines()]
    assert len({name for name, _, _ in pairs}) == len(pairs), "a property is said twice"
    return {name: value for name, _, value in pairs}


BROKER = read(broker_properties(2, 15002, 15100, Path("/data/2"), KafkaSettings()))
CONTROLLER = read(controller_properties(15100, Path("/data/c"), KafkaSettings()))


def test_every_listener_is_on_the_loopback() -> None:
    listeners = [BROKER["listeners"], BROKER["advertised.listeners"], CONTROLLER["listeners"]]
    assert listeners == [
        "PLAINTEXT://127.0.0.1:15002",
        "PLAINTEXT://127.0.0.1:15002",
        "CONTROLLER://127.0.0.1:15100",
    ]


def test_a_broker_knows_the_controller() -> None:
    assert (
        BROKER["controller.quorum.voters"] == CONTROLLER["controller.quorum.voters"] == "100@127.0.0.1:15100"
    )
    assert CONTROLLER["node.id"] == "100"
    assert (BROKER["process.roles"], CONTROLLER["process.roles"]) == ("broker", "controller")


def test_kafka_keeps_as_many_copies_as_hightide() -> None:
    assert (BROKER["default.replication.factor"], BROKER["min.insync.replicas"]) == ("3", "2")
    assert BROKER["offsets.topic.replication.factor"] == "3"


def test_nothing_moves_leaders_while_a_failover_is_measured() -> None:
    assert BROKER["auto.leader.rebalance.enable"] == "false"


def test_a_session_is_kafka_s_default_unless_it_is_said() -> None:
    assert "broker.session.timeout.ms" not in BROKER
    short = read(broker_properties(1, 15001, 15100, Path("/data/1"), KafkaSettings(session_timeout_ms=500)))
    assert (short["broker.session.timeout.ms"], short["broker.heartbeat.interval.ms"]) == ("500", "100")


def test_a_backslash_in_a_path_is_one_for_java_too() -> None:
    odd = read(controller_properties(15100, Path("/data/a\\b"), KafkaSettings()))
    assert odd["log.dirs"] == "/data/a\\\\b"
