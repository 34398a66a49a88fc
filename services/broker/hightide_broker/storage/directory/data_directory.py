"""A directory of a broker's logs: its owner, its content, and how it was left.

Theory of operation. A broker has one or more. Each has its own lock, identity, checkpoints and clean mark, so
that one can fail alone. Which one a partition is in is decided above. After its first I/O error
(`disk_health`) a directory is offline: every call raises StorageFailed and touches no file.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hightide_broker.storage.checkpoints.checkpoint import (
    PartitionCheckpoint,
    PartitionKey,
    decode_checkpoints,
    encode_checkpoints,
)
from hightide_broker.storage.checkpoints.log_marks import LogMark, LogMarks
from hightide_broker.storage.errors import CorruptFile, DamagedLog, DiskFull, StorageError, UnknownLog
from hightide_broker.storage.files.disk_health import DiskHealth
from hightide_broker.storage.files.files import Files, OsFiles
from hightide_broker.storage.files.sealed_file import read_file, write_whole
from hightide_broker.storage.log.log import Log
from hightide_broker.storage.recovery.log_opening import open_log
from hightide_broker.storage.settings import DirectorySettings, LogSettings
from hightide_broker.storage.volume.ageing import AgeingClock, KernelTime, MachineTime
from hightide_broker.storage.volume.identity import (
    DirectoryLock,
    check_identity,
    mark_clean,
    stamp_identity,
    take_clean_mark,
)
from hightide_broker.storage.volume.volume import Volume

__all__ = ["DataDirectory", "PartitionKey"]

log = logging.getLogger(__name__)

_CHECKPOINTS_NAME: Final = "checkpoints"
_TOPIC_ID_SIZE_BYTES: Final = 16
_PARTITION_MAX: Final = 2**31 - 1
_CLOSING_THREADS: Final = 16
_NEVER_WRITTEN_DOWN: Final = PartitionCheckpoint()
_NOW: Final[Mapping[PartitionKey, int]] = {}

Threads = Callable[[int, str], Executor]
"""Makes so many threads, whose names begin with the text."""


class DataDirectory:
    """A locked data directory; made by `open`, given back by `close`.

    Any thread may call any method. A partition is known here from the moment that it is found on disk or its
    log is made until it is put into quarantine; while that goes on, whoever wants its log waits for the end.
    """

    def __init__(
        self,
        path: str,
        volume: Volume,
        lock: DirectoryLock,
        found: _Found,
        boot_id: str,
        threads: Threads,
    ) -> None:
        # The id of this life of the broker, new at each open.
        self.boot_id = boot_id
        # How the last process left it: False after a crash, True for a new directory.
        self.was_closed_cleanly = found.is_clean
        # Whether it is known of each log how far it reached; if not, one that was cut or is gone looks whole.
        self.knows_its_logs = found.knows_its_logs
        # The checkpoints are damaged or gone.
        self.lost_checkpoints = found.lost_checkpoints
        self._path = path
        self._volume = volume
        self._directory_lock = lock
        self._checkpoints = found.checkpoints
        self._marks = found.marks
        self._is_settled = False
        # In quarantine, and not recorded as gone yet.
        self._void = found.void
        # Found on disk, or made since.
        self._known = found.on_disk
        self._threads = threads
        self._logs: dict[PartitionKey, Log] = {}
        self._lock = threading.RLock()
        self._put_aside = threading.Condition(self._lock)
        self._being_put_aside: set[PartitionKey] = set()
        self._checkpoint_lock = threading.Lock()
        self._closed = False

    @classmethod
    def open(
        cls,
        path: Path,
        cluster_id: str,
        broker_id: int,
        settings: DirectorySettings | None = None,
        files: Files | None = None,
        machine: MachineTime | None = None,
        threads: Threads | None = None,
    ) -> DataDirectory:
        """Lock the directory, creating it where it is missing, and read what it knows. Opens no log.

        Called once at the start of a broker. `files`, `machine`, which tells the time, and `threads`, which
        close logs, are the operating system's where not given. Raises DirectoryLocked, WrongCluster,
        WrongBroker, CorruptFile, StorageFailed, DiskFull.
        """
        files = files if files is not None else OsFiles()
        root = os.path.abspath(path)
        with DiskHealth(root):
            _make_root(files, root)
            clock = AgeingClock.open(files, root, machine if machine is not None else KernelTime())
            lock = DirectoryLock(files, root)
            try:
                is_new = check_identity(files, root, cluster_id, broker_id)
                boot_id = stamp_identity(files, root, cluster_id, broker_id)
                found = _find(files, root, is_new)
            except (StorageError, OSError):
                lock.release()
                raise
        volume = Volume.make(root, files, settings if settings is not None else DirectorySettings(), clock)
        opened = cls(
            root,
            volume,
            lock,
            found,
            boot_id,
            threads=threads if threads is not None else _system_threads,
        )
        if is_new:
            # At once: a wall that jumps before it is written down would be believed at the next start.
            try:
                opened.write_time(at_once=True)
            except StorageError:
                lock.release()
                raise
        return opened

    @property
    def path(self) -> str:
        """The path of the directory."""
        return self._path

    def now_us(self) -> int:
        """The time by which the records here grow old (`ageing`), in microseconds."""
        return self._volume.clock.now_us()

    def write_time(self, *, at_once: bool = False) -> None:
        """Write that time down, where the last time was minutes ago or `at_once`. Call it in a thread, after
        retention. Raises StorageFailed. On a full disk a later call does it.
        """
        try:
            with self._volume.disk:
                self._volume.clock.write(at_once=at_once)
        except DiskFull as full:
            log.warning("the time of %s is written down later: %s", self._path, full)

    @property
    def failed(self) -> bool:
        """Whether there was an I/O error, after which nothing is read or written any more."""
        return self._volume.disk.failed

    @property
    def failure(self) -> str | None:
        """The I/O error that took it offline; None if there was none."""
        return self._volume.disk.failure

    def tell_of_failure(self, on_failure: Callable[[], None]) -> None:
        """Register a function that is called once when the directory goes offline, on the thread that got the
        error."""
        self._volume.disk.tell(on_failure)

    def hangs(self, reason: str) -> None:
        """Take the directory offline, as after an error: a call to the disk does not return. Any thread."""
        self._volume.disk.fail(OSError(errno.ETIMEDOUT, reason))

    def tell_of_damage(self, on_damage: Callable[[DamagedLog], None]) -> None:
        """Register a function that is called for all damage to a log, on the thread that found it."""
        self._volume.damage.tell(on_damage)

    @property
    def partition_count(self) -> int:
        """How many partitions are here."""
        return len(self._known)

    def partitions(self) -> list[PartitionKey]:
        """The partitions found on disk or opened since, in order."""
        with self._lock:
            return sorted(self._known)

    def log(
        self, topic_id: bytes, partition: int, create: bool, topic_name: str, settings: LogSettings
    ) -> Log:
        """The log of a partition; opened on first use, recovered where it was not closed cleanly.

        With `create`, a partition that is not on disk is made; nothing is written for it before its first
        append, so making 10,000 is cheap. Recovery after a crash reads what is past the recovery point:
        call it in a thread where the partition is in `partitions()`. Raises UnknownLog, StorageFailed,
        DiskFull.
        """
        assert len(topic_id) == _TOPIC_ID_SIZE_BYTES
        assert 0 <= partition <= _PARTITION_MAX
        key = (topic_id, partition)
        with self._lock:
            assert not self._closed
            self._put_aside.wait_for(lambda: key not in self._being_put_aside)
            self._volume.disk.check_usable()
            opened = self._logs.get(key)
            if opened is not None:
                return opened
            if not create and key not in self._known:
                raise UnknownLog(
                    f"{topic_name}-{partition} (topic id {topic_id.hex()}) is not in {self._path}"
                )
        if key in self._void:
            # Records about an earlier log of this name must not be held against this one.
            with self._checkpoint_lock, self._volume.disk:
                self._write_checkpoints({}, clean=frozenset())
        # Opened outside of the lock, since recovery may take long; two threads do not open the same log.
        mark = self._marks.of(key)
        try:
            made = open_log(
                self._volume,
                f"{self._path}/{directory_name(key)}",
                topic_id,
                partition,
                topic_name,
                settings,
                self._checkpoints.get(key, _NEVER_WRITTEN_DOWN),
                mark,
                # A log that never had a record need not be looked for: ten thousand empty logs have no
                # directory.
                may_have_directory=key in self._known or mark.promised is not None,
            )
        except StorageError:
            self._marks.give_back(mark)  # The next attempt must find what this one must have found.
            raise
        with self._lock:
            assert key not in self._logs, f"{made!r} was opened twice at once"
            self._logs[key] = made
            self._known.add(key)
        if self._is_settled and made.lost_data:
            self._settle([made])
        return made

    def checkpoint_high_watermarks(
        self, high_watermarks: Mapping[PartitionKey, int], latest_epochs: Mapping[PartitionKey, int] = _NOW
    ) -> None:
        """Store these high watermarks with every log's recovery point. Call it in a thread, every 5 s.

        `latest_epochs` are those of the logs when the high watermarks were read, for each log that may have
        been truncated since. Partitions that are left out keep what they had. Raises StorageFailed, DiskFull.
        """
        with self._checkpoint_lock, self._volume.disk:
            self._write_checkpoints(high_watermarks, latest_epochs, clean=frozenset())

    def _write_checkpoints(
        self,
        high_watermarks: Mapping[PartitionKey, int],
        latest_epochs: Mapping[PartitionKey, int] = _NOW,
        *,
        clean: frozenset[PartitionKey],
    ) -> bytes:
        """Write the file anew; give its bytes. Under the checkpoint lock."""
        with self._lock:
            logs = dict(self._logs)
            checkpoints = dict(self._checkpoints)
            void = frozenset(self._void)
        for key, opened in logs.items():
            before = checkpoints.get(key, _NEVER_WRITTEN_DOWN)
            high_watermark, latest = high_watermarks.get(key), latest_epochs.get(key)
            if high_watermark is None:
                high_watermark, latest = before.high_watermark, before.latest_epoch
            checkpoints[key] = opened.promises.checkpoint(high_watermark, latest, is_clean=key in clean)
        data = encode_checkpoints(checkpoints)
        write_whole(self._volume.files, f"{self._path}/{_CHECKPOINTS_NAME}", data, durable=True)
        for key, opened in logs.items():
            opened.recovery_point_checkpoint = checkpoints[key].recovery_point
        with self._lock:
            self._void -= void
            # A partition that went into quarantine meanwhile stays gone.
            self._checkpoints = {
                key: entry
                for key, entry in checkpoints.items()
                if key in self._logs or key in self._checkpoints
            }
        return data

    def quarantine(self, topic_id: bytes, partition: int, now_us: int) -> None:
        """Put a partition aside that is no longer assigned here; its log is closed. `now_us` is
        of `now_us()`.

        Harmless where there is no such partition. It renames and syncs: call it in a thread. From its first
        moment on the old log is closed; `log` for the same partition waits until it is over, and begins
        anew. Raises StorageFailed, DiskFull; the partition is then still here, to be put aside later.
        """
        key = (topic_id, partition)
        with self._lock:
            self._put_aside.wait_for(lambda: key not in self._being_put_aside)
            self._being_put_aside.add(key)
            opened = self._logs.pop(key, None)
            checkpoint = self._checkpoints.pop(key, None)
            self._void.add(key)
        mark = self._marks.of(key) if opened is None else opened.promises.mark
        try:
            if opened is not None:
                opened.abandon()
            with self._volume.disk:
                name = directory_name(key)
                if self._volume.files.exists(f"{self._path}/{name}"):
                    self._volume.quarantine.take(name, now_us)
                mark.clear()
            self._known.discard(key)
        except StorageError:
            # It is opened again perhaps, and then must have what it had.
            with self._lock:
                self._marks.give_back(mark)
                if checkpoint is not None:
                    # An open log is not as the last process left it.
                    is_clean = checkpoint.is_clean and opened is None
                    self._checkpoints[key] = replace(checkpoint, is_clean=is_clean)
                self._void.discard(key)
            raise
        finally:
            with self._lock:
                self._being_put_aside.discard(key)
                self._put_aside.notify_all()

    def is_missing(self, topic_id: bytes, partition: int) -> bool:
        """Whether it had a non-empty log that is not here any more. Called before it is opened."""
        mark = self._marks.promised((topic_id, partition))
        return (topic_id, partition) not in self._known and mark is not None and mark.end_offset > 0

    def acks_were_synced(self, topic_id: bytes, partition: int) -> bool:
        """Whether all that was acknowledged of a log was on disk before, as far as was written down. One that
        never was has acknowledged nothing."""
        key = (topic_id, partition)
        checkpoint = self._checkpoints.get(key)
        return key not in self._known if checkpoint is None else checkpoint.is_synced

    def settle(self) -> None:
        """Take note that the losses of logs have been handled, and do not count against them any more. Raises
        StorageFailed."""
        self._is_settled = True
        logs = tuple(self._logs.values())
        for opened in logs:
            if not opened.lost_data and not opened.promises.mark.exists:
                opened.promises.settle()  # The marks are lost, and none of them has been written again.
        self._settle([opened for opened in logs if opened.lost_data])

    def _settle(self, lost: Sequence[Log]) -> None:
        """Let no later life hold against these logs, or hide of them, what they had."""
        for opened in lost:
            opened.promises.settle()
        if lost:
            # On a full disk the next checkpoint does it.
            with suppress(DiskFull), self._checkpoint_lock, self._volume.disk:
                self._write_checkpoints({}, clean=frozenset())

    def delete_expired_quarantine(self, now_us: int) -> list[str]:
        """Delete what was put aside longer than the grace period before `now_us`; give the names deleted.
        `now_us` is of `now_us()`. Call it in a thread. Raises StorageFailed."""
        grace_us = self._volume.settings.quarantine_grace_ms * 1000
        with self._volume.disk:
            return self._volume.quarantine.delete_expired(now_us, grace_us)

    def machine_boot(self) -> str:
        """Which boot of the machine this is; empty where it does not say."""
        return self._volume.files.machine_boot()

    # --- notes ---------------------------------------------------------------------------------------------

    def read_note(self, name: str) -> bytes | None:
        """A small file that is kept beside the logs; None where it is missing. Raises StorageFailed."""
        path = f"{self._path}/{name}"
        with self._volume.disk:
            return read_file(self._volume.files, path) if self._volume.files.exists(path) else None

    def write_note(self, name: str, contents: bytes) -> None:
        """Write it whole and durably. Raises StorageFailed, DiskFull: it is then as it was."""
        with self._volume.disk:
            write_whole(self._volume.files, f"{self._path}/{name}", contents, durable=True)

    def remove_note(self, name: str) -> None:
        """Remove it durably, which needs no room; does nothing if it is missing. Raises StorageFailed."""
        path = f"{self._path}/{name}"
        with self._volume.disk:
            if self._volume.files.exists(path):
                self._volume.files.remove(path)
                self._volume.files.sync_directory(self._path)

    def try_to_remove_note(self, name: str) -> None:
        """Try it once, also after the directory has failed: the one thing that is tried then. Raises
        nothing."""
        try:
            self._volume.files.remove(f"{self._path}/{name}")
        except OSError as error:
            log.warning("%s/%s could not be removed: %s", self._path, name, error)

    # -------------------------------------------------------------------------------------------------------

    def close(self, clean: bool = True, high_watermarks: Mapping[PartitionKey, int] | None = None) -> None:
        """Close all logs, write the checkpoint and, if `clean` and nothing failed, the clean-shutdown mark;
        unlock.

        May be called twice. Raises nothing if a disk failed: the logs are recovered at the next start.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if clean and not self.failed:
                self._close_cleanly(high_watermarks or {})
        except StorageError as error:
            log.error("data directory %s was not closed cleanly: %s", self._path, error)
        finally:
            for opened in self._logs.values():
                opened.abandon()
            self._volume.open_files.close()
            self._marks.close()
            self._directory_lock.release()

    def _close_cleanly(self, high_watermarks: Mapping[PartitionKey, int]) -> None:
        # Each log waits for the disk; many at once share its commits.
        with self._threads(_CLOSING_THREADS, "close-log") as closing:
            for done in [closing.submit(opened.close) for opened in self._logs.values()]:
                done.result()
        with self._checkpoint_lock, self._volume.disk:
            data = self._write_checkpoints(high_watermarks, clean=frozenset(self._logs))
            mark_clean(self._volume.files, self._path, data)
        self.write_time(at_once=True)


def directory_name(key: PartitionKey) -> str:
    """The name of a partition's directory. No name from outside becomes a path."""
    return f"{key[0].hex()}-{key[1]}"


def _find_partitions(files: Files, root: str) -> set[PartitionKey]:
    """The partitions that have a directory. What has another name, or is a link, is none of ours."""
    found = set()
    for name in files.directories(root):
        topic_id_hex, _, partition = name.partition("-")
        if len(topic_id_hex) != 2 * _TOPIC_ID_SIZE_BYTES or not (partition.isascii() and partition.isdigit()):
            continue
        try:
            key = (bytes.fromhex(topic_id_hex), int(partition))
        except ValueError:
            continue
        if directory_name(key) == name and key[1] <= _PARTITION_MAX:
            found.add(key)
    return found


@dataclass(frozen=True, slots=True)
class _Found:
    """What the last life of the broker left."""

    checkpoints: dict[PartitionKey, PartitionCheckpoint]
    marks: LogMarks
    on_disk: set[PartitionKey]
    void: set[PartitionKey]
    is_clean: bool
    knows_its_logs: bool
    lost_checkpoints: bool


def _find(files: Files, root: str, is_new: bool) -> _Found:
    on_disk = _find_partitions(files, root)
    is_new &= not on_disk
    if is_new:
        # So that they are never missing but by damage.
        write_whole(files, f"{root}/{_CHECKPOINTS_NAME}", encode_checkpoints({}), durable=True)
    checkpoints, is_clean = _load_checkpoints(files, root)
    is_clean |= is_new
    known = checkpoints or {}
    promised = {
        key: LogMark(entry.start_offset, entry.end_offset, entry.latest_epoch)
        for key, entry in known.items()
        if entry.end_offset > 0
    }
    marks, hold = LogMarks.open(files, root, promised, is_known=is_clean)
    void: set[PartitionKey] = set()
    if hold:
        # What has no mark was put aside since; the entry is of a log that had the name before. Marks hold for
        # this boot only.
        void = {key for key in promised if marks.promised(key) is None}
        known = {key: entry for key, entry in known.items() if marks.promised(key) is not None}
    return _Found(known, marks, on_disk, void, is_clean, is_clean or hold, checkpoints is None)


def _make_root(files: Files, root: str) -> None:
    """Make the directory, and let the disk know of it: what is synced in one that is gone is gone, too."""
    made = []
    missing = root
    while not files.exists(missing):
        made.append(missing)
        missing = os.path.dirname(missing)
    files.make_directory(root)
    for each in reversed(made):
        files.sync_directory(os.path.dirname(each))


def _load_checkpoints(files: Files, root: str) -> tuple[dict[PartitionKey, PartitionCheckpoint] | None, bool]:
    """The checkpoints, and whether they are those of a clean shutdown. None: they are damaged or gone."""
    path = f"{root}/{_CHECKPOINTS_NAME}"
    data = read_file(files, path) if files.exists(path) else b""
    is_clean = take_clean_mark(files, root, data)
    try:
        checkpoints = decode_checkpoints(data)
    except CorruptFile as error:
        log.error("%s is damaged or gone (%s): every log is recovered from its start", path, error)
        return None, False
    if not is_clean:
        # Whoever wrote these appended more afterwards.
        checkpoints = {key: replace(entry, is_clean=False) for key, entry in checkpoints.items()}
    return checkpoints, is_clean


def _system_threads(count: int, name: str) -> Executor:
    return ThreadPoolExecutor(count, thread_name_prefix=name)
