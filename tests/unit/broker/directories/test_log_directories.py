"""Several data directories: what lives where, and what a failure of one takes along."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from adversary.batches import good_batch
from faulty_files import Fault, FaultyFiles
from hightide.batch.header import iterate
from hightide_broker.directories.log_directories import NOWHERE, LogDirectories, LogDirectory
from hightide_broker.storage import (
    DataDirectory,
    DirectoryLocked,
    DirectorySettings,
    Log,
    LogSettings,
    StorageFailed,
    WrongBroker,
    WrongCluster,
)
from hightide_broker.storage.files.hung_calls import HungCall

TOPIC_ID = bytes(range(16))
SETTINGS = LogSettings()


def key(partition: int) -> tuple[bytes, int]:
    return TOPIC_ID, partition


def append(log: Log) -> None:
    batch = good_batch(TOPIC_ID, log.partition)
    log.append_as_leader(batch, [header for _, header in iterate(batch)], 1)


class HangingFiles(FaultyFiles):
    """Whoever asks whether a file is there that is below a path waits; so does a move into quarantine."""

    def __init__(self) -> None:
        super().__init__()
        self.below: str | None = None
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.may_move = threading.Event()
        self.may_move.set()
        self.moved: list[str] = []

    def exists(self, path: str) -> bool:
        if self.below is not None and path.startswith(self.below):
            self.begun.set()
            assert self.may_go_on.wait(60)
        return super().exists(path)

    def replace(self, source: str, target: str) -> None:
        if "quarantine" in target:
            assert self.may_move.wait(60)
            self.moved.append(source)
        super().replace(source, target)


class Opened:
    """Two directories, `a` and `b`, over files that fail on demand; and who was told of failures."""

    def __init__(self, directories: LogDirectories, files: HangingFiles) -> None:
        self.directories = directories
        self.files = files
        self.told: list[LogDirectory] = []
        directories.tell_of_failures(self.told.append)

    async def create(self, partition: int, is_first: bool = True) -> Log:
        return await self.directories.create_log(key(partition), "flights", SETTINGS, is_first)

    async def open(self, partition: int) -> Log:
        return await self.directories.open_log(key(partition), "flights", SETTINGS)

    def name_of(self, partition: int) -> str:
        home = self.directories.home_of(key(partition))
        assert home is not None
        return Path(home.path).name


def run(
    path: Path,
    scenario: Callable[[Opened], Awaitable[None]],
    *,
    faults: Sequence[Fault] = (),
    clean: bool = True,
) -> None:
    async def main() -> None:
        files = HangingFiles()
        files.faults.extend(faults)
        directories = await LogDirectories.open([path / "a", path / "b"], "cluster", 1, files)
        try:
            await scenario(Opened(directories, files))
        finally:
            await directories.close(clean)

    asyncio.run(main())


def offline_from_the_start(path: Path, name: str) -> Fault:
    """The disk of a directory answers nothing but errors."""
    return Fault("open", errno.EIO, where=f"{path}/{name}/", lasting=True)


# --- whose they are ------------------------------------------------------------------------------


def test_a_directory_of_another_cluster_is_refused_naming_both_and_nothing_is_written(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path / "a", "cluster", 1).close()
    DataDirectory.open(tmp_path / "b", "another", 1).close()
    before = (tmp_path / "a" / "meta.json").read_bytes()

    async def never(opened: Opened) -> None:
        raise AssertionError(opened)

    with pytest.raises(WrongCluster, match=rf"{tmp_path}/b belongs to cluster another.*{tmp_path}/a is of"):
        run(tmp_path, never)
    assert (tmp_path / "a" / "meta.json").read_bytes() == before


def test_a_directory_of_another_broker_is_refused_before_a_new_one_becomes_ours(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path / "b", "cluster", 7).close()

    async def never(opened: Opened) -> None:
        raise AssertionError(opened)

    with pytest.raises(WrongBroker, match=r"broker 7.*broker 1"):
        run(tmp_path, never)
    assert not (tmp_path / "a").exists()


def test_one_directory_in_use_keeps_the_broker_from_starting_and_lets_go_of_the_other(tmp_path: Path) -> None:
    used = DataDirectory.open(tmp_path / "b", "cluster", 1)

    async def never(opened: Opened) -> None:
        raise AssertionError(opened)

    with pytest.raises(DirectoryLocked, match="in use"):
        run(tmp_path, never)
    DataDirectory.open(tmp_path / "a", "cluster", 1).close()
    used.close()


def test_a_directory_and_a_link_to_it_are_one(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path / "a", "cluster", 1).close()
    (tmp_path / "b").symlink_to(tmp_path / "a")

    async def never(opened: Opened) -> None:
        raise AssertionError(opened)

    with pytest.raises(DirectoryLocked, match="in use"):
        run(tmp_path, never)


# --- where partitions go -------------------------------------------------------------------------


def test_a_new_partition_goes_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    async def first_life(opened: Opened) -> None:
        for partition in range(4):
            append(await opened.create(partition))
        assert [opened.name_of(partition) for partition in range(4)] == ["a", "b", "a", "b"]
        await opened.directories.quarantine(key(1))
        await opened.directories.quarantine(key(3))

    async def second_life(opened: Opened) -> None:
        assert opened.directories.partitions() == [key(0), key(2)]
        for partition in (4, 5, 6):
            await opened.create(partition)
        assert [opened.name_of(partition) for partition in (4, 5, 6)] == ["b", "b", "a"]
        assert [opened.directories.number_of(key(partition)) for partition in (4, 6, 9)] == [1, 0, NOWHERE]

    run(tmp_path, first_life)
    run(tmp_path, second_life)


def test_a_partition_is_found_where_it_was(tmp_path: Path) -> None:
    async def first_life(opened: Opened) -> None:
        for partition in range(3):
            append(await opened.create(partition))

    async def second_life(opened: Opened) -> None:
        assert [opened.name_of(partition) for partition in range(3)] == ["a", "b", "a"]
        assert [(await opened.open(partition)).log_end_offset for partition in range(3)] == [1, 1, 1]

    run(tmp_path, first_life)
    run(tmp_path, second_life)


def test_a_partition_in_two_directories_is_served_from_neither_and_says_which(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        directory = DataDirectory.open(tmp_path / name, "cluster", 1)
        append(directory.log(*key(0), True, "flights", SETTINGS))
        directory.close()

    async def scenario(opened: Opened) -> None:
        assert opened.directories.in_two == {key(0)}
        with pytest.raises(StorageFailed, match=rf"two data directories: {tmp_path}/a/.*{tmp_path}/b/.*move"):
            await opened.open(0)
        assert "is in two data directories" in caplog.text
        append(await opened.create(1))
        await opened.directories.quarantine(key(0))
        assert opened.directories.partitions() == [key(1)]
        assert [len(list((tmp_path / name / "quarantine").iterdir())) for name in "ab"] == [1, 1]

    run(tmp_path, scenario)


def test_two_directories_take_no_more_memory_and_files_than_one() -> None:
    one = DirectorySettings()
    half = one.share(2)
    assert 2 * half.tail_bytes_max == one.tail_bytes_max
    assert 2 * half.open_files_max == one.open_files_max
    assert one.share(1) == one
    assert one.share(100).tail_bytes_per_log_max <= one.share(100).tail_bytes_max


# --- what a failure takes along ------------------------------------------------------------------


def test_a_directory_that_fails_takes_down_what_lives_there_and_nothing_else(tmp_path: Path) -> None:
    async def scenario(opened: Opened) -> None:
        logs = [await opened.create(partition) for partition in range(3)]
        for log in logs:
            append(log)
        opened.files.faults.append(Fault("write_at", errno.EIO, where=f"{tmp_path}/b/", lasting=True))
        with pytest.raises(StorageFailed):
            append(logs[1])
        opened.directories.look()
        assert [each.path for each in opened.told] == [f"{tmp_path}/b"]
        with pytest.raises(StorageFailed, match=rf"lives in {tmp_path}/b, which is offline: .*Input/output"):
            await opened.open(1)
        append(logs[0])
        append(logs[2])
        assert logs[0].flush() == logs[2].flush() == 2
        assert opened.directories.partitions() == [key(0), key(2)]
        assert opened.directories.number_of(key(1)) == 1
        await opened.create(4)
        assert opened.name_of(4) == "a"

    run(tmp_path, scenario)
    assert (tmp_path / "a" / ".clean").exists()
    assert not (tmp_path / "b" / ".clean").exists()


def test_a_log_that_opened_while_its_disk_failed_is_not_handed_out(tmp_path: Path) -> None:
    async def first(opened: Opened) -> None:
        append(await opened.create(0))

    async def scenario(opened: Opened) -> None:
        home = opened.directories.home_of(key(0))
        assert home is not None
        may_go_on = threading.Event()
        blocked = asyncio.ensure_future(home.run(may_go_on.wait, 60.0))
        opening = asyncio.ensure_future(opened.open(0))
        await asyncio.sleep(0)
        home.data._volume.disk.fail(OSError(errno.EIO, "Input/output error"))
        opened.directories.look()
        may_go_on.set()
        await blocked
        with pytest.raises(StorageFailed):
            await opening

    run(tmp_path, first)
    run(tmp_path, scenario)


def test_an_error_that_any_thread_meets_is_told_on_the_event_loop(tmp_path: Path) -> None:
    async def scenario(opened: Opened) -> None:
        here = threading.current_thread()
        told = asyncio.Event()
        threads: list[threading.Thread] = []

        def hear(directory: LogDirectory) -> None:
            threads.append(threading.current_thread())
            told.set()

        opened.directories.tell_of_failures(hear)
        log = await opened.create(0)
        append(log)
        opened.files.faults.append(Fault("sync", errno.EIO, where=f"{tmp_path}/a/"))
        home = opened.directories.home_of(key(0))
        assert home is not None
        with pytest.raises(StorageFailed):
            await home.run(log.flush)
        await asyncio.wait_for(told.wait(), 60)
        assert threads == [here]

    run(tmp_path, scenario)


def test_a_disk_that_hangs_holds_up_its_own_thread_only(tmp_path: Path) -> None:
    async def scenario(opened: Opened) -> None:
        logs = [await opened.create(partition) for partition in range(2)]
        may_go_on = threading.Event()

        def hang(call: str, path: str) -> None:
            if call == "sync" and f"{tmp_path}/b/" in path:
                assert may_go_on.wait(60)

        opened.files.on_call = hang
        for log in logs:
            append(log)
        one, other = opened.directories.online
        hanging = asyncio.ensure_future(other.run(logs[1].flush))
        assert await asyncio.wait_for(one.run(logs[0].flush), 20) == 1
        assert not hanging.done()
        may_go_on.set()
        assert await hanging == 1

    run(tmp_path, scenario)


@contextmanager
def hanging(files: HangingFiles, below: str) -> Iterator[threading.Event]:
    """In the with-block the files hang so; the event is set when somebody waits."""
    files.below = below
    try:
        yield files.begun
    finally:
        files.below = None
        files.may_go_on.set()


HUNG = HungCall("exists", 30.0)
WHY = "the call exists has not returned for 30 s"


def test_who_waits_for_a_disk_that_is_given_up_is_told_and_others_are_not_waited_for(tmp_path: Path) -> None:
    async def scenario(opened: Opened) -> None:
        log = await opened.create(1)
        home = opened.directories.home_of(log_key := key(1))
        assert home is not None
        append(log)
        with hanging(opened.files, home.path) as begun:
            waiting = asyncio.ensure_future(home.run(home.files.exists, f"{home.path}/x"))
            behind = asyncio.ensure_future(home.run(log.flush))
            await asyncio.to_thread(begun.wait, 60)
            home.does_not_answer(HUNG)
            for each in (waiting, behind):
                with pytest.raises(StorageFailed, match="exists has not returned for 30 s"):
                    await asyncio.wait_for(each, 60)
            assert opened.told == [home]
            with pytest.raises(StorageFailed, match="has not returned"):
                await opened.directories.open_log(log_key, "flights", SETTINGS)
            with pytest.raises(StorageFailed, match="does not answer"):
                await home.run(log.flush)

    run(tmp_path, scenario)


def test_who_is_cancelled_while_a_disk_is_given_up_is_cancelled(tmp_path: Path) -> None:
    async def scenario(opened: Opened) -> None:
        home = opened.directories.online[0]
        with hanging(opened.files, home.path) as begun:
            waiting = asyncio.ensure_future(home.run(home.files.exists, f"{home.path}/x"))
            await asyncio.to_thread(begun.wait, 60)
            home.does_not_answer(HUNG)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    run(tmp_path, scenario)


@pytest.mark.parametrize("name", ["meta.json", ""])
def test_a_disk_that_hangs_at_the_start_is_offline_and_the_other_works(tmp_path: Path, name: str) -> None:
    """Also while it is asked whose it is, which is before anything is opened."""

    async def main() -> None:
        files = HangingFiles()
        made = [LogDirectory(n, tmp_path / each, files=files) for n, each in enumerate("ab")]
        with hanging(files, f"{tmp_path}/b/{name}") as begun:
            opening = asyncio.ensure_future(LogDirectories.open_all(made, "cluster", 1))
            await asyncio.to_thread(begun.wait, 60)
            made[1].does_not_answer(HUNG)
            directories = await asyncio.wait_for(opening, 60)
            assert (directories.online, directories.offline) == ((made[0],), (made[1],))
            assert (
                made[1].failure
                == f"data directory {tmp_path}/b does not answer: the call exists has not returned for 30 s"
            )
            append(await directories.create_log(key(0), "flights", SETTINGS, True))
            await asyncio.wait_for(directories.close(clean=True), 60)

    asyncio.run(main())


def test_the_broker_ends_where_its_only_disk_hangs_at_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        files = HangingFiles()
        made = [LogDirectory(0, tmp_path, files=files)]
        with hanging(files, str(tmp_path)) as begun:
            opening = asyncio.ensure_future(LogDirectories.open_all(made, "cluster", 1))
            await asyncio.to_thread(begun.wait, 60)
            made[0].does_not_answer(HUNG)
            with pytest.raises(StorageFailed, match="does not answer"):
                await asyncio.wait_for(opening, 60)

    asyncio.run(main())


def test_a_disk_that_hangs_while_the_broker_stops_is_left_as_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        files = HangingFiles()
        made = [LogDirectory(n, tmp_path / each, files=files) for n, each in enumerate("ab")]
        directories = await LogDirectories.open_all(made, "cluster", 1)
        with hanging(files, f"{tmp_path}/b") as begun:
            stuck = asyncio.ensure_future(made[1].run(made[1].files.exists, f"{tmp_path}/b/x"))
            await asyncio.to_thread(begun.wait, 60)
            closing = asyncio.ensure_future(directories.close(clean=True))
            await asyncio.sleep(0)
            made[1].does_not_answer(HUNG)
            await asyncio.wait_for(closing, 60)
            with pytest.raises(StorageFailed):
                await stuck
            assert (tmp_path / "a" / ".clean").exists()
            assert not (tmp_path / "b" / ".clean").exists()

    asyncio.run(main())


def test_a_full_disk_is_no_directory_that_failed(tmp_path: Path) -> None:
    async def scenario(opened: Opened) -> None:
        log = await opened.create(0)
        opened.files.faults.append(Fault("write_at", errno.ENOSPC, where=".log"))
        with pytest.raises(Exception, match="full"):
            append(log)
        opened.directories.look()
        assert opened.told == []
        append(log)

    run(tmp_path, scenario)


# --- what may be in a directory that could not be read ------------------------------------------


def two_lives(tmp_path: Path, second: Callable[[Opened], Awaitable[None]]) -> None:
    """Partitions 0 to 3, of which `b` has 1 and 3; then a life in which `b` does not work."""

    async def first(opened: Opened) -> None:
        for partition in range(4):
            append(await opened.create(partition))

    run(tmp_path, first)
    run(tmp_path, second, faults=[offline_from_the_start(tmp_path, "b")])


def test_a_directory_that_fails_at_the_start_leaves_the_other_working(tmp_path: Path) -> None:
    async def second(opened: Opened) -> None:
        assert [each.path for each in opened.directories.offline] == [f"{tmp_path}/b"]
        assert opened.directories.partitions() == [key(0), key(2)]
        append(await opened.open(0))

    two_lives(tmp_path, second)


def test_the_broker_does_not_start_without_any_directory(tmp_path: Path) -> None:
    async def never(opened: Opened) -> None:
        raise AssertionError(opened)

    with pytest.raises(StorageFailed, match=rf"{tmp_path}/a failed.*{tmp_path}/b failed"):
        run(
            tmp_path,
            never,
            faults=[offline_from_the_start(tmp_path, "a"), offline_from_the_start(tmp_path, "b")],
        )


def test_what_may_be_in_a_directory_that_was_not_read_is_not_begun_anew_elsewhere(tmp_path: Path) -> None:
    async def second(opened: Opened) -> None:
        with pytest.raises(StorageFailed, match=rf"flights-1 is on no disk .* may be in {tmp_path}/b"):
            await opened.create(1, is_first=False)
        assert opened.directories.home_of(key(1)) is None
        assert not (tmp_path / "a" / f"{TOPIC_ID.hex()}-1").exists()

    async def third(opened: Opened) -> None:
        assert (await opened.open(1)).log_end_offset == 1

    two_lives(tmp_path, second)
    run(tmp_path, third)


def test_what_was_there_when_the_broker_started_is_refused_also_if_its_first_leader_still_leads(
    tmp_path: Path,
) -> None:
    """A partition that was never led by another has the first leader epoch for ever."""

    async def second(opened: Opened) -> None:
        with pytest.raises(StorageFailed):
            await opened.create(1, is_first=False)
        with pytest.raises(StorageFailed):
            await opened.create(1, is_first=True)

    two_lives(tmp_path, second)


def test_a_partition_whose_first_leader_is_chosen_now_can_be_in_no_directory_yet(tmp_path: Path) -> None:
    async def second(opened: Opened) -> None:
        append(await opened.create(9, is_first=True))
        assert opened.name_of(9) == "a"

    two_lives(tmp_path, second)


def test_of_a_directory_that_fails_later_it_is_known_what_it_held(tmp_path: Path) -> None:
    async def scenario(opened: Opened) -> None:
        logs = [await opened.create(partition) for partition in range(2)]
        opened.files.faults.append(Fault("write_at", errno.EIO, where=f"{tmp_path}/b/"))
        with pytest.raises(StorageFailed):
            append(logs[1])
        opened.directories.look()
        append(await opened.create(2, is_first=False))

    run(tmp_path, scenario)


# --- quarantine ----------------------------------------------------------------------------------


def test_whoever_wants_the_log_that_is_being_put_aside_gets_a_new_one_afterwards(tmp_path: Path) -> None:
    async def scenario(opened: Opened) -> None:
        old = await opened.create(0)
        append(old)
        opened.files.may_move.clear()
        leaving = opened.directories.quarantine(key(0))
        assert opened.directories.quarantine(key(0)) is leaving
        assert not opened.directories.holds(key(0))
        coming = asyncio.ensure_future(opened.create(0))
        also_coming = asyncio.ensure_future(opened.create(0))
        await asyncio.sleep(0)
        assert not coming.done()
        assert opened.files.moved == []
        opened.files.may_move.set()
        await leaving
        assert len(opened.files.moved) == 1
        new = await coming
        assert await also_coming is new
        assert (new.log_start_offset, new.log_end_offset) == (0, 0)
        assert old.is_closed

    run(tmp_path, scenario)


def test_whoever_waits_for_the_disk_does_not_stand_behind_all_that_is_put_aside(tmp_path: Path) -> None:
    async def scenario(opened: Opened) -> None:
        for partition in range(41):
            append(await opened.create(partition))
        home = opened.directories.home_of(key(0))
        assert home is not None
        there = [each for each in range(1, 41) if opened.directories.home_of(key(each)) is home]
        assert len(there) == 20
        moved = opened.files.moved
        leaving = [opened.directories.quarantine(key(partition)) for partition in there]
        await asyncio.sleep(0)
        assert await home.run(lambda: len(moved)) == 1
        await asyncio.gather(*leaving)
        assert len(moved) == len(there)
        assert sorted(opened.directories.partitions()) == [
            key(each) for each in range(41) if each not in there
        ]

    run(tmp_path, scenario)


def test_what_cannot_be_put_aside_is_still_here(tmp_path: Path) -> None:
    async def scenario(opened: Opened) -> None:
        append(await opened.create(0))
        opened.files.faults.append(Fault("replace", errno.ENOSPC, where="quarantine"))
        with pytest.raises(Exception, match="full"):
            await opened.directories.quarantine(key(0))
        assert opened.directories.partitions() == [key(0)]
        assert (await opened.open(0)).log_end_offset == 1
        await opened.directories.quarantine(key(0))
        assert opened.directories.partitions() == []

    run(tmp_path, scenario)


def test_putting_aside_what_is_not_here_does_nothing(tmp_path: Path) -> None:
    async def scenario(opened: Opened) -> None:
        await opened.directories.quarantine(key(0))
        assert not (tmp_path / "a" / "quarantine").exists()

    run(tmp_path, scenario)
