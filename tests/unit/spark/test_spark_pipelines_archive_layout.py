"""The names of an archive's files say what it holds, and what is missing or double."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from hightide_spark.pipelines.archive_checkpoint import read_topic_ids, unfinished_batch
from hightide_spark.pipelines.archive_layout import (
    ArchivedLog,
    FileRange,
    plan_merges,
    plan_publication,
    tile,
)
from hightide_spark.pipelines.errors import ArchiveNameError, ArchiveOverlapError, CheckpointError
from hypothesis import given
from hypothesis import strategies as st

LOG = ArchivedLog("flights", "0f" * 16, 3)


def ranges(*edges: tuple[int, int]) -> list[FileRange]:
    return [FileRange(*each) for each in edges]


def offsets(files: Iterable[FileRange]) -> set[int]:
    return {offset for each in files for offset in range(each.start, each.end)}


def test_names_go_there_and_back() -> None:
    assert ArchivedLog.of_folder(LOG.folder) == LOG
    assert FileRange.of_file_name(FileRange(0, 12).file_name) == FileRange(0, 12)


@pytest.mark.parametrize("topic", ["..", ".", "", "a/b", "../x", "a\0b", "a" * 250, "topic=x", "ä"])
def test_a_name_that_would_leave_the_directory_is_no_log(topic: str) -> None:
    with pytest.raises(ArchiveNameError):
        ArchivedLog(topic, "0f" * 16, 0)
    assert ArchivedLog.of_folder(f"topic={topic}/topic_id=0x{'0f' * 16}/partition=0") is None


@pytest.mark.parametrize("topic_id", ["", "0F" * 16, "../" * 10 + "ab"])
def test_an_id_is_32_hexadecimal_digits(topic_id: str) -> None:
    with pytest.raises(ArchiveNameError):
        ArchivedLog("flights", topic_id, 0)


@pytest.mark.parametrize(
    "name", ["0-5.parquet", f"{5:020d}-{5:020d}.parquet", f"{9:020d}-{5:020d}.parquet", "part-0.parquet"]
)
def test_a_file_of_another_name_is_not_taken_for_one_of_ours(name: str) -> None:
    assert FileRange.of_file_name(name) is None


def test_gaps_overlaps_and_covered_files_are_told_apart() -> None:
    tiling = tile(ranges((0, 5), (0, 10), (5, 10), (12, 20), (18, 30)))
    assert tiling.counting == tuple(ranges((0, 10), (12, 20), (18, 30)))
    assert tiling.covered == tuple(ranges((0, 5), (5, 10)))
    assert tiling.gaps == (FileRange(10, 12),)
    assert tiling.overlaps == (FileRange(18, 20),)
    assert tiling.record_count == 28


@st.composite
def some_files(draw: st.DrawFn) -> list[FileRange]:
    edges = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=12))
    return [FileRange(start, start + length) for start, length in edges]


@given(some_files())
def test_a_tiling_holds_exactly_what_the_files_hold(files: list[FileRange]) -> None:
    tiling = tile(files)
    held = offsets(files)
    assert offsets(tiling.counting) == held
    assert tiling.record_count == len(held)
    assert offsets(tiling.gaps) == set(range(min(held, default=0), max(held, default=-1) + 1)) - held


def test_a_repeated_micro_batch_replaces_its_own_files() -> None:
    plan = plan_publication(LOG, ranges((0, 5), (5, 10)), ranges((5, 10), (10, 12)))
    assert (plan.remove, plan.discard) == ((), ())
    assert plan.rename == tuple(ranges((5, 10), (10, 12)))


def test_files_of_an_attempt_that_was_cut_in_another_way_go() -> None:
    plan = plan_publication(LOG, ranges((0, 5), (5, 7), (8, 12)), ranges((5, 10), (10, 15)))
    assert plan.remove == tuple(ranges((5, 7), (8, 12)))


def test_what_a_merged_file_holds_already_is_thrown_away() -> None:
    plan = plan_publication(LOG, ranges((0, 10)), ranges((5, 10)))
    assert (plan.remove, plan.rename, plan.discard) == ((), (), (FileRange(5, 10),))


def test_a_file_that_sticks_out_is_neither_removed_nor_doubled() -> None:
    with pytest.raises(ArchiveOverlapError, match=r"flights-3 .*\[10, 20\).*\[5, 15\)"):
        plan_publication(LOG, ranges((5, 15)), ranges((10, 20)))


@given(some_files(), st.lists(st.integers(1, 8), min_size=1, max_size=6), st.integers(0, 30))
def test_a_publication_keeps_what_was_there_and_what_was_written(
    existing: list[FileRange], lengths: list[int], start: int
) -> None:
    there = list(tile(existing).counting)
    written = []
    for length in lengths:
        written.append(FileRange(start, start + length))
        start += length
    try:
        plan = plan_publication(LOG, there, written)
    except ArchiveOverlapError:
        return
    after = tile((set(there) - set(plan.remove)) | set(plan.rename))
    assert offsets(after.counting) == offsets([*there, *written])
    assert after.covered == ()
    assert offsets(after.overlaps) <= offsets(tile(there).overlaps)


def test_small_files_that_follow_on_each_other_are_merged_up_to_the_size() -> None:
    sizes = dict(
        zip(ranges((0, 5), (5, 9), (9, 12), (20, 25), (25, 30), (30, 31)), (4, 4, 4, 9, 2, 3), strict=True)
    )
    assert plan_merges(sizes, 10) == [tuple(ranges((0, 5), (5, 9))), tuple(ranges((25, 30), (30, 31)))]
    assert plan_merges(sizes, 1) == []


def test_a_checkpoint_tells_the_topics_ids_and_is_refused_where_it_is_of_another_kind() -> None:
    topic_id = "ab" * 16
    offsets = f'{{"flights": {{"id": "{topic_id}", "offsets": {{"0": 7}}}}}}'
    assert read_topic_ids(f"v1\n{{}}\n{offsets}", "offsets/0") == {"flights": topic_id}
    for text in ("", f"v2\n{{}}\n{offsets}", "v1\n{}\n17", f"v1\n{{}}\n{offsets}\n{offsets}"):
        with pytest.raises(CheckpointError, match=r"^offsets/0 is"):
            read_topic_ids(text, "offsets/0")


def test_a_micro_batch_is_unfinished_that_has_offsets_and_no_commit(tmp_path: Path) -> None:
    assert unfinished_batch(tmp_path) is None
    for folder, names in (("offsets", ("8", "9", "10", ".10.crc")), ("commits", ("8", "9", ".9.crc"))):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).touch()
    assert unfinished_batch(tmp_path) == 10
    (tmp_path / "commits" / "10").touch()
    assert unfinished_batch(tmp_path) is None
