"""Writes, publishes, finds, merges and reads the files of an archive.

Tasks write to names that begin with a dot, which no reader uses. The driver renames the files when all tasks
of the micro-batch are done. A repeated run writes the same ranges and replaces the same files.
"""

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hightide_spark.pipelines.archive_layout import (
    ArchivedLog,
    FileRange,
    Tiling,
    plan_publication,
    tile,
)
from hightide_spark.pipelines.folder_sync import sync_folder

#: The columns of a file. Topic, topic id and partition are in the folders' names.
FILE_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
    ]
)
#: The columns of a task's report on the files that it wrote.
WRITTEN_COLUMNS: Final = (
    "topic string, topic_id string, partition int, start long, end long, temporary string"
)
_WRITTEN_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32()),
        ("start", pa.int64()), ("end", pa.int64()), ("temporary", pa.string()),
    ]
)  # fmt: skip
#: A task begins a new file after this many bytes of uncompressed records.
_FILE_BYTES_MAX: Final = 512 * 1024 * 1024
#: A reader of a file holds about this much in memory, at most twice, or one record.
_ROW_GROUP_BYTES: Final = 8 * 1024 * 1024
_READ_ROWS: Final = 8_192


@dataclass(frozen=True, slots=True)
class ArchivedFiles:
    """The files of one archived log. `strays` are other files in its folder."""

    log: ArchivedLog
    folder: Path
    tiling: Tiling
    strays: tuple[str, ...] = ()

    def paths(self) -> list[Path]:
        """The valid files, in the order of their offsets."""
        return [self.folder / each.file_name for each in self.tiling.counting]


@dataclass(slots=True)
class Archive:
    """The content of a directory: its logs, in order, and files that belong to none of them."""

    logs: list[ArchivedFiles] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)


def scan(directory: Path) -> Archive:
    """Look at an archive. Files and folders whose names begin with a dot or `_` do not belong to it: Spark
    does not read them either. A missing directory is an empty archive."""
    archive = Archive()
    for path, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        shown = sorted(name for name in names if not name.startswith((".", "_")))
        if not shown:
            continue
        relative = Path(path).relative_to(directory).as_posix()
        log = ArchivedLog.of_folder(relative)
        ranges = {name: FileRange.of_file_name(name) for name in shown}
        strays = tuple(name for name, found in ranges.items() if log is None or found is None)
        if log is None:
            archive.strays += [f"{relative}/{name}" for name in strays]
        else:
            found = tile(each for each in ranges.values() if each is not None)
            archive.logs.append(ArchivedFiles(log, Path(path), found, strays))
    archive.logs.sort(key=lambda each: each.log)
    return archive


def miscounted(files: ArchivedFiles) -> list[tuple[FileRange, int]]:
    """The files whose names and footers differ in the number of records, each with the footer's number."""
    counts = (
        (each, pq.read_metadata(files.folder / each.file_name).num_rows) for each in files.tiling.counting
    )
    return [(each, count) for each, count in counts if count != each.record_count]


def sweep(directory: Path) -> None:
    """Remove the remains of an interrupted run: unfinished files, and files whose records a merged file
    holds.

    The driver calls it before a run, under the archive's lock.
    """
    for unfinished in directory.glob("topic=*/topic_id=*/partition=*/.*.parquet"):
        unfinished.unlink()
    for files in scan(directory).logs:
        for each in files.tiling.covered:
            (files.folder / each.file_name).unlink()


class RangeFile:
    """One file that is being written, with rows in the order of their offsets. The caller ends it with
    `close` or `give_up`."""

    def __init__(self, directory: Path, log: ArchivedLog, start: int) -> None:
        self.log = log
        self.end = self._start = start
        self._folder = directory / log.folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path = self._folder / f".{uuid.uuid4().hex}.parquet"
        self._file = self._path.open("wb")
        self._writer = pq.ParquetWriter(self._file, FILE_SCHEMA, compression="zstd")
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self.size_bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows that follow the last ones, with the columns of FILE_SCHEMA."""
        half = rows.num_rows // 2
        if half and rows.nbytes > _ROW_GROUP_BYTES:
            self.add(rows.slice(0, half))
            self.add(rows.slice(half))
            return
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self.size_bytes += rows.nbytes
        self.end += rows.num_rows
        if self._waiting_bytes >= _ROW_GROUP_BYTES:
            self._write()

    def close(self) -> tuple[FileRange, str]:
        """End the file and sync it to the disk. Return its range and its temporary name."""
        self._write()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return FileRange(self._start, self.end), self._path.name

    def give_up(self) -> None:
        """Remove the file. Called if its rows cannot be read or written."""
        # The file is removed in any case, so an error when its end is written, as on a full disk, has no
        # effect.
        with contextlib.suppress(OSError):
            self._writer.close()
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, FILE_SCHEMA))
        self._waiting, self._waiting_bytes = [], 0


def write_ranges(
    batches: Iterable[pa.RecordBatch], *, directory: str, topic_ids: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Write a task's rows of the source into files, and yield a row of WRITTEN_COLUMNS for each file.

    Runs in Spark's workers (mapInArrow). A file ends where the offsets are not contiguous.
    """
    writing: RangeFile | None = None
    try:
        for batch in batches:
            for run in _runs(batch):
                topic, partition = run.column("topic")[0].as_py(), run.column("partition")[0].as_py()
                log = ArchivedLog(topic, topic_ids[topic], partition)
                start = run.column("offset")[0].as_py()
                if writing is not None and (
                    (writing.log, writing.end) != (log, start) or writing.size_bytes >= _FILE_BYTES_MAX
                ):
                    yield _row_of(writing)
                    writing = None
                if writing is None:
                    writing = RangeFile(Path(directory), log, start)
                writing.add(run.select(FILE_SCHEMA.names).cast(FILE_SCHEMA))
        if writing is not None:
            yield _row_of(writing)
            writing = None
    finally:
        if writing is not None:
            writing.give_up()


def _runs(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch where the log changes or an offset is missing. Most batches stay whole."""
    if batch.num_rows == 0:
        return
    offsets = batch.column("offset").to_numpy()
    partitions = batch.column("partition").to_numpy()
    topics = batch.column("topic").dictionary_encode().indices.to_numpy()
    breaks = (np.diff(offsets) != 1) | (np.diff(partitions) != 0) | (np.diff(topics) != 0)
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(edges):
        yield batch.slice(start, end - start)


def _row_of(writing: RangeFile) -> pa.RecordBatch:
    log = writing.log
    written, temporary = writing.close()
    row = (log.topic, log.topic_id, log.partition, written.start, written.end, temporary)
    return pa.RecordBatch.from_pylist(
        [dict(zip(_WRITTEN_SCHEMA.names, row, strict=True))], schema=_WRITTEN_SCHEMA
    )


def publish(directory: Path, written: Iterable[Any]) -> int:
    """Give the files of a micro-batch their final names, and return the number of records in them.

    The driver calls it when all tasks are done, with their rows of WRITTEN_COLUMNS. Raises
    ArchiveOverlapError.
    """
    by_log: dict[ArchivedLog, dict[FileRange, str]] = {}
    for row in written:
        log = ArchivedLog(row["topic"], row["topic_id"], row["partition"])
        by_log.setdefault(log, {})[FileRange(row["start"], row["end"])] = row["temporary"]
    for log, temporaries in by_log.items():
        folder = directory / log.folder
        existing = [FileRange.of_file_name(each.name) for each in folder.glob("[0-9]*.parquet")]
        plan = plan_publication(log, [each for each in existing if each is not None], list(temporaries))
        for each in plan.rename:
            (folder / temporaries[each]).replace(folder / each.file_name)
        # Tasks make folders, whose names must survive a loss of power, too.
        for each_folder in (folder, *takewhile(directory.__ne__, folder.parents), directory):
            sync_folder(each_folder)
        for each in plan.remove:
            (folder / each.file_name).unlink()
        for each in plan.discard:
            (folder / temporaries[each]).unlink()
    return sum(each.record_count for files in by_log.values() for each in files)


def merge(directory: Path, log: ArchivedLog, parts: Sequence[FileRange]) -> None:
    """Merge adjacent files of a log into one. The merged file exists before its parts are removed, and a
    repetition removes only the parts that are left. Called in Spark's workers."""
    folder = directory / log.folder
    whole = FileRange(parts[0].start, parts[-1].end)
    if not (folder / whole.file_name).exists():
        merged = RangeFile(directory, log, whole.start)
        try:
            for rows in read_files([folder / each.file_name for each in parts]):
                merged.add(rows)
            written, temporary = merged.close()
        except BaseException:
            merged.give_up()
            raise
        assert written == whole, (log, written, parts)
        (folder / temporary).replace(folder / whole.file_name)
        sync_folder(folder)
    for each in parts:
        (folder / each.file_name).unlink(missing_ok=True)


def read_files(paths: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    """The rows of files in the given order, with the columns of FILE_SCHEMA, a few MB at a time."""
    for path in paths:
        with pq.ParquetFile(path) as opened:
            # Row groups are limited in bytes. A batch over several of them would be limited only in rows.
            for group in range(opened.num_row_groups):
                for rows in opened.iter_batches(
                    batch_size=_READ_ROWS, row_groups=[group], columns=FILE_SCHEMA.names
                ):
                    yield rows.cast(FILE_SCHEMA)
