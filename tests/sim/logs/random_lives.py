"""A random schedule of one log: lives of a data directory on files that forget what was not synced.

Kills come between any two calls to the files, power cuts at any time, and the disk may be full. In each life
the log must hold what it held before, or say that it lost data.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from hightide_broker.storage.directory.data_directory import DataDirectory
from hightide_broker.storage.errors import DamagedLog, DiskFull
from hightide_broker.storage.log.log import Log
from hightide_broker.storage.settings import DirectorySettings, LogSettings
from log_rig import KEY, read_all
from sim.topics.damage import DAMAGES, damage
from sim.topics.files import MemoryDisk, MemoryFiles
from stored_batches import as_sent_by_leader, headers_of, make_batch

ORDERS: Final = 40
SHARED: Final = DirectorySettings(open_files_max=2, tail_bytes_max=1000, tail_bytes_per_log_max=1000)
SETTINGS: Final = LogSettings(segment_bytes=700, index_interval_bytes=200, retention_ms=-1)
ODDS: Final = {
    "append": 10, "replicate": 6, "elect": 2, "flush": 5, "checkpoint": 3, "truncate": 3, "begin_anew": 2,
    "delete_records": 2, "retain": 2, "roll": 1, "fill": 1, "make_room": 2, "put_aside": 1,
    "stop": 1, "kill": 2, "cut_power": 2, "damage": 1,
}  # fmt: skip
DRAWN: Final = (
    "fill",
    "cut_power",
    "begin_anew",
    "delete_records",
    "put_aside",
    "truncate",
    "retain",
    "damage",
)
"""Whose odds differ from schedule to schedule."""
ROOMS_BYTES: Final = (0, 0, 64, 100, 300, 700)


class Killed(BaseException):
    """The process dies here."""


class BrokenPromise(AssertionError):
    """The log is not what it was, and does not say so."""


class MortalFiles(MemoryFiles):
    """Files of a process that dies within one of its next calls."""

    dies_in: int | None = None
    """So many calls from now on; None: in none of them."""

    def _check(self, path: str) -> None:
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                raise Killed
        super()._check(path)


class AtOnce(Executor):
    """Threads that do everything at once."""

    def submit(self, fn: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Done when it returns."""
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*arguments, **named))
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            done.set_exception(error)
        return done


@dataclass(frozen=True)
class Batch:
    """One batch; the CRC covers what no leader changes."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    crc: int


@dataclass(frozen=True)
class Contents:
    """What a log holds, with batches below its start that are perhaps not deleted yet."""

    start: int = 0
    end: int = 0
    batches: tuple[Batch, ...] = ()

    def cut(self, offset: int) -> Contents:
        """Without what lies at an offset or behind it, in whole batches."""
        kept = tuple(each for each in self.batches if each.end_offset <= offset)
        if kept and kept[-1].end_offset >= self.start:
            return Contents(self.start, kept[-1].end_offset, kept)
        return Contents(self.start, self.start)

    def read(self, start: int, end: int) -> tuple[Batch, ...]:
        """The batches that end between these offsets."""
        return tuple(each for each in self.batches if start < each.end_offset <= end)


class Lives:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.disk = MemoryDisk(["/d"])
        self.story: list[str] = []
        self.now_us = 1_700_000_000_000_000
        self.epoch = 0
        self.values = 0
        self.led_epoch = -1
        self.now = Contents()
        self.next = self.now
        """What it is when the order that is under way is carried out."""
        self.durable = Contents()
        """What no power cut may take."""
        self.start_min = 0
        """The log may begin there in the next life, or later."""
        self.seen_from = 0
        """What lies below was deleted before this life, and may be there again if it begins anew further
        down."""
        self.history = [self.now]
        """What it was, at some time since the last power cut."""
        self.torn: list[Contents] = []
        """What it was while an append wrote some of its batches that then found no room."""
        self.was_full = False
        """Whether the disk was full in this life."""
        self.may_be_less = False
        """Whether the order that is under way gives up records on purpose."""
        self.losses = 0
        """How often it said that it lost data."""
        self.odds = {
            name: odds * self.rng.choice((0, 1, 1, 3)) if name in DRAWN else odds
            for name, odds in ODDS.items()
        }
        self.mortality = self.rng.choice((0.0, 0.1, 0.3))

    def run(self) -> None:
        """All of it. Raises BrokenPromise."""
        self._open()
        for name in self.rng.choices(list(self.odds), list(self.odds.values()), k=ORDERS):
            self._order(name)
        self._order("kill")

    def _order(self, name: str) -> None:
        self.files.dies_in = self.rng.randrange(20) if self.rng.random() < self.mortality else None
        self.next, self.may_be_less = self.now, False
        try:
            getattr(self, f"_{name}")()
        except DiskFull:
            self.story.append("  no room")
            self.next = self.now
        except Killed:
            self.story.append("  killed in the middle")
            self._end(power=self.rng.random() < 0.3 and self.odds["cut_power"] > 0)
        self.files.dies_in = None
        self.now = self.next
        self._remember(self.now)
        if (self.log.log_start_offset, self.log.log_end_offset) != (self.now.start, self.now.end):
            self._broken(f"in memory it is {self.log!r}, not {self.now}")

    def _remember(self, contents: Contents) -> None:
        if contents != self.history[-1]:
            self.history.append(contents)

    def _broken(self, why: str) -> None:
        raise BrokenPromise("\n".join((why, *self.story[-60:])))

    # --- what happens to it ------------------------------------------------------------------------

    def _batches(self, epochs: tuple[int, ...]) -> tuple[bytes, ...]:
        """Some batches as producers make them, each of which goes into the next of these epochs."""
        made, end, batches = [], self.now.end, list(self.now.batches)
        for epoch in epochs:
            self.values += 1
            count = self.rng.randint(1, 3)
            batch = make_batch(count, bytes([self.values % 256]) * self.rng.choice((0, 20, 100)))
            made.append(batch)
            batches.append(Batch(end, end + count, epoch, headers_of(batch)[0].crc))
            end += count
        self.next = Contents(self.now.start, end, tuple(batches))
        return tuple(made)

    def _tear(self) -> None:
        new = self.next.batches[len(self.now.batches) : -1]
        self.torn += [self.next.cut(each.end_offset) for each in new]

    def _written(self, epoch: int) -> None:
        """Records of this epoch were appended: what was torn in it, or a later one, does not come back."""
        self.torn = [each for each in self.torn if each.batches[-1].leader_epoch < epoch]

    def _append(self) -> None:
        self.epoch = max(self.epoch, self.log.epochs.latest, 0)
        made = b"".join(self._batches((self.epoch,) * self.rng.choice((1, 1, 2, 3))))
        self.story.append(f"append {self.now.end} to {self.next.end} in epoch {self.epoch}")
        self.led_epoch = self.epoch
        try:
            self.log.append_as_leader(made, headers_of(made), self.epoch)
        except DiskFull:
            self._tear()
            raise
        self._written(self.epoch)

    def _replicate(self) -> None:
        # Nobody else has records of an epoch in which this one led.
        first = max(self.epoch, self.log.epochs.latest, self.led_epoch + 1)
        epochs = tuple(first + self.rng.choice((0, 0, 1)) * place for place in range(self.rng.randint(1, 3)))
        epochs = tuple(sorted(epochs))
        sent, offset = b"", self.now.end
        for batch, epoch in zip(self._batches(epochs), epochs, strict=True):
            sent += as_sent_by_leader(batch, offset, epoch)
            offset += headers_of(batch)[0].record_count
        self.story.append(f"replicate {self.now.end} to {self.next.end} in epochs {epochs}")
        self.epoch = epochs[-1]
        try:
            self.log.append_as_follower(sent)
        except DiskFull:
            self._tear()
            self.epoch += 1  # No other leader has records of this one's epoch.
            raise
        self._written(epochs[0])

    def _elect(self) -> None:
        self.epoch = max(self.epoch, self.log.epochs.latest) + 1
        self.story.append(f"elect in epoch {self.epoch}")
        self.log.assign_epoch(self.epoch, self.now.end)

    def _flush(self) -> None:
        self.story.append("flush")
        assert self.log.flush() == self.now.end
        self.seen_from = 0
        self.durable = replace(self.now, start=self.start_min)

    def _checkpoint(self) -> None:
        high_watermark = self.rng.randint(self.now.start, self.now.end)
        self.story.append(f"checkpoint {high_watermark}")
        self.directory.checkpoint_high_watermarks({KEY: high_watermark})

    def _truncate(self) -> None:
        offset, durable = self.rng.randint(self.now.start, self.now.end), self.rng.random() < 0.3
        self.story.append(f"truncate to {offset}{' durably' if durable else ''}")
        self.next = self.now.cut(offset)
        self.durable = self.durable.cut(self.next.end)
        # It goes on at its start if that lies within the batch which goes, and is cut before that first.
        self.may_be_less = not self.next.batches
        self.epoch += 1
        self.log.truncate_to(offset, durable=durable)

    def _begin_anew(self) -> None:
        now = self.now
        offset = self.rng.choice((0, now.start, now.end, now.end + 2, self.rng.randint(0, now.end)))
        self.story.append(f"begin anew at {offset}")
        self.next = Contents(offset, offset)
        # If it dies before anything is deleted.
        self._remember(replace(now, start=max(now.start, offset)))
        self.durable, self.may_be_less = Contents(), offset < now.start
        self.seen_from = max(self.seen_from, now.start)
        self.start_min = 0  # The file that says so is replaced, and is not durable before a flush.
        self.epoch += 1
        self.log.truncate_and_start_at(offset)

    def _delete_records(self) -> None:
        offset = self.rng.randint(self.now.start, self.now.end)
        self.story.append(f"delete records before {offset}")
        self._move_start(offset)
        self.log.persist_start()
        self.start_min = max(self.start_min, offset)
        self.log.delete_before_start()

    def _retain(self) -> None:
        keep_bytes = self.rng.choice((0, 500, 1000))
        high_watermark = self.rng.randint(self.now.start, self.now.end)
        self.story.append(f"retain {keep_bytes} bytes of what lies below {high_watermark}")
        self.log.update_settings(replace(SETTINGS, retention_bytes=keep_bytes))
        found = self.log.find_expired(self.directory.now_us(), high_watermark)
        self.log.update_settings(SETTINGS)
        if found is not None:
            self._move_start(found.start_offset)
            self.log.delete_before_start(found.reasons)

    def _move_start(self, offset: int) -> None:
        self.log.move_start(offset)
        self.now = self.next = replace(self.now, start=offset)
        self._remember(self.now)

    def _roll(self) -> None:
        self.story.append("roll")
        self.log.roll()

    def _fill(self) -> None:
        self.was_full = True
        self.disk.room["/d"] = self.rng.choice(ROOMS_BYTES)
        self.story.append(f"the disk has room for {self.disk.room['/d']}")

    def _make_room(self) -> None:
        if self.disk.room:
            self.story.append("the disk has room")
            self.disk.room.clear()

    def _put_aside(self) -> None:
        self.story.append("put aside")
        self.next, self.may_be_less = Contents(), True
        self.durable, self.start_min = Contents(), 0
        try:
            self.directory.quarantine(*KEY, self.directory.now_us())
        except DiskFull:
            self._open_log()
            self.now = self._read()
            raise
        self._open_log()
        self.history, self.torn = [self.next], []

    # --- lives -------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self.story.append("stop")
        self.directory.close(True, {KEY: self.now.start})
        self._begin("stop")

    def _kill(self) -> None:
        self._end(power=False)

    def _cut_power(self) -> None:
        self._end(power=True)

    def _end(self, *, power: bool) -> None:
        self.files.ended = True
        self.story.append("power cut" if power else "kill")
        if power:
            self.disk.cut_power(self.rng)
        self._begin("power cut" if power else "kill")

    def _damage(self) -> None:
        """Somebody cuts its files, or takes them away, while no process runs."""
        if self.rng.random() < 0.5:
            self.directory.close(True, {KEY: self.now.start})
        self.files.ended = True
        said = damage(self.disk, ("/d",), self.rng, DAMAGES)
        self.story.append(f"damage: {said or 'none'}")
        self._begin("damage")

    def _begin(self, how: str) -> None:
        """A new life, which must find what the last one had."""
        self._remember(self.next)
        lowest = min(self.now.end, self.next.end)
        is_full = bool(self.disk.room)
        self._open()
        lost_data = self._says_that_it_lost_data(how)
        try:
            self.next = self._read()
        except DamagedLog as found:
            if how != "damage" and not lost_data:
                self._broken(f"after a {how} it is damaged: {found}")
            self._give_up()
        else:
            if not lost_data:
                self._judge(self.next, lowest, how)
        if how != "stop":
            with suppress(DiskFull):
                self.directory.checkpoint_high_watermarks({})
        self.durable = self.next
        self.start_min = self.next.start if how != "kill" else min(self.start_min, self.next.start)
        self.history = [self.next] if how == "power cut" else [*self.history, self.next]
        self.was_full = is_full
        # No life leads in an epoch of the last one.
        self.epoch = max(self.epoch, self.log.epochs.latest) + 1

    def _says_that_it_lost_data(self, how: str) -> bool:
        directory, log = self.directory, self.log
        is_doubted = directory.lost_checkpoints or not directory.knows_its_logs
        if not log.lost_data and (how == "power cut" or not is_doubted):
            return False
        self.losses += 1
        self.story.append(f"{log!r} says that it lost data")
        # A power cut may leave segments behind a gap, which were never durable.
        if how in ("stop", "kill") and not self.was_full and not self.may_be_less:
            self._broken(f"after a {how} it says that it lost data: {log!r}, not {self.now}")
        directory.settle()
        with suppress(DiskFull):
            directory.checkpoint_high_watermarks({})
        if log.lacks_front:
            self._give_up()
        return True

    def _give_up(self) -> None:
        """It begins anew, as a broker lets it that fetches what is missing."""
        self.disk.room.clear()
        self.directory.quarantine(*KEY, self.directory.now_us())
        self._open_log()
        self.next = Contents()

    def _open(self) -> None:
        self.files = MortalFiles(self.disk, lambda: self.now_us)
        self.directory = DataDirectory.open(
            Path("/d"), "cluster", 1, SHARED, files=self.files, threads=lambda *_: AtOnce()
        )
        self._open_log()

    def _open_log(self) -> None:
        try:
            self.log: Log = self.directory.log(*KEY, True, "tide", SETTINGS)
        except DiskFull as full:
            self.story.append(f"it cannot be opened: {full}")
            self.disk.room.clear()
            self.log = self.directory.log(*KEY, True, "tide", SETTINGS)

    def _read(self) -> Contents:
        batches = tuple(
            Batch(header.base_offset, header.next_offset, header.leader_epoch, header.crc)
            for header in read_all(self.log)
        )
        return Contents(self.log.log_start_offset, self.log.log_end_offset, batches)

    def _judge(self, found: Contents, lowest: int, how: str) -> None:
        if not found.batches and not self.durable.batches and (self.was_full or not self.durable.end):
            return  # It began anew, which is durable after a flush; on a full disk only its mark says where.
        if not any(self._may_be(found, held) for held in (*self.history, *self.torn)):
            self._broken(f"after a {how} it holds {found}, which it never held: {self.now}")
        if how == "power cut":
            # What lies before its first batch was deleted when it was read.
            first = min((each.base_offset for each in self.durable.batches), default=0)
            start = max(found.start, self.durable.start, first)
            durable = self.durable.read(start, self.durable.end)
            if found.read(start, found.end)[: len(durable)] != durable:
                self._broken(f"after a power cut it holds {found}; {durable} was durable")
        elif found.end < lowest and not self.may_be_less:
            self._broken(f"after a {how} it holds {found} of {self.now}")

    def _may_be(self, found: Contents, held: Contents) -> bool:
        """Whether this is left of that, which was all: a beginning of it, without what is deleted."""
        start = max(found.start, self.seen_from)
        part = held.read(start, found.end)
        end = part[-1].end_offset if part else min(found.end, start)
        return (
            min(self.start_min, held.start) <= found.start <= max(each.start for each in self.history)
            and part == found.read(start, found.end)
            and end == found.end
        )
