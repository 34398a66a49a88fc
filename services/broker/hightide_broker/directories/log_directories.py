"""The data directories of a broker (Kafka's log.dirs): what lives in which, and what goes offline when.

Theory of operation. Each directory has a thread of its own, so that a disk that hangs or fails holds up
nobody but those who live there. A new partition goes to the directory with the fewest. A directory that fails
is offline until the broker is started again: nothing is read from it or written to it, and whoever asked is
told, on the event loop. The broker goes on as long as one is left.

What lives in a directory that could not be read when the broker started is not known. Until it is back, a
partition that is on no other disk may be there: it is not begun anew elsewhere, unless its first leader is
being chosen just now (`create_log`).
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
from hightide_broker.ports import Threads, os_threads
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
from hightide_broker.storage.directory.ageing import MachineTime
from hightide_broker.storage.files.files import Files, OsFiles
from hightide_broker.storage.files.hung_calls import CallsUnderWay, HungCall

log = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

NOWHERE: Final = -1
"""The number of the directory of a partition that is in none."""


class LogDirectory:
    """One data directory with its thread. Made on the event loop, and belongs to its thread."""

    def __init__(
        self, number: int, path: Path, threads: Threads = os_threads, files: Files | None = None
    ) -> None:
        """Touches no file. Threads and files are the operating system's where not given."""
        self.number = number
        """Its place among the --data-dir, from 0 on."""
        self.path = os.path.abspath(path)
        self.failure: str | None = None
        """Why it is offline; None where it is not."""
        self.executor = threads(1, f"disk-{number}")
        """Runs what waits for this disk (open, fsync, recovery, retention, quarantine), one at a time."""
        self.putting_aside = asyncio.Lock()
        """One partition at a time, so that an fsync round never stands behind thousands of them."""
        self.calls = CallsUnderWay()
        """What its threads, and the event loop, ask of the disk just now."""
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
        """The directory itself. Not to be asked for where it was offline from the start."""
        assert self._opened is not None, f"{self} was never opened"
        return self._opened

    def opened(self, outcome: DataDirectory | StorageFailed) -> None:
        """It is open, or cannot be."""
        if isinstance(outcome, DataDirectory):
            self._opened = outcome
        else:
            self.failure = str(outcome)

    async def run(self, call: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Run it on the directory's thread. Raises StorageFailed where the disk is given up meanwhile: the
        thread may wait for it for ever, and nobody else has to."""
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
        """Whether its thread hangs in a call, and nobody waits for it any more."""
        return self._given_up is not None

    def does_not_answer(self, hung: HungCall) -> None:
        """A call to the disk does not return: the directory is offline, as after an error. Called on the
        thread of the pulse, once."""
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
    """All of a broker's. Made by `open`; belongs to the event loop's thread."""

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
        threads: Threads = os_threads,
        machine: MachineTime | None = None,
    ) -> LogDirectories:
        """Lock and read all of them, each on its thread. One that fails is offline from the start.

        Raises StorageError where one belongs to somebody else (nothing was written to any then), is in use,
        is damaged or is new and has no room, and where none is left. Files, threads and `machine`,
        which tells the time, are the operating system's where not given.
        """
        made = [LogDirectory(number, path, threads, files) for number, path in enumerate(paths)]
        return await cls.open_all(made, cluster_id, broker_id, threads, machine)

    @classmethod
    async def open_all(
        cls,
        made: Sequence[LogDirectory],
        cluster_id: str,
        broker_id: int,
        threads: Threads = os_threads,
        machine: MachineTime | None = None,
    ) -> LogDirectories:
        """See `open`: of directories that somebody watches already, so that one that hangs is offline from
        the start, too."""
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
        """Those that work, in order."""
        return tuple(each for each in self.all if each.failure is None)

    @property
    def offline(self) -> tuple[LogDirectory, ...]:
        """Those that failed, at the start or since."""
        return tuple(each for each in self.all if each.failure is not None)

    def partitions(self) -> list[PartitionKey]:
        """The partitions that are on a disk that works, or were made since, in order."""
        return sorted(key for key, directory in self._where.items() if directory.failure is None)

    def holds(self, key: PartitionKey) -> bool:
        """Whether the partition is in a directory; that may be offline."""
        return key in self._where

    def home_of(self, key: PartitionKey) -> LogDirectory | None:
        """The directory that the partition lives in, which may be offline; None where it is in none."""
        return self._where.get(key)

    def number_of(self, key: PartitionKey) -> int:
        """The place of the partition's directory among the --data-dir, from 0 on; NOWHERE."""
        home = self._where.get(key)
        return NOWHERE if home is None else home.number

    @property
    def in_two(self) -> frozenset[PartitionKey]:
        """The partitions that were found in two directories, and are served from neither."""
        return frozenset(self._twice)

    @property
    def by_path(self) -> dict[str, LogDirectory]:
        """Those that could be opened, by what `Log.data_directory` says."""
        return {each.path: each for each in self.all if each not in self._unread}

    # --- logs --------------------------------------------------------------------------------------

    async def open_log(self, key: PartitionKey, topic: str, settings: LogSettings) -> Log:
        """The log of a partition that is here (`holds`); recovered, if it must be, on its directory's thread.

        Raises StorageFailed where its directory is offline or it is in two, DiskFull, UnknownLog.
        """
        home = self._where[key]
        if key in self._twice:
            raise StorageFailed(_in_two(key, *self._twice[key][:2]))
        _check_online(home, key, topic)
        opened = await home.run(home.data.log, *key, False, topic, settings)
        # Whoever hosts it from here on is told if it fails; of what failed meanwhile nobody would be.
        _check_online(home, key, topic)
        return opened

    async def create_log(
        self, key: PartitionKey, topic: str, settings: LogSettings, is_first_decision: bool
    ) -> Log:
        """A log for a partition that is not here, in the directory that has the fewest. Waits for the end of
        its quarantine, where it is just being put aside.

        `is_first_decision`: the partition's first leader is being chosen, so that there can be no log of it
        anywhere. Where a directory could not be read at start, only then is it made; and not for what was
        refused before, since that was there when the broker started. Raises StorageFailed, DiskFull.
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
        """Put a partition aside that is not assigned here any more; what comes back is done when it is.

        Harmless where it is not here. It is on its directory's thread that this happens; here the partition
        is gone at once. The future fails with StorageError where it could not be done: the partition is here
        then as before, with its log closed. Nobody has to wait for it; a failure is logged.
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
        """Have this called for each directory that goes offline, on the event loop, once."""
        self._on_offline = on_offline
        self.look()

    def tell_of_damage(self, on_damage: Callable[[DamagedLog], None]) -> None:
        """Have this called for all damage to logs that is met, on the event loop."""

        def soon(damage: DamagedLog) -> None:
            with suppress(RuntimeError):  # The loop is closed: the broker is as good as gone.
                self._loop.call_soon_threadsafe(on_damage, damage)

        for directory in self.online:
            directory.data.tell_of_damage(soon)

    def look(self) -> None:
        """See which directories have failed, and tell of them. Called by whoever met an error and wants the
        consequences at once; they come with the loop's next turn anyhow."""
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
        """Close all, each on its thread; with `clean`, each that works is marked as closed cleanly. Once.

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
                    # Its thread may hang in a call to the disk, which nobody has to wait for.
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
    """The clusters that these data directories, not open yet, belong to; more than one where somebody mixed
    them up. One that cannot be read is passed over: opening it says why. Raises CorruptFile."""
    found = await _of_each(made, lambda each: cluster_id_on_disk(each.path, each.files))
    return frozenset(each for each in found.values() if each is not None)


async def _of_each(made: Sequence[LogDirectory], ask: Callable[[LogDirectory], T]) -> dict[str, T]:
    """What each says of itself, by path, but for those that do not answer."""
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
    threads: Threads,
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
