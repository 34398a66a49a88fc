"""A data directory with one log in it, to append to, crash and open again."""

from __future__ import annotations

from pathlib import Path
from random import Random

from faulty_files import FaultyFiles
from hightide.batch.header import BatchHeader, iterate
from hightide_broker.storage import DataDirectory, DirectorySettings, Log, LogSettings
from stored_batches import PARTITION, TOPIC_ID, headers_of, make_batch

KEY = (TOPIC_ID, PARTITION)


class LogRig:
    """One log on disk. `files` is new at each open, so that faults of one life do not reach the next; what
    one did not sync stays unsynced."""

    def __init__(
        self, path: Path, settings: LogSettings | None = None, shared: DirectorySettings | None = None
    ) -> None:
        self.path = path / "data"
        self.settings = settings if settings is not None else LogSettings()
        self.shared = shared
        self.settles = True
        """Whether what was lost is acted on at once, as a broker does that leaves its ISRs."""
        self.files = FaultyFiles()
        self.open()

    def open(self) -> Log:
        self.open_directory()
        self.log = self.directory.log(TOPIC_ID, PARTITION, True, "flights", self.settings)
        if self.settles:
            self.directory.settle()
        return self.log

    def open_directory(self) -> DataDirectory:
        """Open the directory, and no log in it."""
        self.files = FaultyFiles(self.files)
        self.directory = DataDirectory.open(self.path, "cluster", 1, self.shared, files=self.files)
        return self.directory

    def close(self, clean: bool = True) -> None:
        self.directory.close(clean)

    def restart(self) -> Log:
        """Close cleanly and open again."""
        self.close()
        return self.open()

    def crash(self) -> Log:
        """Lose the process, not the disk, and open again."""
        self.close(clean=False)
        return self.open()

    def cut_power(self, seed: int) -> Log:
        """Lose the process, and of what was not synced whatever the seed says; open again."""
        self.directory._directory_lock.release()
        self.directory._closed = True
        self.files.cut_power(Random(seed))
        return self.open()

    def append(
        self,
        record_count: int = 3,
        value: bytes = b"value",
        epoch: int = 1,
        producer: tuple[int, int, int] = (-1, -1, -1),
    ) -> int:
        """Append a batch as the leader; give the log end offset."""
        batch = make_batch(record_count, value, producer=producer)
        return self.log.append_as_leader(batch, headers_of(batch), epoch).end_offset

    def fill(self, batches: int, value: bytes = b"value", epoch: int = 1) -> int:
        """Append batches of one record."""
        for _ in range(batches):
            self.append(1, value, epoch)
        return self.log.log_end_offset

    @property
    def log_directory(self) -> Path:
        return self.path / f"{TOPIC_ID.hex()}-{PARTITION}"

    def write_epochs(self) -> None:
        """Write the file of leader epochs as it is in memory, also epochs that have no record."""
        (self.log_directory / "leader_epochs").unlink()
        self.log.at_rest.restore_epochs()

    def segments(self) -> list[Path]:
        """The segment files."""
        return sorted(self.log_directory.glob("*.log"))

    def names(self, suffix: str) -> list[str]:
        """The files with a suffix, without it."""
        return [path.stem.lstrip("0") or "0" for path in sorted(self.log_directory.glob(f"*{suffix}"))]


def read_all(log: Log, max_bytes: int = 1 << 20) -> list[BatchHeader]:
    """Every batch of a log, by reads that follow on each other."""
    headers: list[BatchHeader] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        batches = b"".join(log.read(offset, max_bytes, log.log_end_offset))
        assert batches, f"nothing to read at {offset} of {log!r}"
        headers.extend(header for _, header in iterate(batches))
        offset = headers[-1].next_offset
    return headers


def offsets(log: Log) -> list[int]:
    """The base offsets of every batch of a log."""
    return [header.base_offset for header in read_all(log)]


def apply_retention(log: Log, now_us: int, high_watermark: int, leaders_log_start: int = 0) -> int:
    """Delete what may go, as a broker does now and then; give the offset at which the log begins then."""
    found = log.find_expired(now_us, high_watermark, leaders_log_start)
    if found is not None:
        log.move_start(found.start_offset)
        log.delete_before_start(found.reasons)
    return log.log_start_offset
