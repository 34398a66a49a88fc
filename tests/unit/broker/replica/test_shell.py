"""The shell performs what a core asks for, on a real log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from adversary.batches import good_batch
from effect_ports import perform_with
from held_threads import HeldThreads
from hightide.batch.errors import CorruptBatch
from hightide.batch.header import iterate, stamp
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.core.effects import AskEpochEnd, Effect
from hightide_broker.core.events import (
    BatchesReceived,
    BatchSpan,
    EpochEndReceived,
    FetchRefused,
    LeaderAndIsrDecided,
    ProduceArrived,
)
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Replica, ReplicaSettings, Role
from hightide_broker.metrics import survey
from hightide_broker.replica.group_commit import GroupCommit
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.replica.shell import Divergence, Payload, ReplicaShell
from hightide_broker.storage import DataDirectory, Flush, LogSettings
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.tracing import Telemetry
from msgspec.structs import replace

TOPIC_ID = bytes(range(16))


def test_every_effect_of_the_core_has_somebody_who_performs_it() -> None:
    failures: list[Exception] = []
    shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
    assert set(shell.performs) == set(get_args(Effect))


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDirectory]:
    opened = DataDirectory.open(tmp_path, "the-cluster", 2)
    yield opened
    opened.close()


class Unmoved:
    """Stands for fetchers, ISR store and control: this test looks at the log only."""

    def start(self, replica: HostedReplica, effect: object) -> None:
        """Nothing."""

    def stop(self, replica: HostedReplica) -> None:
        """Nothing."""

    def ask(self, replica: HostedReplica, effect: object) -> None:
        """Nothing."""

    def resume(self, replica: HostedReplica) -> None:
        """Nothing."""


class Controller:
    """Notes what it is told of a replica."""

    def __init__(self) -> None:
        self.told: list[Divergence | str] = []

    def report_divergence(self, key: PartitionKey, divergence: Divergence) -> None:
        assert key == (TOPIC_ID, 0)
        self.told.append(divergence)

    def diverges_no_more(self, key: PartitionKey) -> None:
        assert key == (TOPIC_ID, 0)
        self.told.append("follows again")


def follower(data: DataDirectory) -> tuple[ReplicaShell, HostedReplica]:
    failures: list[Exception] = []
    shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
    perform_with(shell, fetching=Unmoved())
    settings = TopicSettings()
    opened = data.log(TOPIC_ID, 0, True, "flights", settings.log)
    replica = HostedReplica((TOPIC_ID, 0), "flights", settings, Replica.opened(ReplicaSettings(2)), opened)
    shell.feed(replica, LeaderAndIsrDecided.dummy(leader=1, leader_epoch=1))
    return shell, replica


def stamped(offset: int, epoch: int) -> bytes:
    batch = bytearray(good_batch(TOPIC_ID, 0))
    stamp(batch, 0, offset, epoch)
    return bytes(batch)


def received(batches: bytes) -> tuple[BatchesReceived, Payload]:
    headers = [header for _, header in iterate(batches)]
    spans = tuple(BatchSpan(h.base_offset, h.record_count, h.leader_epoch) for h in headers)
    return BatchesReceived(1, 1, spans, 0, 0), Payload(batches, headers)


def test_one_answer_can_end_an_epoch_and_begin_the_next(data: DataDirectory) -> None:
    shell, replica = follower(data)
    event, payload = received(stamped(0, 0) + stamped(1, 1))
    shell.feed(replica, event, payload)
    assert replica.log.log_end_offset == replica.state.log_end_offset == 2
    assert [(each.epoch, each.start_offset) for each in replica.log.epochs.entries] == [(0, 0), (1, 1)]


def test_what_the_log_does_not_take_has_not_happened(data: DataDirectory) -> None:
    shell, replica = follower(data)
    damaged = bytearray(stamped(0, 1))
    damaged[-1] ^= 1
    event, payload = received(bytes(damaged))
    before = replica.state
    with pytest.raises(CorruptBatch):
        shell.feed(replica, event, payload)
    assert replica.state is before
    assert replica.log.log_end_offset == 0
    shell.feed(replica, *received(stamped(0, 1)))
    assert replica.log.log_end_offset == 1


def test_a_log_that_does_not_begin_inside_a_batch_begins_where_it_did(data: DataDirectory) -> None:
    """Its first batch is damaged on the way. If it is elected then, it writes where its core believes."""
    shell, replica = follower(data)
    shell.feed(replica, FetchRefused(1, 1, Refusal.OFFSET_OUT_OF_RANGE, 5))
    before = replica.state
    damaged = bytearray(good_batch(TOPIC_ID, 0, [b"a"] * 4))
    stamp(damaged, 0, 3, 1)
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        shell.feed(replica, *received(bytes(damaged)))
    assert replica.state is before
    assert (replica.log.log_start_offset, replica.log.log_end_offset) == (5, 5)


def test_what_its_leader_lacks_of_committed_records_is_kept_and_told(data: DataDirectory) -> None:
    shell, replica = follower(data)
    controller = Controller()
    perform_with(shell, divergences=controller)
    event, payload = received(stamped(0, 1) + stamped(1, 1))
    shell.feed(replica, replace(event, high_watermark=2), payload)
    shell.feed(replica, LeaderAndIsrDecided.dummy(leader=3, leader_epoch=2))
    shell.feed(replica, EpochEndReceived(AskEpochEnd(3, 2, 1, 2), 1, 1))
    assert (replica.log.log_end_offset, replica.state.role) == (2, Role.DIVERGED)
    assert controller.told == [Divergence(offset=1, high_watermark=2, leader=3, leader_epoch=2)]
    assert survey([replica]).diverged == 1
    shell.feed(replica, LeaderAndIsrDecided.dummy(leader=3, leader_epoch=3, unclean_epoch=3))
    assert len(controller.told) == 1, "nobody knows yet whether that helps"
    shell.feed(replica, EpochEndReceived(AskEpochEnd(3, 3, 1, 2), 1, 1))
    assert (replica.log.log_end_offset, replica.state.role) == (1, Role.FETCHING)
    assert controller.told[1:] == ["follows again"]


@pytest.mark.parametrize(("high_watermark", "may_come_back"), [(1, True), (2, False)])
def test_a_cut_of_committed_records_is_synced_and_no_other(
    data: DataDirectory, high_watermark: int, may_come_back: bool
) -> None:
    shell, replica = follower(data)
    event, payload = received(stamped(0, 1) + stamped(1, 1))
    shell.feed(replica, replace(event, high_watermark=high_watermark), payload)
    shell.feed(replica, LeaderAndIsrDecided.dummy(leader=3, leader_epoch=2, unclean_epoch=2))
    shell.feed(replica, EpochEndReceived(AskEpochEnd(3, 2, 1, 2), 1, 1))
    assert replica.log.log_end_offset == 1
    assert replica.log.cuts.may_come_back == may_come_back


def test_a_replica_that_keeps_what_its_leader_lacked_may_lead(data: DataDirectory) -> None:
    shell, replica = follower(data)
    controller = Controller()
    perform_with(shell, divergences=controller)
    event, payload = received(stamped(0, 1))
    shell.feed(replica, replace(event, high_watermark=1), payload)
    shell.feed(replica, LeaderAndIsrDecided.dummy(leader=3, leader_epoch=2))
    shell.feed(replica, EpochEndReceived(AskEpochEnd(3, 2, 1, 1), 1, 0))
    shell.feed(replica, LeaderAndIsrDecided.dummy(leader=2, leader_epoch=3, isr=(2,), unclean_epoch=3))
    assert replica.state.is_leader
    assert controller.told[1:] == ["follows again"]


def test_batches_that_are_here_already_are_skipped(data: DataDirectory) -> None:
    shell, replica = follower(data)
    shell.feed(replica, *received(stamped(0, 1)))
    shell.feed(replica, *received(stamped(0, 1) + stamped(1, 1)))
    assert replica.log.log_end_offset == replica.state.log_end_offset == 2


@pytest.mark.parametrize(("flush", "syncs"), [(Flush.FSYNC, 1), (Flush.REPLICATED, 0)])
def test_a_follower_names_where_its_log_begins_anew_once_that_is_synced_if_its_records_are(
    data: DataDirectory, flush: Flush, syncs: int
) -> None:
    """Also if nothing comes above it: its leader counts it as in sync up to there."""
    disk = HeldThreads()
    failures: list[Exception] = []
    shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
    commits = GroupCommit[HostedReplica](disk, shell.flushed, failures.append)
    perform_with(shell, fetching=Unmoved(), group_commit=commits)
    settings = TopicSettings(log=LogSettings(flush=flush))
    state = Replica.opened(ReplicaSettings(2, flush_on_disk=flush is Flush.FSYNC))
    opened = data.log(TOPIC_ID, 0, True, "flights", settings.log)
    replica = HostedReplica((TOPIC_ID, 0), "flights", settings, state, opened)

    async def story() -> None:
        shell.feed(replica, LeaderAndIsrDecided.dummy(leader=1, leader_epoch=1))
        shell.feed(replica, FetchRefused(1, 1, Refusal.OFFSET_OUT_OF_RANGE, 5))
        assert replica.log.log_start_offset == 5
        assert len(disk) == syncs
        assert replica.state.fetch_offset == (None if syncs else 5)
        disk.go_on()
        for _ in range(5):
            await asyncio.sleep(0)
        assert replica.state.fetch_offset == 5
        shell.close()

    asyncio.run(story())
    assert failures == []


def test_what_was_appended_while_the_disk_was_busy_does_not_count_as_on_it(data: DataDirectory) -> None:
    disk = HeldThreads()
    failures: list[Exception] = []
    shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
    perform_with(shell, group_commit=GroupCommit[HostedReplica](disk, shell.flushed, failures.append))
    settings = TopicSettings(log=LogSettings(flush=Flush.FSYNC))
    state = Replica.opened(ReplicaSettings(2, flush_on_disk=True))
    opened = data.log(TOPIC_ID, 0, True, "flights", settings.log)
    replica = HostedReplica((TOPIC_ID, 0), "flights", settings, state, opened)

    def produce() -> None:
        batch = good_batch(TOPIC_ID, 0)
        shell.feed(replica, ProduceArrived.dummy(), Payload(batch, [header for _, header in iterate(batch)]))

    async def the_news_is_heard() -> int:
        for _ in range(10):
            await asyncio.sleep(0)
        return replica.state.high_watermark

    async def story() -> None:
        shell.feed(replica, LeaderAndIsrDecided.dummy(2, 1, (2,), replicas=(2,)))
        produce()
        disk.go_on()
        produce()
        assert await the_news_is_heard() == 1
        disk.go_on()
        assert await the_news_is_heard() == 2
        shell.close()

    asyncio.run(story())
    assert failures == []
