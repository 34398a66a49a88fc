"""What a broker does now and then, on real logs: so that recovery is short, and a full disk gets room."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from adversary.batches import good_batch
from effect_ports import perform_with
from faulty_files import Fault, FaultyFiles
from hightide.batch.header import iterate
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.core.effects import AskEpochEnd, StartFetching
from hightide_broker.core.events import (
    BatchesReceived,
    BatchSpan,
    EpochEndReceived,
    LeaderAndIsrDecided,
    SettingsChanged,
)
from hightide_broker.core.follower import open_question
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.directories.maintenance import Maintenance, MaintenanceSettings
from hightide_broker.directories.retention_report import RetentionReport
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.replica.shell import Payload
from hightide_broker.storage import DataDirectory, DiskFull, Flush, LogSettings
from hightide_runtime.system_clock import SystemClock
from maintenance_rig import NEVER_MS, TOPIC_ID, Running, run
from stored_batches import as_sent_by_leader

DAY_US = 24 * 3600 * 1_000_000
BATCH_BYTES = len(good_batch(TOPIC_ID, 0))


class WallThatJumps(SystemClock):
    """The machine's clocks, of which an operator sets the wall's."""

    __slots__ = ("ahead_us",)

    def __init__(self) -> None:
        self.ahead_us = 0

    def wall_us(self) -> int:
        return super().wall_us() + self.ahead_us


def damage_the_start(path: Path) -> None:
    """Change a byte of partition 0's first batch: whoever reads it notices."""
    segment = path / f"{TOPIC_ID.hex()}-0" / f"{0:020d}.log"
    contents = bytearray(segment.read_bytes())
    contents[BATCH_BYTES - 1] ^= 1
    segment.write_bytes(contents)


def end_after_recovery(path: Path, settings: LogSettings | None = None) -> int:
    again = DataDirectory.open(path, "the-cluster", 1)
    end_offset = again.log(TOPIC_ID, 0, False, "flights", settings or LogSettings()).log_end_offset
    again.close(clean=False)
    return end_offset


def test_a_segment_that_is_closed_is_flushed_so_that_a_crash_does_not_make_it_be_read(tmp_path: Path) -> None:
    small = LogSettings(segment_bytes=2 * BATCH_BYTES)

    async def scenario(running: Running) -> None:
        leader = running.replicas[0]
        for _ in range(7):
            running.produce(leader)
        await running.round_ends()
        assert leader.log.durable_end_offset == leader.state.durable_end_offset == 7
        await running.upkeep.checkpoint()

    run(tmp_path, scenario, settings=small)
    damage_the_start(tmp_path)
    assert end_after_recovery(tmp_path, small) == 7


def test_what_nobody_waits_for_is_flushed_now_and_then_and_the_recovery_point_follows(tmp_path: Path) -> None:
    async def scenario(running: Running) -> None:
        for replica in running.replicas:
            running.produce(replica)
        await running.upkeep.checkpoint()
        assert [replica.log.recovery_point_checkpoint for replica in running.replicas] == [0, 0]
        await running.upkeep.flush()
        await running.upkeep.checkpoint()
        assert [replica.log.recovery_point_checkpoint for replica in running.replicas] == [1, 1]

    run(tmp_path, scenario)


def test_a_broker_on_which_nothing_moves_neither_syncs_nor_writes(tmp_path: Path) -> None:
    files = FaultyFiles()

    async def scenario(running: Running) -> None:
        running.produce(running.replicas[0])
        await running.upkeep.flush()
        await running.upkeep.checkpoint()
        before = files.changes, files.syncs
        await running.upkeep.flush()
        await running.upkeep.checkpoint()
        assert (files.changes, files.syncs) == before

    run(tmp_path, scenario, files=files)


def test_a_log_that_has_no_room_for_its_epochs_gives_room_as_the_others_do(tmp_path: Path) -> None:
    files = FaultyFiles()
    gone_at_once = LogSettings(segment_bytes=1, retention_bytes=0)

    async def scenario(running: Running) -> None:
        for replica in running.replicas:
            for _ in range(3):
                running.produce(replica)
        await running.round_ends()
        files.faults.append(Fault("open", errno.ENOSPC, where=f"{TOPIC_ID.hex()}-0/", lasting=True))
        await running.upkeep.apply_retention()
        full, other = running.replicas
        assert full.state.log_start_offset == 2
        assert other.state.log_start_offset == 2
        assert running.failures == []

    run(tmp_path, scenario, settings=gone_at_once, files=files)


def test_a_log_that_takes_nothing_for_want_of_room_goes_on_when_there_is_some(tmp_path: Path) -> None:
    """Recovery had no room to keep aside what it cut off. Nobody has to do more than to make room."""
    full = [True]

    def keep() -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")

    async def scenario(running: Running) -> None:
        log = running.replicas[0].log
        log._files.unkept = keep
        await running.upkeep.flush()
        with pytest.raises(DiskFull):
            running.produce(running.replicas[0])
        full.clear()
        await running.upkeep.flush()
        running.produce(running.replicas[0])
        assert log.log_end_offset == 1
        assert running.failures == []

    run(tmp_path, scenario)


def test_a_replica_put_aside_during_its_flush_is_no_disk_that_failed(tmp_path: Path) -> None:
    files = FaultyFiles()

    async def scenario(running: Running) -> None:
        leader = running.replicas[0]
        running.produce(leader)
        sync = files.sync

        def put_aside_first(fd: int) -> None:
            files.sync = sync  # type: ignore[method-assign]
            running.data.quarantine(*leader.key, 7)
            sync(fd)

        files.sync = put_aside_first  # type: ignore[method-assign]
        await running.upkeep.flush()
        assert leader.log.is_closed
        assert not running.data.failed
        assert running.failures == []

    run(tmp_path, scenario, files=files)


def test_when_its_directory_is_offline_upkeep_says_so_and_ends(tmp_path: Path) -> None:
    files = FaultyFiles()

    async def scenario(running: Running) -> None:
        running.produce(running.replicas[0])
        files.faults.append(Fault("sync", errno.EIO))
        every = asyncio.ensure_future(running.upkeep._every(0, running.upkeep.flush))
        await asyncio.wait_for(every, 60)
        assert [str(error) for error in running.failures if "failed" in str(error)]
        calls = files.calls
        await running.upkeep.checkpoint_last()
        assert files.calls == calls

    run(tmp_path, scenario, files=files)


def test_an_epoch_that_goes_without_a_record_takes_no_high_watermark_along(tmp_path: Path) -> None:
    """The checkpoint is written again, though neither the high watermark nor the log's end has moved."""

    async def scenario(running: Running) -> None:
        leader = running.replicas[0]
        running.produce(leader)
        running.shell.feed(leader, LeaderAndIsrDecided.dummy(1, 2, (1,), replicas=(1,)))
        assert (leader.log.epochs.latest, leader.state.high_watermark) == (2, 1)
        await running.upkeep.flush()
        await running.upkeep.checkpoint()
        leader.log.truncate_to(1)
        assert (leader.log.epochs.latest, leader.log.log_end_offset) == (1, 1)
        await running.upkeep.checkpoint()

    run(tmp_path, scenario)
    again = DataDirectory.open(tmp_path, "the-cluster", 1)
    assert again.log(TOPIC_ID, 0, False, "flights", LogSettings()).high_watermark_checkpoint == 1
    again.close(clean=False)


def test_upkeep_leaves_the_logs_of_other_directories_alone(tmp_path: Path) -> None:
    async def scenario(running: Running) -> None:
        other = DataDirectory.open(tmp_path / "other", "the-cluster", 1)
        elsewhere = other.log(TOPIC_ID, 9, True, "flights", LogSettings())
        settings = TopicSettings()
        replica = HostedReplica(
            (TOPIC_ID, 9), "flights", settings, Replica.opened(ReplicaSettings(1)), elsewhere
        )
        running.hosted.add(replica)
        running.shell.feed(replica, LeaderAndIsrDecided.dummy(1, 1, (1,), replicas=(1,)))
        for each in (running.replicas[0], replica):
            running.produce(each)
        await running.upkeep.flush()
        await running.upkeep.apply_retention()
        await running.upkeep.checkpoint()
        assert running.replicas[0].log.durable_end_offset == 1
        assert elsewhere.durable_end_offset == 0
        other.close()

    run(tmp_path / "one", scenario)


def test_a_wall_clock_eight_days_ahead_for_one_round_of_retention_deletes_nothing(tmp_path: Path) -> None:
    clock = WallThatJumps()

    async def scenario(running: Running) -> None:
        for _ in range(5):
            running.produce(running.replicas[0])
        clock.ahead_us = 8 * DAY_US
        await running.upkeep.apply_retention()
        assert (running.replicas[0].log.log_start_offset, running.replicas[0].log.log_end_offset) == (0, 5)

    run(tmp_path, scenario, settings=LogSettings(segment_bytes=2 * BATCH_BYTES), clock=clock)


def test_a_wall_clock_that_jumps_deletes_nothing_from_the_quarantine(tmp_path: Path) -> None:
    clock = WallThatJumps()

    async def scenario(running: Running) -> None:
        leader = running.replicas[0]
        running.produce(leader)
        running.data.quarantine(*leader.key, running.data.now_us())
        running.hosted.remove(leader)
        clock.ahead_us = 8 * DAY_US
        await running.upkeep.apply_retention()
        assert len(list((tmp_path / "quarantine").iterdir())) == 1

    run(tmp_path, scenario, clock=clock)


def test_a_round_of_retention_says_once_how_much_went_of_how_many_logs_and_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(running: Running) -> None:
        for replica in running.replicas:
            for _ in range(5):
                running.produce(replica)
        running.replicas[0].log.move_start(1)
        await running.upkeep.apply_retention()
        await running.upkeep.apply_retention()

    run(tmp_path, scenario, settings=LogSettings(segment_bytes=1, retention_bytes=2 * BATCH_BYTES))
    (told,) = [each.message for each in caplog.records if "retention in" in each.message]
    assert told == (
        f"retention in {tmp_path}: 6 segments deleted of 2 logs: {BATCH_BYTES} bytes below where the log "
        f"begins, {5 * BATCH_BYTES} bytes more than retention.bytes; flights-0 begins at 3, flights-1 begins "
        "at 3"
    )


def test_the_line_about_retention_names_ten_logs_at_most(tmp_path: Path) -> None:
    async def scenario(running: Running) -> None:
        cuts = RetentionReport()
        for _ in range(12):
            cuts.note(running.replicas[0], has_moved=True)
        assert cuts.sentence().endswith("flights-0 begins at 0, and 2 more")
        assert "12 logs; " in cuts.sentence()
        assert RetentionReport().sentence() == ""

    run(tmp_path, scenario)


class CountingThread(ThreadPoolExecutor):
    """A disk's thread that counts its turns."""

    turns = 0

    def submit(self, *arguments: Any, **named: Any) -> Future[Any]:
        self.turns += 1
        return super().submit(*arguments, **named)


def test_retention_looks_at_many_logs_in_a_turn_of_the_thread_and_each_that_lets_go_has_one_of_its_own(
    tmp_path: Path,
) -> None:
    """A turn for each log cost a broker with 10,000 idle ones a second of CPU time every minute. What lets go
    deletes files, and a sync waits for one log of these at most."""
    small = LogSettings(segment_bytes=2 * BATCH_BYTES, retention_bytes=0)

    async def scenario(running: Running) -> None:
        with CountingThread(1) as disk:
            upkeep = Maintenance(
                SystemClock(), running.hosted, running.shell, running.data, disk,
                MaintenanceSettings(NEVER_MS, NEVER_MS, NEVER_MS), running.failures.append,
            )  # fmt: skip
            await upkeep.apply_retention()
            for_the_rest = disk.turns - 1
            assert for_the_rest == 2, "the quarantine, and the time"
            for replica in running.replicas:
                for _ in range(3):
                    running.produce(replica)
            disk.turns = 0
            await upkeep.apply_retention()
            assert [replica.log.log_start_offset for replica in running.replicas] == [2, 2]
            assert [replica.state.log_start_offset for replica in running.replicas] == [2, 2]
            assert disk.turns == 1 + len(running.replicas) + for_the_rest
            disk.turns = 0
            await upkeep.apply_retention()
            assert disk.turns == 1 + for_the_rest
            await upkeep.close()

    run(tmp_path, scenario, settings=small)


def test_a_log_that_begins_anew_while_retention_waits_for_the_disk_keeps_what_is_not_committed(
    tmp_path: Path,
) -> None:
    """An unclean election lowers the high watermark. What came since is not below it."""

    async def scenario(running: Running) -> None:
        leader = running.replicas[0]
        for _ in range(6):
            running.produce(leader)
        free = threading.Event()
        running.disk.submit(free.wait, 60)
        retention = asyncio.create_task(running.upkeep.apply_retention())
        await asyncio.sleep(0)
        leader.log.truncate_to(0)
        batch = good_batch(TOPIC_ID, 0)
        for _ in range(6):
            leader.log.append_as_leader(batch, [header for _, header in iterate(batch)], 2)
        leader.state = leader.state.with_log(high_watermark=0)
        free.set()
        await retention
        assert leader.log.log_start_offset == 0

    run(tmp_path, scenario, settings=LogSettings(segment_bytes=2 * BATCH_BYTES, retention_bytes=0))


class FetchesNothing:
    """The fetchers of a follower whose leader is played by the test."""

    def start(self, _replica: HostedReplica, _effect: StartFetching) -> None: ...

    def ask(self, _replica: HostedReplica, _effect: AskEpochEnd) -> None: ...

    def stop(self, _replica: HostedReplica) -> None: ...


def falls_back(running: Running, replica: HostedReplica, end_offset: int, committed: int = 0) -> None:
    """An unclean election: a broker leads whose log ends there, and sends eight records, of which so many are
    committed."""
    perform_with(running.shell, fetching=FetchesNothing())
    decided = LeaderAndIsrDecided.dummy(2, 2, (2,), replicas=(1, 2), unclean_epoch=2)
    running.shell.feed(replica, decided)
    running.shell.feed(replica, EpochEndReceived(open_question(replica.state), 1, end_offset))
    while (at := replica.state.log_end_offset) < end_offset + 8:
        batch = as_sent_by_leader(good_batch(TOPIC_ID, replica.key[1]), at, 2)
        headers = [header for _, header in iterate(batch)]
        received = BatchesReceived(2, 2, (BatchSpan(at, 1, 2),), end_offset + committed, 0)
        running.shell.feed(replica, received, Payload(batch, headers))


def before_the_disk(files: FaultyFiles, call: str, where: str, act: Callable[[], None]) -> None:
    """Do this on the event loop once, while the disk's thread is about to make such a call."""
    loop, loops_thread = asyncio.get_running_loop(), threading.current_thread()

    def on_call(name: str, path: str) -> None:
        if name != call or where not in path or threading.current_thread() is loops_thread:
            return
        files.on_call = lambda _call, _path: None
        done = threading.Event()

        def act_now() -> None:
            try:
                act()
            finally:
                done.set()

        loop.call_soon_threadsafe(act_now)
        assert done.wait(60)

    files.on_call = on_call


BY_SIZE = LogSettings(segment_bytes=2 * BATCH_BYTES, retention_bytes=0)


def test_an_unclean_election_while_retention_deletes_leaves_what_the_new_leader_sends(tmp_path: Path) -> None:
    """The log begins anew in a file of the same name as one that is about to be deleted."""
    files = FaultyFiles()

    async def scenario(running: Running) -> None:
        replica = running.replicas[0]
        for _ in range(6):
            running.produce(replica)
        await running.round_ends()
        before_the_disk(files, "remove", f"{0:020d}.log", lambda: falls_back(running, replica, 0))
        await running.upkeep.apply_retention()
        state, log = replica.state, replica.log
        assert (state.log_start_offset, state.log_end_offset) == (0, 8)
        assert (log.log_start_offset, log.log_end_offset) == (0, 8)
        assert log.at_rest.lacking() == []

    run(tmp_path, scenario, settings=BY_SIZE, files=files)
    assert end_after_recovery(tmp_path, BY_SIZE) == 8


def test_an_unclean_election_below_what_retention_deletes_leaves_core_and_log_in_agreement(
    tmp_path: Path,
) -> None:
    files = FaultyFiles()

    async def scenario(running: Running) -> None:
        replica = running.replicas[0]
        for _ in range(6):
            running.produce(replica)
        await running.round_ends()
        before_the_disk(files, "remove", f"{0:020d}.log", lambda: falls_back(running, replica, 3))
        await running.upkeep.apply_retention()
        state, log = replica.state, replica.log
        assert (state.log_start_offset, state.log_end_offset) == (3, 11)
        assert (log.log_start_offset, log.log_end_offset) == (3, 11)

    run(tmp_path, scenario, settings=BY_SIZE, files=files)


def test_an_unclean_election_while_retention_waits_for_a_sync_leaves_what_is_not_committed(
    tmp_path: Path,
) -> None:
    """Retention has read the high watermark before it waits."""
    files = FaultyFiles()

    async def scenario(running: Running) -> None:
        replica = running.replicas[0]
        for _ in range(6):
            running.produce(replica)
        await running.round_ends()
        replica.log.truncate_to(1)
        for at in range(1, 7):
            running.produce_again(replica, at)
        replica.log.truncate_to(6)  # A cut that is not synced, so that the start waits for a sync.
        replica.log.move_start(2)
        replica.state = replica.state.with_log(log_start_offset=2)
        before_the_disk(files, "sync", ".log", lambda: falls_back(running, replica, 2))
        await running.upkeep.apply_retention()
        assert replica.state.log_start_offset == replica.log.log_start_offset <= 2
        assert replica.state.log_end_offset == replica.log.log_end_offset == 10

    run(tmp_path, scenario, settings=BY_SIZE, files=files)


class ThreadWithNews(ThreadPoolExecutor):
    """A disk's thread after whose first turn something happens on the event loop, before it is heard."""

    news: Callable[[], None] | None = None

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        loop = asyncio.get_running_loop()

        def turn() -> Any:
            outcome = call(*arguments, **named)
            news, self.news = self.news, None
            if news is not None:
                loop.call_soon_threadsafe(news)
            return outcome

        return super().submit(turn)


@pytest.mark.parametrize("committed", [0, 8])
def test_an_unclean_election_after_retention_has_looked_keeps_what_came_since(
    tmp_path: Path, committed: int
) -> None:
    async def scenario(running: Running) -> None:
        replica = running.replicas[0]
        for _ in range(6):
            running.produce(replica)
        await running.round_ends()
        with ThreadWithNews(1) as disk:
            upkeep = Maintenance(
                SystemClock(), running.hosted, running.shell, running.data, disk,
                MaintenanceSettings(NEVER_MS, NEVER_MS, NEVER_MS), running.failures.append,
            )  # fmt: skip
            disk.news = lambda: falls_back(running, replica, 0, committed)
            await upkeep.apply_retention()
            await upkeep.close()
        assert replica.state.log_start_offset == replica.log.log_start_offset == 0
        assert replica.state.log_end_offset == replica.log.log_end_offset == 8

    run(tmp_path, scenario, settings=BY_SIZE)


def test_damage_that_is_known_is_written_down_for_the_next_life(tmp_path: Path) -> None:
    async def scenario(running: Running) -> None:
        leader = running.replicas[0]
        running.produce(leader)
        await running.upkeep.flush()
        await running.upkeep.checkpoint()
        leader.is_damaged = True
        leader.log.at_rest.note_damage(is_damaged=True)
        await running.upkeep.checkpoint()

    run(tmp_path, scenario)
    again = DataDirectory.open(tmp_path, "the-cluster", 1)
    assert again.log(TOPIC_ID, 0, False, "flights", LogSettings()).at_rest.report_gaps()
    again.close(clean=False)


def test_a_replica_waits_for_its_disk_until_the_checkpoint_says_no_more_that_all_is_there(
    tmp_path: Path,
) -> None:
    """Its topic has flush=replicated from now on. The checkpoint under way was put together before."""
    files = FaultyFiles()

    async def scenario(running: Running) -> None:
        replica = running.replicas[0]
        settings = TopicSettings(log=LogSettings(flush=Flush.FSYNC))
        replica.settings = settings
        replica.log.update_settings(settings.log)
        running.shell.feed(replica, SettingsChanged(1, flush_on_disk=True))
        running.produce(replica)
        await running.round_ends()
        await running.upkeep.checkpoint()
        assert running.data.acks_were_synced(*replica.key)

        def relax(call: str, path: str) -> None:
            if call == "replace" and path.endswith("checkpoints"):
                replica.settings = TopicSettings()
                replica.log.update_settings(replica.settings.log)

        running.produce(replica)
        await running.round_ends()
        files.on_call = relax
        await running.upkeep.checkpoint()
        assert running.data.acks_were_synced(*replica.key)
        assert replica.state.settings.flush_on_disk
        await running.upkeep.checkpoint()
        assert not running.data.acks_were_synced(*replica.key)
        assert not replica.state.settings.flush_on_disk

    run(tmp_path, scenario, files=files)
