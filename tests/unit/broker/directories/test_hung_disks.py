"""Replicas that wait for a disk which does not answer are told to the controller, and fetch nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from hightide.v1.controller_service_pb2 import REPLICA_CONDITION_HANGS, REPLICA_CONDITION_WHOLE
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.directories.hung_disks import HungDisks
from hightide_broker.directories.log_directories import LogDirectories, LogDirectory
from hightide_broker.hosting.failed_replicas import FailedReplicas
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.storage import LogSettings
from hightide_runtime.serving.channels import open_channel
from stored_batches import TOPIC_ID

SYNC, READ = frozenset(("sync",)), frozenset(("sync", "read_at"))


class Journal:
    """Who tells the controller, and who fetches: notes what each hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def report_hang(self, key: PartitionKey) -> None:
        self.heard.append(f"{key[1]} hangs")

    def hangs_no_more(self, key: PartitionKey) -> None:
        self.heard.append(f"{key[1]} is well")

    async def told(self, patience_s: float) -> None:
        self.heard.append("told")

    def hold(self, replica: HostedReplica) -> None:
        assert replica.is_held
        self.heard.append(f"{replica.key[1]} is held")

    def resume(self, replica: HostedReplica) -> None:
        assert not replica.is_held
        self.heard.append(f"{replica.key[1]} fetches")

    def take(self) -> list[str]:
        heard, self.heard = self.heard, []
        return heard


class Broker:
    """Two disks. On the first, partition 0 with flush=fsync and 1 without; on the second 2, with it."""

    def __init__(self, directories: LogDirectories, disks: tuple[LogDirectory, LogDirectory]) -> None:
        self.disks = disks
        self.journal = Journal()
        self.replicas = HostedReplicas()
        self.hung = HungDisks(self.replicas, self.journal, self.journal)
        for number, disk, is_synced in ((0, 0, True), (1, 0, False), (2, 1, True)):
            key = TOPIC_ID, number
            log = disks[disk].data.log(*key, True, "flights", LogSettings())
            state = Replica.opened(ReplicaSettings(1, flush_on_disk=is_synced))
            self.replicas.add(HostedReplica(key, "flights", TopicSettings(), state, log))

    def replica(self, number: int) -> HostedReplica:
        found = self.replicas.get((TOPIC_ID, number))
        assert found is not None
        return found


def run(path: Path, scenario: Callable[[Broker], object]) -> None:
    async def main() -> None:
        directories = await LogDirectories.open([path / "a", path / "b"], "cluster", 1)
        one, other = directories.all
        broker = Broker(directories, (one, other))
        result = scenario(broker)
        assert asyncio.iscoroutine(result)
        await result
        await broker.hung.close()
        await directories.close(clean=True)

    asyncio.run(main())


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_for_a_sync_only_those_wait_that_acknowledge_what_is_on_disk(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        broker.hung.does_not_answer(broker.disks[0], SYNC)
        assert broker.journal.take() == ["0 is held", "0 hangs"]
        broker.hung.does_not_answer(broker.disks[0], SYNC)
        assert broker.journal.take() == [], "it is told once"
        assert broker.hung.waiting_count == 1

    run(tmp_path, scenario)


def test_for_any_other_call_all_wait_that_live_there(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        broker.hung.does_not_answer(broker.disks[0], SYNC)
        broker.hung.does_not_answer(broker.disks[0], READ)
        assert broker.journal.take() == ["0 is held", "0 hangs", "1 is held", "1 hangs"]
        assert not broker.replica(2).is_held

    run(tmp_path, scenario)


def test_a_replica_that_was_begun_again_waits_as_the_one_before_did(tmp_path: Path) -> None:
    """It was stopped and assigned again while a read hung. It fetched, and no new report named it."""

    async def scenario(broker: Broker) -> None:
        broker.hung.does_not_answer(broker.disks[0], READ)
        broker.journal.take()
        first = broker.replica(1)
        broker.replicas.remove(first)
        broker.replicas.add(HostedReplica(first.key, first.topic, first.settings, first.state, first.log))
        broker.hung.does_not_answer(broker.disks[0], READ)
        assert broker.journal.take() == ["1 is held", "1 hangs"]
        assert broker.replica(1).is_held
        broker.hung.answers(broker.disks[0])
        await settled()
        assert not broker.replica(1).is_held
        assert broker.journal.take()[-1] == "1 fetches"

    run(tmp_path, scenario)


def test_when_the_disk_answers_the_controller_hears_it_before_anything_is_fetched(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        broker.hung.does_not_answer(broker.disks[0], READ)
        broker.journal.take()
        broker.hung.answers(broker.disks[0])
        await settled()
        assert broker.journal.take() == ["0 is well", "1 is well", "told", "0 fetches", "1 fetches"]

    run(tmp_path, scenario)


def test_one_that_is_damaged_as_well_stays_so(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        broker.hung.does_not_answer(broker.disks[1], SYNC)
        broker.replica(2).is_damaged = True
        broker.journal.take()
        broker.hung.answers(broker.disks[1])
        await settled()
        assert broker.journal.take() == ["told"], "it is told when it is mended, and fetches then"

    run(tmp_path, scenario)


def test_a_new_controller_is_told_again(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        broker.hung.does_not_answer(broker.disks[1], SYNC)
        broker.journal.take()
        broker.hung.tell_again()
        assert broker.journal.take() == ["2 hangs"]

    run(tmp_path, scenario)


def test_of_a_disk_that_is_given_up_nothing_is_told_any_more(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        broker.hung.does_not_answer(broker.disks[1], SYNC)
        broker.hung.forget(broker.disks[1])
        broker.journal.take()
        broker.hung.tell_again()
        broker.hung.answers(broker.disks[1])
        await settled()
        assert broker.journal.take() == ["told"]
        assert not broker.replica(2).waits_for_disk

    run(tmp_path, scenario)


def test_what_is_mended_while_its_disk_does_not_answer_is_not_told_to_be_well() -> None:
    async def main() -> list[int]:
        reports = FailedReplicas(None, 1, lambda: -1, open_channel)  # type: ignore[arg-type]
        key = TOPIC_ID, 0
        reports.report_hang(key)
        reports.report_damage(key, 5)
        conditions = []
        for over in (reports.report_whole, reports.hangs_no_more):
            over(key)
            conditions.append(int(reports._pending[key].condition))
        await reports.close()
        return conditions

    assert asyncio.run(main()) == [REPLICA_CONDITION_HANGS, REPLICA_CONDITION_WHOLE]
