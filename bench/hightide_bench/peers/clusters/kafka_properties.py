"""The property files of Apache Kafka: KRaft, one controller and three brokers, all on the loopback."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hightide_local.processes.ports import HOST

CONTROLLER_ID: Final = 100
#: The settings of every process: replication as in Hightide's topics, and groups whose dead members are
#: noticed after 10 s, as Hightide's are. Retention is checked often, so that the disk does not fill.
COMMON: Final[Mapping[str, str]] = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.max.size": "2000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "10000",
    "group.consumer.heartbeat.interval.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "3000",
    "log.retention.check.interval.ms": "3000",
    "log.segment.delete.delay.ms": "1000",
}


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """What differs between two Kafka clusters. None: Kafka's default."""

    session_timeout_ms: int | None = None
    """How long a broker may be silent before the controller takes its leadership (9 s by default)."""

    @property
    def properties(self) -> dict[str, str]:
        """The settings as properties. A broker sends a heartbeat five times in a session."""
        if self.session_timeout_ms is None:
            return {}
        return {
            "broker.session.timeout.ms": str(self.session_timeout_ms),
            "broker.heartbeat.interval.ms": str(self.session_timeout_ms // 5),
        }


def controller_properties(port: int, data: Path, settings: KafkaSettings) -> str:
    """The property file of the controller."""
    return _text(
        {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "listeners": f"CONTROLLER://{HOST}:{port}",
            **_everywhere(port, data, settings),
        }
    )


def broker_properties(
    broker_id: int, port: int, controller_port: int, data: Path, settings: KafkaSettings
) -> str:
    """The property file of a broker."""
    return _text(
        {
            "process.roles": "broker",
            "node.id": str(broker_id),
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            **_everywhere(controller_port, data, settings),
        }
    )


def _everywhere(controller_port: int, data: Path, settings: KafkaSettings) -> dict[str, str]:
    return {
        "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{controller_port}",
        "log.dirs": str(data),
        **COMMON,
        **settings.properties,
    }


def _text(properties: Mapping[str, str]) -> str:
    """The properties as java.util.Properties reads them."""
    lines = []
    for name, value in properties.items():
        assert value.isprintable(), (name, value)
        escaped = value.replace("\\", "\\\\")
        lines.append(f"{name}={escaped}\n")
    return "".join(lines)
