"""Where a copy of a topic goes on, by what it noted and what the target's log remembers."""

from pathlib import Path

import pytest
from hightide import ProducerState
from hightide_cli.copying.notes import load_notes, store_notes
from hightide_cli.copying.plan import REMEMBERED_MS, CopyError, CopyNotes, deleted_of, going_on, skipping
from hightide_cli.records.ranges import OffsetRange

NOW_MS = 1_000_000_000


def state(next_sequence: int, epoch: int = 0) -> ProducerState:
    return ProducerState(1 << 62, epoch, 0, 50, next_sequence, 50 + next_sequence)


def test_the_first_run_copies_all_that_is_wanted() -> None:
    wanted = [OffsetRange(0, 10, 30), OffsetRange(1, 0, 0)]
    assert going_on("copy", wanted, None, {}, NOW_MS) == wanted


def test_a_run_that_was_killed_goes_on_behind_what_the_log_counts() -> None:
    notes = CopyNotes(bases={0: 10, 1: 0}, noted_ms=NOW_MS)
    wanted = [OffsetRange(0, 10, 30), OffsetRange(1, 0, 5)]
    assert going_on("copy", wanted, notes, {0: state(7)}, NOW_MS) == [
        OffsetRange(0, 17, 30),
        OffsetRange(1, 0, 5),
    ]


def test_where_the_count_began_counts_and_not_where_the_source_begins_by_now() -> None:
    notes = CopyNotes(bases={0: 10}, noted_ms=NOW_MS)
    assert going_on("copy", [OffsetRange(0, 15, 30)], notes, {0: state(7)}, NOW_MS) == [
        OffsetRange(0, 17, 30)
    ]


def test_a_run_that_is_finished_begins_a_new_count_where_it_ended() -> None:
    wanted = [OffsetRange(0, 0, 30)]
    notes = CopyNotes().begun(wanted, NOW_MS).finished(wanted, NOW_MS)
    later = [OffsetRange(0, 0, 45)]
    assert going_on("copy", later, notes, {0: state(30)}, NOW_MS) == [OffsetRange(0, 30, 45)]
    assert going_on("copy", later, notes, {}, NOW_MS + 10 * REMEMBERED_MS) == [OffsetRange(0, 30, 45)]


def test_a_run_of_some_partitions_ends_no_count_of_the_others() -> None:
    wanted = [OffsetRange(0, 0, 30), OffsetRange(1, 0, 30)]
    notes = CopyNotes().begun(wanted, NOW_MS).finished(wanted[:1], NOW_MS)
    assert (notes.version, notes.is_finished) == (0, False)


def test_a_partition_that_came_later_begins_where_it_is_wanted() -> None:
    notes = CopyNotes(version=3, bases={0: 30}, is_finished=True)
    begun = notes.begun([OffsetRange(0, 0, 30), OffsetRange(1, 4, 9)], NOW_MS)
    assert begun == CopyNotes(3, {0: 30, 1: 4}, is_finished=False, noted_ms=NOW_MS)


def test_the_log_s_memory_counts_from_the_first_run_that_was_killed() -> None:
    begun = CopyNotes().begun([OffsetRange(0, 0, 30)], NOW_MS)
    assert begun.begun([OffsetRange(0, 0, 30)], NOW_MS + 5).noted_ms == NOW_MS


@pytest.mark.parametrize(
    ("notes", "known", "said"),
    [
        (None, {0: state(7)}, "notes are not on this machine"),
        (CopyNotes(bases={0: 0}, noted_ms=NOW_MS), {0: state(7, epoch=1)}, "a later run of this copy"),
        (CopyNotes(bases={0: 0}, noted_ms=NOW_MS - REMEMBERED_MS - 1), {}, "has forgotten meanwhile"),
    ],
)
def test_what_cannot_be_known_is_refused(
    notes: CopyNotes | None, known: dict[int, ProducerState], said: str
) -> None:
    with pytest.raises(CopyError, match=said):
        going_on("copy", [OffsetRange(0, 0, 30)], notes, known, NOW_MS)


def test_what_the_source_deleted_before_it_was_copied_is_left_out_only_where_that_is_said() -> None:
    notes = CopyNotes(bases={0: 10, 1: 0}, noted_ms=NOW_MS)
    wanted = [OffsetRange(0, 25, 30), OffsetRange(1, 0, 5)]
    left = going_on("copy", wanted, notes, {0: state(7), 1: state(2)}, NOW_MS)
    deleted = deleted_of(left, {0: 25, 1: 0})
    assert deleted == [OffsetRange(0, 17, 25)]
    with pytest.raises(CopyError, match="the offsets 17 to 24: give --skip-deleted"):
        skipping("t", left, deleted, notes, is_agreed=False)
    without = skipping("t", left, deleted, notes, is_agreed=True)
    assert without == [OffsetRange(0, 25, 30), OffsetRange(1, 2, 5)]
    behind = notes.behind(without, NOW_MS + 1)
    assert behind == CopyNotes(1, {0: 25, 1: 2}, noted_ms=NOW_MS + 1)
    assert going_on("copy", wanted, behind, {0: state(7), 1: state(2)}, NOW_MS + 2) == without


def test_a_copy_that_copied_nothing_yet_begins_at_what_the_source_has_now() -> None:
    notes = CopyNotes(bases={0: 0}, noted_ms=NOW_MS)
    left = going_on("copy", [OffsetRange(0, 4380, 5000)], notes, {}, NOW_MS)
    deleted = deleted_of(left, {0: 4380})
    assert skipping("t", left, deleted, notes, is_agreed=False) == [OffsetRange(0, 4380, 5000)]


def test_a_later_run_leaves_no_hole_behind_what_an_earlier_one_copied() -> None:
    notes = CopyNotes(1, {0: 30}, is_finished=True)
    left = [OffsetRange(0, 30, 50)]
    with pytest.raises(CopyError, match="--skip-deleted"):
        skipping("t", left, deleted_of(left, {0: 40}), notes, is_agreed=False)


def test_nothing_is_deleted_where_the_reader_only_begins_later_or_has_no_more_to_copy() -> None:
    assert deleted_of([OffsetRange(0, 17, 30), OffsetRange(1, 9, 9)], {0: 17, 1: 12}) == []


def test_no_count_of_a_partition_that_is_not_copied_now_is_forgotten() -> None:
    with pytest.raises(CopyError, match="without --partition"):
        CopyNotes(bases={0: 0, 1: 0}).behind([OffsetRange(0, 5, 9)], NOW_MS)


def test_more_than_can_be_counted_is_refused() -> None:
    notes = CopyNotes(bases={0: 5}, noted_ms=NOW_MS)
    with pytest.raises(CopyError, match="--until 2147483652"):
        going_on("copy", [OffsetRange(0, 5, (1 << 31) + 5)], notes, {}, NOW_MS)


def test_notes_come_back_as_they_were_written(tmp_path: Path) -> None:
    path, notes = tmp_path / "new" / "notes.json", CopyNotes(2, {0: 5, 11: 0}, is_finished=True, noted_ms=9)
    assert load_notes(path, "a") is None
    store_notes(path, "a", notes)
    assert load_notes(path, "a") == notes
    assert path.stat().st_mode & 0o077 == 0
    assert [each.name for each in path.parent.iterdir()] == ["notes.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 2}',
        '{"version": 1, "copy": "b", "writer_version": 0, "noted_ms": 0, "bases": {}}',
        '{"version": 1, "copy": "a", "writer_version": -1, "noted_ms": 0, "bases": {}}',
        '{"version": 1, "copy": "a", "writer_version": 0, "noted_ms": 0, "bases": {"x": 1}}',
        '{"version": 1, "copy": "a", "writer_version": 0, "noted_ms": 0, "bases": {"0": true}}',
    ],
)
def test_a_file_that_holds_no_notes_of_this_copy_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.json"
    path.write_text(text)
    with pytest.raises(CopyError, match="no notes of this copy"):
        load_notes(path, "a")
