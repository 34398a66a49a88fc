"""Files of an archive are written, published, merged and read back without Spark, as its tasks do it."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hightide_spark.pipelines.archive import CHECKPOINT, archive, check, compact
from hightide_spark.pipelines.archive_files import merge, publish, read_files, scan, sweep, write_ranges
from hightide_spark.pipelines.archive_layout import ArchivedLog, FileRange
from hightide_spark.pipelines.archive_lock import locked
from hightide_spark.pipelines.errors import (
    ArchiveBusyError,
    ArchiveChoiceError,
    ArchiveFlawError,
    ArchiveNameError,
    ArchiveUnfinishedError,
)
from hightide_spark.pipelines.replay import plan_replay

IDS = {"flights": "0f" * 16, "..": "ab" * 16}
LOG = ArchivedLog("flights", IDS["flights"], 1)
#: What is refused before Spark is asked for anything needs none.
NO_SPARK: Any = None
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
SOURCE_SCHEMA = pa.schema(
    [
        ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
        ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC")), ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)  # fmt: skip


def rows(offsets: Iterable[int], partition: int = 1, topic: str = "flights") -> pa.RecordBatch:
    at = datetime(2013, 1, 1, tzinfo=UTC)
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": b"N%d" % (offset % 3), "value": None if offset == 4 else b"v%d" % offset,
                "topic": topic, "partition": partition, "offset": offset,
                "timestamp": at, "timestampType": 0,
                "headers": [{"key": "h", "value": b"1"}] if offset == 5 else None,
            }
            for offset in offsets
        ],
        schema=SOURCE_SCHEMA,
    )  # fmt: skip


def write(directory: Path, *batches: pa.RecordBatch) -> list[dict[str, Any]]:
    written = write_ranges(batches, directory=str(directory), topic_ids=IDS)
    return [row for batch in written for row in batch.to_pylist()]


def archived(directory: Path) -> list[int]:
    """The offsets that a plain reader of the directory sees."""
    names = sorted(each for each in directory.rglob("*.parquet") if not each.name.startswith("."))
    return [offset for name in names for offset in pq.read_table(name).column("offset").to_pylist()]


def test_what_is_written_is_seen_only_when_it_is_published_and_then_once(tmp_path: Path) -> None:
    for _ in range(2):
        written = write(tmp_path, rows(range(3)), rows(range(3, 8)))
        assert publish(tmp_path, written) == 8
    assert archived(tmp_path) == list(range(8))
    assert check(tmp_path).flaws == ()
    (found,) = scan(tmp_path).logs
    assert (found.log, found.tiling.counting) == (LOG, (FileRange(0, 8),))
    back = pa.Table.from_batches(read_files(found.paths())).to_pylist()
    expected = rows(range(8)).select(["key", "value", "offset", "timestamp", "headers"]).to_pylist()
    assert back == expected


def test_nobody_sees_what_is_not_published_and_the_next_run_removes_it(tmp_path: Path) -> None:
    write(tmp_path, rows(range(3)))
    assert archived(tmp_path) == []
    assert check(tmp_path).record_count == 0
    sweep(tmp_path)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_file_ends_where_the_log_changes_or_an_offset_is_missing(tmp_path: Path) -> None:
    mixed = pa.Table.from_batches([rows([0, 1, 4]), rows([5, 6], partition=2)]).combine_chunks().to_batches()
    written = write(tmp_path, *mixed)
    assert [(each["partition"], each["start"], each["end"]) for each in written] == [
        (1, 0, 2),
        (1, 4, 5),
        (2, 5, 7),
    ]
    publish(tmp_path, written)
    report = check(tmp_path)
    assert report.records == {"flights": 5}
    assert len(report.flaws) == 1
    assert "the records [2, 4) are missing" in report.flaws[0]


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def breaks() -> Iterable[pa.RecordBatch]:
        yield rows(range(3))
        raise ConnectionError("the source has gone")

    with pytest.raises(ConnectionError):
        list(write_ranges(breaks(), directory=str(tmp_path), topic_ids=IDS))
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_topic_cannot_leave_the_directory(tmp_path: Path) -> None:
    with pytest.raises(ArchiveNameError):
        write(tmp_path / "archive", rows(range(3), topic=".."))
    assert list(tmp_path.iterdir()) == []


def test_merging_keeps_every_record_wherever_it_is_interrupted(tmp_path: Path) -> None:
    for part in (range(3), range(3, 5), range(5, 9)):
        publish(tmp_path, write(tmp_path, rows(part)))
    (found,) = scan(tmp_path).logs
    parts = found.tiling.counting
    first = (found.folder / parts[0].file_name).read_bytes()
    merge(tmp_path, LOG, parts)
    assert archived(tmp_path) == list(range(9))
    assert check(tmp_path).files == 1
    # As it is when the merged file is there and not all of its parts are gone.
    (found.folder / parts[0].file_name).write_bytes(first)
    assert check(tmp_path).record_count == 9
    assert "part of a merged one" in check(tmp_path).flaws[0]
    assert plan_replay(tmp_path, None, None).record_count == 9
    sweep(tmp_path)
    assert archived(tmp_path) == list(range(9))
    assert check(tmp_path).flaws == ()


def test_a_strange_file_and_one_with_other_records_are_told(tmp_path: Path) -> None:
    publish(tmp_path, write(tmp_path, rows(range(3))))
    folder = tmp_path / LOG.folder
    (folder / FileRange(0, 3).file_name).rename(folder / FileRange(0, 4).file_name)
    (folder / "part-0.parquet").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("mine")
    told = "\n".join(check(tmp_path).flaws)
    assert "holds 3 records, not 4" in told
    assert "part-0.parquet is no file of an archive" in told
    assert "notes.txt is no file of an archive" in told


def test_a_replay_takes_the_partitions_as_tasks_and_the_files_in_order(tmp_path: Path) -> None:
    publish(tmp_path, [*write(tmp_path, rows(range(3, 9))), *write(tmp_path, rows(range(2), partition=3))])
    publish(tmp_path, write(tmp_path, rows(range(9, 11))))
    plan = plan_replay(tmp_path, None, None)
    assert (plan.topic, plan.topic_id, plan.record_count) == ("flights", IDS["flights"], 10)
    assert [len(paths) for paths in plan.paths] == [0, 2, 0, 1]
    assert [path.name for path in plan.paths[1]] == [FileRange(3, 9).file_name, FileRange(9, 11).file_name]


def test_a_replay_of_nothing_of_two_topics_or_with_gaps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveChoiceError, match="no such topic"):
        plan_replay(tmp_path, "flights", None)
    publish(tmp_path, write(tmp_path, rows([0, 1, 5])))
    with pytest.raises(ArchiveFlawError, match="missing"):
        plan_replay(tmp_path, "flights", None)
    anew = {"flights": "ee" * 16}
    again = write_ranges([rows(range(2))], directory=str(tmp_path), topic_ids=anew)
    publish(tmp_path, [row for batch in again for row in batch.to_pylist()])
    with pytest.raises(ArchiveChoiceError, match="--topic-id"):
        plan_replay(tmp_path, "flights", None)
    assert plan_replay(tmp_path, None, "ee" * 16).record_count == 2


def test_large_records_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    large = pa.RecordBatch.from_pylist(
        [{**row, "value": bytes(1_000_000)} for row in rows(range(40)).to_pylist()], schema=SOURCE_SCHEMA
    )
    publish(tmp_path, write(tmp_path, large))
    (found,) = scan(tmp_path).logs
    batches = list(read_files(found.paths()))
    assert sum(each.num_rows for each in batches) == 40
    assert max(each.nbytes for each in batches) < 20_000_000


def test_files_of_an_earlier_attempt_stay_until_the_new_ones_have_their_names(tmp_path: Path) -> None:
    publish(tmp_path, write(tmp_path, rows(range(3))))
    again = write(tmp_path, rows(range(8)))
    (tmp_path / LOG.folder / again[0]["temporary"]).unlink()
    with pytest.raises(FileNotFoundError):
        publish(tmp_path, again)
    assert archived(tmp_path) == [0, 1, 2]


def test_all_folders_of_a_published_file_are_made_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write(tmp_path, rows(range(3)))
    synced = set()
    fsync = os.fsync

    def noted(handle: int) -> None:
        synced.add(Path(os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    publish(tmp_path, written)
    folder = tmp_path / LOG.folder
    assert synced == {folder, folder.parent, folder.parent.parent, tmp_path}


def test_a_merge_that_is_done_again_removes_the_parts_that_are_left(tmp_path: Path) -> None:
    for part in (range(3), range(3, 5), range(5, 9)):
        publish(tmp_path, write(tmp_path, rows(part)))
    (found,) = scan(tmp_path).logs
    last = found.paths()[-1].read_bytes()
    merge(tmp_path, LOG, found.tiling.counting)
    found.paths()[-1].write_bytes(last)
    for _ in range(2):
        merge(tmp_path, LOG, found.tiling.counting)
        assert [each.name for each in found.folder.iterdir()] == [FileRange(0, 9).file_name]
    assert archived(tmp_path) == list(range(9))


def test_files_that_the_next_run_may_cut_in_another_way_are_not_merged(tmp_path: Path) -> None:
    for part in (range(3), range(3, 5)):
        publish(tmp_path, write(tmp_path, rows(part)))
    offsets = tmp_path / CHECKPOINT / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").touch()
    with pytest.raises(ArchiveUnfinishedError, match="micro-batch 0"):
        compact(NO_SPARK, tmp_path, 10_000_000)
    assert check(tmp_path).files == 2


def test_one_run_at_a_time_works_on_an_archive(tmp_path: Path) -> None:
    unfinished = write(tmp_path, rows(range(3)))
    with locked(tmp_path):
        for run in (
            lambda: archive(NO_SPARK, "127.0.0.1:9", tmp_path, {}),
            lambda: compact(NO_SPARK, tmp_path, 10_000_000),
        ):
            with pytest.raises(ArchiveBusyError, match="another run"):
                run()
        assert publish(tmp_path, unfinished) == 3
    assert compact(NO_SPARK, tmp_path, 10_000_000) == 0
    assert check(tmp_path).flaws == ()
