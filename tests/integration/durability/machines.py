"""What becomes of the machines under the brokers of a local cluster: they lose their power, or all processes
at once, or somebody restores a disk."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from hightide import Consumer, Producer
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S
from hightide_local.histories.waiting import wait_until
from integration.controller.zookeeper_operator import ZooKeeperOperator

_ANOTHER_BOOT = b"an-earlier-boot-of-this-machine"


def stop_all(cluster: LocalCluster, how: signal.Signals) -> None:
    """All brokers at once, and the controllers first, so that nobody leaves an ISR on the way."""
    for number in cluster.controllers:
        cluster.kill(f"controller-{number}")
    brokers = {name: pid for name, pid in cluster.running().items() if name.startswith("broker-")}
    for pid in brokers.values():
        os.kill(pid, how)
    wait_until("all brokers are gone", lambda: not brokers.keys() & cluster.running().keys(), HEALED_S)


def lose_power(cluster: LocalCluster, broker_id: int) -> None:
    """The machine of a broker that was killed has booted anew: what the process had told the kernel of its
    logs is gone. What of the logs themselves had not reached the disk is for the test to take away."""
    for path in cluster.data_directories(broker_id):
        (path / "machine_boot_id").write_bytes(_ANOTHER_BOOT)
        (path / "marks").unlink()


def start_in_turn(operator: ZooKeeperOperator, *broker_ids: int) -> None:
    """Start brokers that were killed; each registers before the next one starts."""
    for broker_id in broker_ids:
        path = f"/brokers/ids/{broker_id}"
        before = operator.zookeeper.exists(path)
        operator.cluster.restart(f"broker-{broker_id}", wait=False)

        def is_registered(path: str = path, before: object = before) -> bool:
            found = operator.zookeeper.exists(path)
            return found is not None and found != before

        wait_until(f"broker {broker_id} has registered", is_registered, HEALED_S)


def copy_of_disks(cluster: LocalCluster, broker_id: int, to: Path) -> None:
    """Of a broker that is stopped."""
    for number, path in enumerate(cluster.data_directories(broker_id)):
        shutil.copytree(path, to / str(number))


def restore_disks(cluster: LocalCluster, broker_id: int, copy: Path) -> None:
    """An operator puts the copy in place of what is there, of a broker that is stopped."""
    for number, path in enumerate(cluster.data_directories(broker_id)):
        shutil.rmtree(path)
        shutil.copytree(copy / str(number), path)


def produce(cluster: LocalCluster, topic: str, first: int, count: int) -> None:
    """Numbered records, all acknowledged."""
    with Producer(cluster.bootstrap) as producer:
        for number in range(first, first + count):
            producer.send(topic, b"%d" % number, partition=0)


def numbers_read(cluster: LocalCluster, topic: str, count: int) -> list[int]:
    """So many records from the beginning on."""
    found: list[int] = []
    with Consumer(cluster.bootstrap, topics=topic, offset_reset="earliest") as consumer:

        def is_read() -> bool:
            found.extend(int(each.value or b"") for each in consumer.poll(1.0))
            return len(found) >= count

        wait_until(f"{count} records of {topic} are read", is_read, HEALED_S)
    return found
