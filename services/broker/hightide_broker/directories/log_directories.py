"""The data directories of a broker (Kafka's log.dirs): the partitions in each, and what goes offline with it.

Theory of operation. Each directory has a thread of its own, so a disk that hangs or fails delays only the
partitions on it. A new partition goes to the directory with the fewest. A directory that fails is offline
until the broker is started again: it is neither read nor written, and its users get an error, on the event
loop. The broker goes on as long as one directory is left.

If a directory could not be read when the broker started, its content is not known. A partition that is on no
other disk may be in it. Until the directory is back, such a partition is not created elsewhere, unless its
first leader is being chosen just now (`create_log`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, TypeVarTuple

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.ports import DiskThreads, os_threads
from hightide_broker.storage import (
    DamagedLog,
    DataDirectory,
    DirectorySettings,
    Log,
    LogSettings,
    StorageFailed,
    cluster_id_on_disk,
    directory_name,
    refuse_others,
    whose,
)
from hightide_broker.storage.files.files import Files, OsFiles
from hightide_broker.storage.files.hung_calls import CallsUnderWay, HungCall
from hightide_broker.storage.volume.ageing import MachineTime

log = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

NOWHERE: Final = -1
"""The directory number of a partition that is in none."""


class LogDirectory:
    """One data directory with its thread. Made on the event loop, and belongs to its thread."""

    def __init__(
        self, number: int, path: Path, threads: DiskThreads = os_threads, files: Files | None = None
    ) -> None:
        """Touches no file. Threads and files are the operating system's unless given."""
        self.number = number
        """Its position among the --data-dir options, from 0 on."""
        self.path = os.path.abspath(path)
        self.failure: str | None = None
        """Why it is offline; None if it is not."""
        self.executor = threads(1, f"disk-{number}")
        """Runs calls that wait for this disk (open, fsync, recovery, retention, quarantine), one at a
        time."""
        self.putting_aside = asyncio.Lock()
        """One partition at a time, so that an fsync round never waits for thousands of them."""
        self.calls = CallsUnderWay()
        """The calls to the disk, by its threads and the event loop, that are under way."""
        self.files = self.calls.of(files if files is not None else OsFiles())
        """Its files, whose calls are watched."""
        self._opened: DataDirectory | None = None
        self._loop = asyncio.get_running_loop()
        self._given_up: str | None = None
        self._under_way: set[asyncio.Future[Any]] = set()

    def __str__(self) -> str:
        return self.path

    @property
    def data(self) -> DataDirectory:
        """The opened directory. Must not be called if it was offline from the start."""
        assert self._opened is not None, f"{self} was never opened"
        return self._opened

    def opened(self, outcome: DataDirectory | StorageFailed) -> None:
        """Take note that it is open, or cannot be opened."""
        if isinstance(outcome, DataDirectory):
            self._opened = outcome
        else:
            self.failure = str(outcome)

    async def run(self, call: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Run a call on the directory's thread. Raises StorageFailed if the disk is given up meanwhile: the
        thread may wait for it for ever, and the caller must not."""
        if self._given_up is not None:
            raise StorageFailed(self._given_up)
        running = self._loop.run_in_executor(self.executor, call, *arguments)
        self._under_way.add(running)
        try:
            return await running
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.is_given_up or (task is not None and task.cancelling()):
                raise
            raise StorageFailed(str(self._given_up)) from None
        finally:
            self._under_way.discard(running)

    @property
    def is_given_up(self) -> bool:
        """Whether its thread hangs in a call, and no caller waits for it any more."""
        return self._given_up is not None

    def does_not_answer(self, hung: HungCall) -> None:
        """Take note that a call to the disk does not return: the directory is offline, as after an error.
        Called once, on the thread that watches the event loop."""
        reason = f"the call {hung.call} has not returned for {hung.seen_for_s:.0f} s"
        if self._opened is not None:
            self._opened.hangs(reason)
        with suppress(RuntimeError):  # The loop is closed: the broker is as good as gone.
            self._loop.call_soon_threadsafe(self._give_up, f"data directory {self} does not answer: {reason}")

    def _give_up(self, why: str) -> None:
        self._given_up = why
        for running in tuple(self._under_way):
            running.cancel()


class LogDirectories:
    """All data directories of a broker. Made by `open`; belongs to the event loop's thread."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        """Called by `open` with directories that are open or have a `failure`."""
        self.all = tuple(directories)
        self._unread = tuple(each for each in self.all if each.failure is not None)
        self._perhaps_unread: set[PartitionKey] = set()
        self._where: dict[PartitionKey, LogDirectory] = {}
        self._twice: dict[PartitionKey, tuple[LogDirectory, ...]] = {}
        self._leaving: dict[PartitionKey, asyncio.Future[None]] = {}
        self._on_offline: Callable[[LogDirectory], None] | None = None
        self._loop = asyncio.get_running_loop()
        for directory in self.online:
            for key in directory.data.partitions():
                self._found(key, directory)
            directory.data.tell_of_failure(self._look_soon)

    def _found(self, key: PartitionKey, directory: LogDirectory) -> None:
        other = self._where.setdefault(key, directory)
        if other is not directory:
            self._twice[key] = (*self._twice.get(key, (other,)), directory)
            log.error("%s", _in_two(key, other, directory))

    @classmethod
    async def open(
        cls,
        paths: Sequence[Path],
        cluster_id: str,
        broker_id: int,
        files: Files | None = None,
        threads: DiskThreads = os_threads,
        machine: MachineTime | None = None,
    ) -> LogDirectories:
        """Lock and read all directories, each on its thread. One that fails is offline from the start.

        Raises StorageError if one belongs to another broker or cluster (nothing was written to any then), is
        in use, is damaged, or is new and has no room, and if none is left. Files, threads and `machine`,
        which returns the time, are the operating system's unless given.
        """
        made = [LogDirectory(number, path, threads, files) for number, path in enumerate(paths)]
        return await cls.open_all(made, cluster_id, broker_id, threads, machine)

    @classmethod
    async def open_all(
        cls,
        made: Sequence[LogDirectory],
        cluster_id: str,
        broker_id: int,
        threads: DiskThreads = os_threads,
        machine: MachineTime | None = None,
    ) -> LogDirectories:
        """See `open`. The directories are already being watched, so that one that hangs is offline from the
        start, too."""
        share = DirectorySettings().share(len(made))
        refusals: list[BaseException] = []
        try:
            owners = await _of_each(made, lambda each: whose(each.path, cluster_id, broker_id, each.files))
            refuse_others(owners, cluster_id, broker_id)
            outcomes = await asyncio.gather(
                *(each.run(_open, each, cluster_id, broker_id, share, threads, machine) for each in made),
                return_exceptions=True,
            )
            for directory, outcome in zip(made, outcomes, strict=True):
                if isinstance(outcome, DataDirectory | StorageFailed):
                    directory.opened(outcome)
                else:
                    refusals.append(outcome)
            if all(each.failure is not None for each in made):
                refusals.append(StorageFailed("; ".join(str(each.failure) for each in made)))
            for refusal in refusals:
                for outcome in outcomes:
                    if isinstance(outcome, DataDirectory):
                        outcome.close(clean=False)
                raise refusal
        except BaseException:
            for directory in made:
                directory.executor.shutdown(wait=False)
            raise
        for directory in made:
            if directory.failure is not None:
                log.critical("the broker starts without a data directory: %s", directory.failure)
        return cls(made)

    # --- what is where -----------------------------------------------------------------------------

    @property
    def online(self) -> tuple[LogDirectory, ...]:
        """The directories that work, in order."""
        return tuple(each for each in self.all if each.failure is None)

    @property
    def offline(self) -> tuple[LogDirectory, ...]:
        """The directories that failed, at the start or since."""
        return tuple(each for each in self.all if each.failure is not None)

    def partitions(self) -> list[PartitionKey]:
        """The partitions that are on a working disk, or were created since, in order."""
        return sorted(key for key, directory in self._where.items() if directory.failure is None)

    def holds(self, key: PartitionKey) -> bool:
        """Whether the partition is in a directory, which may be offline."""
        return key in self._where

    def home_of(self, key: PartitionKey) -> LogDirectory | None:
        """The partition's directory, which may be offline; None if it is in none."""
        return self._where.get(key)

    def number_of(self, key: PartitionKey) -> int:
        """The position of the partition's directory among the --data-dir options, from 0 on; NOWHERE if it
        has none."""
        home = self._where.get(key)
        return NOWHERE if home is None else home.number

    @property
    def in_two(self) -> frozenset[PartitionKey]:
        """The partitions that were found in two directories, and are served from neither."""
        return frozenset(self._twice)

    @property
    def by_path(self) -> dict[str, LogDirectory]:
        """The directories that could be opened, by the value of `Log.data_directory`."""
        return {each.path: each for each in self.all if each not in self._unread}

    # --- logs --------------------------------------------------------------------------------------

    async def open_log(self, key: PartitionKey, topic: str, settings: LogSettings) -> Log:
        """The log of a partition that is here (`holds`). If it must be recovered, that is done on its
        directory's thread.

        Raises StorageFailed if its directory is offline or it is in two, DiskFull, UnknownLog.
        """
        home = self._where[key]
        if key in self._twice:
            raise StorageFailed(_in_two(key, *self._twice[key][:2]))
        _check_online(home, key, topic)
        opened = await home.run(home.data.log, *key, False, topic, settings)
        # Its user gets an error if it fails from here on. If it failed before, nobody would.
        _check_online(home, key, topic)
        return opened

    async def create_log(
        self, key: PartitionKey, topic: str, settings: LogSettings, is_first_decision: bool
    ) -> Log:
        """Create a log for a partition that is not here, in the directory that has the fewest. If the
        partition is just being put into quarantine, this waits for the end of that.

        `is_first_decision`: the partition's first leader is being chosen, so that no log of it can exist
        anywhere. If a directory could not be read at the start, a log is created only then, and not for a
        partition that was refused before, because that one existed when the broker started. Raises
        StorageFailed, DiskFull.
        """
        while (leaving := self._leaving.get(key)) is not None:
            await asyncio.wait([leaving])
        if key in self._where:
            return await self.open_log(key, topic, settings)  # another decision waited for the same
        if self._unread and (not is_first_decision or key in self._perhaps_unread):
            self._perhaps_unread.add(key)
            raise StorageFailed(
                f"{topic}-{key[1]} is on no disk that could be read, and may be in {self._unread[0]}, which "
                f"is offline: {self._unread[0].failure}; repair it and restart the broker"
            )
        if not self.online:
            raise StorageFailed(f"no data directory is left: {self.all[0].failure}")
        home = min(self.online, key=lambda each: each.data.partition_count)
        made = home.data.log(*key, True, topic, settings)
        self._where[key] = home
        return made

    def quarantine(self, key: PartitionKey) -> asyncio.Future[None]:
        """Put a partition into quarantine that is not assigned here any more; the returned future is done
        when it is there.

        May be called if it is not here. The work is done on its directory's thread; for callers, the
        partition is gone at once. If it cannot be done, the future fails with StorageError: the partition is
        here then as before, with its log closed. No caller has to wait for the future; a failure is logged.
        """
        if (under_way := self._leaving.get(key)) is not None:
            return under_way
        homes = self._twice.pop(key, None) or ((self._where[key],) if key in self._where else ())
        self._where.pop(key, None)
        leaving = self._loop.create_task(self._put_aside(key, homes))
        self._leaving[key] = leaving
        leaving.add_done_callback(lambda done: self._left(key, homes, done))
        return leaving

    async def _put_aside(self, key: PartitionKey, homes: Sequence[LogDirectory]) -> None:
        for home in homes:
            _check_online(home, key, key[0].hex())
            async with home.putting_aside:
                await home.run(home.data.quarantine, *key, home.data.now_us())

    def _left(self, key: PartitionKey, homes: Sequence[LogDirectory], done: asyncio.Future[None]) -> None:
        del self._leaving[key]
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            log.error("partition %d of topic id %s is not put aside: %s", key[1], key[0].hex(), error)
            for home in homes:
                if home.failure is not None or key in home.data.partitions():
                    self._found(key, home)

    # --- what goes offline -------------------------------------------------------------------------

    def tell_of_failures(self, on_offline: Callable[[LogDirectory], None]) -> None:
        """Register a function that is called on the event loop, once for each directory that goes offline."""
        self._on_offline = on_offline
        self.look()

    def tell_of_damage(self, on_damage: Callable[[DamagedLog], None]) -> None:
        """Register a function that is called on the event loop for all damage to logs that is found."""

        def soon(damage: DamagedLog) -> None:
            with suppress(RuntimeError):  # The loop is closed: the broker is as good as gone.
                self._loop.call_soon_threadsafe(on_damage, damage)

        for directory in self.online:
            directory.data.tell_of_damage(soon)

    def look(self) -> None:
        """Find the directories that have failed, and report them. Called after an error, if the caller wants
        the consequences at once. Otherwise they follow in the next turn of the loop."""
        for directory in self.online:
            if directory.data.failed and self._on_offline is not None:
                directory.failure = directory.data.failure
                log.critical(
                    "data directory %s is offline, with %d partitions, until the broker is restarted: %s",
                    directory, directory.data.partition_count, directory.failure,
                )  # fmt: skip
                self._on_offline(directory)

    def _look_soon(self) -> None:
        """Called on any thread, at the first error of a directory."""
        with suppress(RuntimeError):  # The loop is closed: the broker is as good as gone.
            self._loop.call_soon_threadsafe(self.look)

    async def close(self, clean: bool) -> None:
        """Close all, each on its thread. With `clean`, each that works is marked as closed cleanly. Call it
        once.

        One that hangs meanwhile is left as it is when it is given up.
        """
        self._on_offline = None
        for leaving in tuple(self._leaving.values()):
            await asyncio.wait([leaving])
        try:
            await asyncio.gather(*(self._close(each, clean) for each in self.online))
        finally:
            for directory in self.all:
                if directory.failure is not None and directory not in self._unread:
                    # Its thread may hang in a call to the disk. Nobody has to wait for that.
                    directory.executor.submit(directory.data.close, False)
                directory.executor.shutdown(wait=directory.failure is None and not directory.is_given_up)

    async def _close(self, directory: LogDirectory, clean: bool) -> None:
        try:
            await directory.run(directory.data.close, clean)
        except StorageFailed as error:
            if not directory.is_given_up:
                raise
            log.critical("%s; it is not closed, and recovered at the next start", error)


async def cluster_ids(made: Sequence[LogDirectory]) -> frozenset[str]:
    """The clusters that these unopened data directories belong to; more than one if somebody mixed them up.
    One that cannot be read is skipped, because opening it gives the reason. Raises CorruptFile."""
    found = await _of_each(made, lambda each: cluster_id_on_disk(each.path, each.files))
    return frozenset(each for each in found.values() if each is not None)


async def _of_each(made: Sequence[LogDirectory], ask: Callable[[LogDirectory], T]) -> dict[str, T]:
    """The answer of each directory, by path, without those that do not answer."""
    answers = await asyncio.gather(*(each.run(ask, each) for each in made), return_exceptions=True)
    said: dict[str, T] = {}
    for directory, answer in zip(made, answers, strict=True):
        if not isinstance(answer, BaseException):
            said[directory.path] = answer
        elif not (isinstance(answer, StorageFailed) and directory.is_given_up):
            raise answer
    return said


def _open(
    directory: LogDirectory,
    cluster_id: str,
    broker_id: int,
    settings: DirectorySettings,
    threads: DiskThreads,
    machine: MachineTime | None,
) -> DataDirectory:
    return DataDirectory.open(
        Path(directory.path), cluster_id, broker_id, settings, directory.files, machine, threads
    )


def _check_online(home: LogDirectory, key: PartitionKey, topic: str) -> None:
    if home.failure is not None:
        raise StorageFailed(f"{topic}-{key[1]} lives in {home}, which is offline: {home.failure}")


def _in_two(key: PartitionKey, one: LogDirectory, other: LogDirectory) -> str:
    name = directory_name(key)
    return (
        f"partition {key[1]} of topic id {key[0].hex()} is in two data directories: {one}/{name} and "
        f"{other}/{name}; it is not served: stop the broker, move the older one away, start it again"
    )
