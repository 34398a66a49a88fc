"""Group commit: one round of fsync for all that waits."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hightide_broker.replica.group_commit import GroupCommit, GroupCommits
from hightide_broker.storage import LogClosed, StorageError, StorageFailed


class Disk:
    """A log whose flush can be held up or made to fail, and that counts."""

    def __init__(self, error: Exception | None = None) -> None:
        self.flushes = 0
        self.may_go_on = threading.Event()
        self.error = error

    def flush(self) -> None:
        assert self.may_go_on.wait(60)
        self.flushes += 1
        if self.error is not None:
            raise self.error


class Told:
    """What the group commit told its owner."""

    def __init__(self) -> None:
        self.flushed: list[Disk] = []
        self.failed: list[StorageError] = []


def test_what_arrives_during_a_round_shares_the_next_one() -> None:
    async def scenario() -> None:
        told, log = Told(), Disk()
        with ThreadPoolExecutor(1) as executor:
            commit = GroupCommit(executor, told.flushed.append, told.failed.append)
            first = commit.cover([log])
            later = [commit.cover([log]) for _ in range(5)]
            assert len(set(later)) == 1
            log.may_go_on.set()
            await first
            await later[0]
        assert log.flushes == 2
        assert told.flushed == [log, log]

    asyncio.run(scenario())


def test_the_owner_is_told_before_whoever_waits() -> None:
    async def scenario() -> None:
        told, log = Told(), Disk()
        log.may_go_on.set()
        with ThreadPoolExecutor(1) as executor:
            commit = GroupCommit(executor, told.flushed.append, told.failed.append)
            await commit.cover([log])
            assert told.flushed == [log]

    asyncio.run(scenario())


def test_a_failed_fsync_is_told_and_fails_the_round_but_not_the_other_logs_in_it() -> None:
    async def scenario() -> None:
        told, good, bad = Told(), Disk(), Disk(StorageFailed("EIO"))
        good.may_go_on.set()
        bad.may_go_on.set()
        with ThreadPoolExecutor(1) as executor:
            commit = GroupCommit(executor, told.flushed.append, told.failed.append)
            with pytest.raises(StorageFailed):
                await commit.cover([bad, good])
        assert told.flushed == [good]
        assert told.failed == [bad.error]

    asyncio.run(scenario())


def test_a_flush_that_fails_by_a_bug_fails_the_round_and_does_not_end_the_rounds() -> None:
    async def scenario() -> None:
        told, good, bad = Told(), Disk(), Disk(ZeroDivisionError("a bug"))
        good.may_go_on.set()
        bad.may_go_on.set()
        with ThreadPoolExecutor(1) as executor:
            commit = GroupCommit(executor, told.flushed.append, told.failed.append)
            with pytest.raises(StorageFailed, match="a bug"):
                await asyncio.wait_for(commit.cover([bad, good]), 60)
            await asyncio.wait_for(commit.cover([good]), 60)
        assert told.flushed == [good, good]
        assert [type(each) for each in told.failed] == [StorageFailed]

    asyncio.run(scenario())


def test_a_log_whose_replica_was_stopped_is_no_disk_that_failed() -> None:
    async def scenario() -> None:
        told, kept, stopped = Told(), Disk(), Disk(LogClosed("put into quarantine"))
        kept.may_go_on.set()
        stopped.may_go_on.set()
        with ThreadPoolExecutor(1) as executor:
            commit = GroupCommit(executor, told.flushed.append, told.failed.append)
            await commit.cover([stopped, kept])
        assert told.flushed == [kept]
        assert told.failed == []

    asyncio.run(scenario())


def test_a_replica_that_fails_at_the_news_does_not_keep_it_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        told, bad, good = Told(), Disk(), Disk()
        good.may_go_on.set()
        bad.may_go_on.set()

        def hear(log: Disk) -> None:
            assert log is not bad
            told.flushed.append(log)

        with ThreadPoolExecutor(1) as executor:
            commit = GroupCommit(executor, hear, told.failed.append)
            await commit.cover([bad, good])
        assert told.flushed == [good]
        assert "after a flush" in caplog.text

    asyncio.run(scenario())


def test_who_lives_on_one_disk_does_not_wait_for_another() -> None:
    async def scenario() -> None:
        told, quick, hanging = Told(), Disk(), Disk()
        quick.may_go_on.set()
        with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
            commits = GroupCommits(
                {
                    "/quick": GroupCommit(one, told.flushed.append, told.failed.append),
                    "/hanging": GroupCommit(other, told.flushed.append, told.failed.append),
                },
                lambda disk: "/quick" if disk is quick else "/hanging",
            )
            late = commits.cover([hanging])
            await asyncio.wait_for(commits.cover([quick]), 20)
            assert not late.done()
            hanging.may_go_on.set()
            await late
        assert told.flushed == [quick, hanging]

    asyncio.run(scenario())
