"""Damage is found by checking a log, and mended segment by segment with what peers have."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from damages import DAMAGES
from faulty_files import Fault
from hightide_broker.storage import (
    BatchPlace,
    DamagedLog,
    DirectorySettings,
    DiskFull,
    Log,
    LogSettings,
    SegmentMend,
)
from log_rig import LogRig, offsets
from stored_batches import make_batch

SIZE = len(make_batch(1))
END = 14
SETTINGS = LogSettings(segment_bytes=4 * SIZE)


def filled(path: Path) -> LogRig:
    """A log of fourteen batches in segments of four, none of them in memory."""
    rig = LogRig(path, SETTINGS, DirectorySettings(open_files_max=1))
    rig.fill(9)
    rig.fill(END - 9, epoch=2)
    rig.restart()
    return rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[LogRig]:
    rig = filled(tmp_path / "ours")
    yield rig
    rig.close(clean=False)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[LogRig]:
    """Another replica with the same batches."""
    rig = filled(tmp_path / "theirs")
    yield rig
    rig.close(clean=False)


def segment(rig: LogRig, base: int) -> Path:
    return rig.log_directory / f"{base:020d}.log"


def checked(log: Log, max_bytes: int = 1) -> int:
    """Check all of a log; how many bytes."""
    place: BatchPlace | None = None
    total = 0
    while True:
        place, size_bytes = log.at_rest.check(place, max_bytes)
        total += size_bytes
        if place is None:
            return total


def mended(log: Log, base: int, fetch: Callable[[int], bytes]) -> SegmentMend:
    """Write a segment anew, with what `fetch` gives for an offset."""
    mend = log.at_rest.mend(base)
    assert mend is not None
    try:
        while (offset := mend.go_on()) is not None:
            assert mend.take(fetch(offset)) > 0
        assert mend.finish()
    finally:
        mend.close()
    return mend


def fetch_from(rig: LogRig) -> Callable[[int], bytes]:
    return lambda offset: b"".join(map(bytes, rig.log.read_file(offset, 2 * SIZE, END)))


def no_peer(offset: int) -> bytes:
    raise AssertionError(f"offset {offset} is here and whole")


@pytest.mark.parametrize("max_bytes", [1, 2 * SIZE, 1 << 20])
def test_a_whole_log_is_checked_to_its_end_in_pieces(rig: LogRig, max_bytes: int) -> None:
    assert checked(rig.log, max_bytes) == END * SIZE


@pytest.mark.parametrize("base", [4, 12])
@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
@pytest.mark.parametrize("damage", sorted(set(DAMAGES) - {"two batches swapped"}))
def test_a_check_finds_damage_in_closed_segments_and_in_the_active_one(
    rig: LogRig, damage: str, max_bytes: int, base: int
) -> None:
    DAMAGES[damage](segment(rig, base))
    with pytest.raises(DamagedLog) as caught:
        checked(rig.log, max_bytes)
    assert caught.value.segment == base
    assert caught.value.offset in (base, base + 1)


def test_a_check_finds_batches_that_were_swapped(rig: LogRig) -> None:
    DAMAGES["two batches swapped"](segment(rig, 4))
    with pytest.raises(DamagedLog, match="at offset 5: the batch has offset 6, the next is 5"):
        checked(rig.log)


def test_a_closed_segment_that_has_grown_is_damaged(rig: LogRig) -> None:
    with segment(rig, 4).open("ab") as grown:
        grown.write(make_batch(1))
    with pytest.raises(DamagedLog):
        checked(rig.log)


def test_a_file_that_is_gone_is_found_although_it_is_still_open(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, SETTINGS)
    rig.fill(END)
    segment(rig, 4).unlink()
    assert rig.log.read_file(4, 1, END)
    with pytest.raises(DamagedLog) as caught:
        checked(rig.log)
    assert caught.value.segment == 4
    assert rig.log.at_rest.lacking() == [4]
    mended(rig.log, 4, no_peer)
    assert checked(rig.log) == END * SIZE
    assert offsets(rig.crash()) == list(range(END))
    rig.close(clean=False)


@pytest.mark.parametrize("base", [4, 12])
@pytest.mark.parametrize("damage", sorted(set(DAMAGES) - {"two batches swapped"}))
def test_a_mended_segment_is_byte_for_byte_what_it_was(
    rig: LogRig, peer: LogRig, damage: str, base: int
) -> None:
    before = segment(rig, base).read_bytes()
    DAMAGES[damage](segment(rig, base))
    mended(rig.log, base, fetch_from(peer))
    assert segment(rig, base).read_bytes() == before
    assert offsets(rig.log) == list(range(END))
    assert checked(rig.log) == END * SIZE
    assert offsets(rig.crash()) == list(range(END))


def test_swapped_batches_are_put_right(rig: LogRig, peer: LogRig) -> None:
    before = segment(rig, 4).read_bytes()
    DAMAGES["two batches swapped"](segment(rig, 4))
    mended(rig.log, 4, fetch_from(peer))
    assert segment(rig, 4).read_bytes() == before


def test_only_what_is_damaged_is_asked_of_peers(rig: LogRig, peer: LogRig) -> None:
    # So two replicas mend each other that are damaged at different places of one segment.
    DAMAGES["a flipped bit in a body"](segment(rig, 4))
    contents = bytearray(segment(peer, 4).read_bytes())
    contents[3 * SIZE - 1] ^= 1
    segment(peer, 4).write_bytes(contents)
    asked: list[int] = []

    def from_peer(offset: int) -> bytes:
        asked.append(offset)
        return b"".join(map(bytes, peer.log.read_file(offset, 1, END)))

    assert mended(rig.log, 4, from_peer).taken == 1
    assert asked == [5]
    assert mended(peer.log, 4, fetch_from(rig)).taken > 0
    assert segment(rig, 4).read_bytes() == segment(peer, 4).read_bytes()


def test_nothing_that_a_peer_sends_is_taken_unless_it_fits(rig: LogRig, peer: LogRig) -> None:
    DAMAGES["a flipped bit in a body"](segment(rig, 4))
    mend = rig.log.at_rest.mend(4)
    assert mend is not None
    assert mend.go_on() == 5
    whole = fetch_from(peer)(5)
    for wrong in (b"", whole[:-1][: SIZE - 1], fetch_from(peer)(6), bytes(SIZE), whole[:-SIZE][:90]):
        assert mend.take(wrong) == 0
    damaged = bytearray(whole[:SIZE])
    damaged[-1] ^= 1
    assert mend.take(bytes(damaged)) == 0
    assert mend.go_on() == 5
    mend.close()
    assert not list(rig.log_directory.glob("*.tmp"))


def test_of_what_a_peer_sends_beyond_the_segment_nothing_is_taken(rig: LogRig, peer: LogRig) -> None:
    # Its segments may begin elsewhere.
    before = segment(rig, 4).read_bytes()
    segment(rig, 4).write_bytes(b"")
    mended(
        rig.log,
        4,
        lambda offset: (
            b"".join(map(bytes, peer.log.read_file(offset, 4 * SIZE, END)))
            + (b"".join(map(bytes, peer.log.read_file(8, 4 * SIZE, END))))
        ),
    )
    assert segment(rig, 4).read_bytes() == before


def test_appends_go_on_while_the_active_segment_is_mended(rig: LogRig, peer: LogRig) -> None:
    DAMAGES["a flipped bit in a body"](segment(rig, 12))
    mend = rig.log.at_rest.mend(12)
    assert mend is not None
    assert mend.go_on() == 13
    mend.take(fetch_from(peer)(13))
    assert mend.go_on() is None
    rig.append(1, epoch=2)
    assert mend.finish()
    mend.close()
    rig.append(1, epoch=2)
    assert rig.log.flush() == END + 2
    assert offsets(rig.log) == list(range(END + 2))
    assert offsets(rig.crash()) == list(range(END + 2))


def test_a_log_that_was_cut_meanwhile_is_left_as_it_is(rig: LogRig) -> None:
    mend = rig.log.at_rest.mend(4)
    assert mend is not None
    assert mend.go_on() is None
    rig.log.truncate_to(6)
    assert not mend.finish()
    mend.close()
    assert offsets(rig.log) == list(range(6))
    assert rig.log.at_rest.mend(8) is None


def test_a_partition_directory_that_is_gone_is_written_anew(rig: LogRig, peer: LogRig) -> None:
    shutil.rmtree(rig.log_directory)
    for base in rig.log.at_rest.segments():
        mended(rig.log, base, fetch_from(peer))
    rig.append(1, epoch=2)
    rig.log.flush()
    assert checked(rig.log) == (END + 1) * SIZE
    again = rig.crash()
    assert offsets(again) == list(range(END + 1))
    assert [entry.epoch for entry in again.epochs.entries] == [1, 2]


@pytest.mark.parametrize("start", [6, 7, 8])
def test_what_nobody_may_read_any_more_need_not_be_whole(rig: LogRig, start: int) -> None:
    DAMAGES["a flipped bit in a body"](segment(rig, 4))
    rig.log.move_start(5)
    with pytest.raises(DamagedLog):
        checked(rig.log)
    rig.log.move_start(start)
    checked(rig.log)
    DAMAGES["a flipped bit in a body"](segment(rig, 8))
    with pytest.raises(DamagedLog) as caught:
        checked(rig.log)
    assert caught.value.offset == 9


def test_a_segment_that_went_missing_between_two_lives_is_fetched_into_the_one_before(
    rig: LogRig, peer: LogRig
) -> None:
    rig.close()
    segment(rig, 4).unlink()
    rig.open()
    with pytest.raises(DamagedLog) as caught:
        checked(rig.log)
    assert (caught.value.segment, caught.value.offset) == (0, 4)
    mended(rig.log, 0, fetch_from(peer))
    assert checked(rig.log) == END * SIZE
    assert rig.log.size_bytes == END * SIZE
    assert offsets(rig.log) == list(range(END))
    assert offsets(rig.restart()) == list(range(END))


# --- what was damaged is kept ------------------------------------------------------------------------------


def kept(rig: LogRig) -> dict[str, bytes]:
    """The damaged segments in quarantine, by log and segment."""
    found = sorted((rig.path / "quarantine").glob("*.damaged.*/*"))
    return {f"{each.parent.name.partition('.')[0]}/{each.name}": each.read_bytes() for each in found}


@pytest.mark.parametrize(
    ("damage", "base"),
    [(each, 4) for each in DAMAGES if each != "a deleted file"] + [("a flipped magic", 12)],
)
def test_a_damaged_segment_that_is_written_anew_is_kept_in_quarantine_as_it_was(
    rig: LogRig, peer: LogRig, damage: str, base: int
) -> None:
    DAMAGES[damage](segment(rig, base))
    damaged = segment(rig, base).read_bytes()
    mend = mended(rig.log, base, fetch_from(peer))
    assert kept(rig) == {f"{rig.log_directory.name}/{base:020d}.log": damaged}
    assert mend.kept_at is not None
    assert Path(mend.kept_at).read_bytes() == damaged
    assert checked(rig.log) == END * SIZE


def test_a_closed_segment_that_has_grown_is_kept_with_what_was_added(rig: LogRig) -> None:
    with segment(rig, 4).open("ab") as grown:
        grown.write(b"from elsewhere")
    mended(rig.log, 4, no_peer)
    assert [each[-14:] for each in kept(rig).values()] == [b"from elsewhere"]


@pytest.mark.parametrize("damage", ["none", "a deleted file"])
def test_nothing_is_kept_where_nothing_is_lost(rig: LogRig, peer: LogRig, damage: str) -> None:
    if damage != "none":
        DAMAGES[damage](segment(rig, 4))
    assert mended(rig.log, 4, fetch_from(peer)).kept_at is None
    assert kept(rig) == {}


def test_a_damaged_segment_is_deleted_when_its_grace_period_is_over(rig: LogRig, peer: LogRig) -> None:
    DAMAGES["a flipped bit in a body"](segment(rig, 4))
    mended(rig.log, 4, fetch_from(peer))
    now_us, grace_us = rig.directory.now_us(), DirectorySettings().quarantine_grace_ms * 1000
    assert rig.directory.delete_expired_quarantine(now_us) == []
    (deleted,) = rig.directory.delete_expired_quarantine(now_us + grace_us + 1)
    assert ".damaged." in deleted
    assert kept(rig) == {}


def test_a_disk_that_damages_again_and_again_does_not_fill_itself_with_copies(
    rig: LogRig, peer: LogRig
) -> None:
    for _ in range(10):
        DAMAGES["a flipped bit in a body"](segment(rig, 4))
        mended(rig.log, 4, fetch_from(peer))
    assert len(list((rig.path / "quarantine").iterdir())) == 8
    assert checked(rig.log) == END * SIZE


@pytest.mark.parametrize("call", ["make_directory", "link"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPERM])
def test_a_segment_is_mended_where_the_damaged_one_cannot_be_kept(
    rig: LogRig, peer: LogRig, call: str, number: int
) -> None:
    DAMAGES["a flipped bit in a body"](segment(rig, 4))
    rig.files.faults.append(Fault(call, number, "quarantine"))
    assert mended(rig.log, 4, fetch_from(peer)).kept_at is None
    assert not list((rig.path / "quarantine").glob("*")), "an empty place would count as one of the eight"
    assert checked(rig.log) == END * SIZE


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_after_a_segment_was_mended_does_not_take_the_damaged_one(
    rig: LogRig, peer: LogRig, seed: int
) -> None:
    rig.log.flush()
    DAMAGES["a flipped bit in a body"](segment(rig, 4))
    damaged = segment(rig, 4).read_bytes()
    mended(rig.log, 4, fetch_from(peer))
    rig.cut_power(seed)
    assert list(kept(rig).values()) == [damaged]
    assert offsets(rig.log) == list(range(END))


def test_a_full_disk_leaves_the_old_file_and_no_other(rig: LogRig, peer: LogRig) -> None:
    DAMAGES["a flipped bit in a body"](segment(rig, 4))
    before = segment(rig, 4).read_bytes()
    rig.files.faults.append(Fault("write_at", errno.ENOSPC, ".log.tmp"))
    with pytest.raises(DiskFull):
        mended(rig.log, 4, fetch_from(peer))
    assert segment(rig, 4).read_bytes() == before
    assert not list(rig.log_directory.glob("*.tmp"))
    mended(rig.log, 4, fetch_from(peer))
    assert checked(rig.log) == END * SIZE


@pytest.mark.parametrize("steps", range(8))
def test_a_power_cut_leaves_the_old_segment_or_the_mended_one(rig: LogRig, peer: LogRig, steps: int) -> None:
    rig.log.flush()
    mended(rig.log, 4, no_peer)
    rig.cut_power(steps)
    assert offsets(rig.log) == list(range(END))


@pytest.mark.parametrize(
    ("damage", "base"), [(each, 4) for each in DAMAGES] + [("a flipped magic", 12), ("a deleted file", 12)]
)
def test_a_cut_into_a_damaged_segment_leaves_what_peers_have(
    rig: LogRig, peer: LogRig, damage: str, base: int
) -> None:
    """No peer has what is beyond the cut: it was never committed, so it can never be mended."""
    DAMAGES[damage](segment(rig, base))
    end_offset = {4: 7, 12: 13}[base]
    assert rig.log.truncate_to(end_offset) == end_offset
    mended(rig.log, base, fetch_from(peer))
    assert offsets(rig.log) == list(range(end_offset))
    assert checked(rig.log) == end_offset * SIZE
    assert rig.append(1, epoch=3) == end_offset + 1
    rig.log.flush()
    assert offsets(rig.cut_power(1)) == list(range(end_offset + 1))


def test_a_cut_into_a_damaged_segment_tells_of_the_damage(rig: LogRig) -> None:
    found: list[DamagedLog] = []
    rig.directory.tell_of_damage(found.append)
    DAMAGES["a deleted file"](segment(rig, 4))
    assert rig.log.truncate_to(6) == 6
    assert [(each.segment, each.offset) for each in found] == [(4, 4)]


@pytest.mark.parametrize("stop", [LogRig.restart, LogRig.crash])
def test_damage_that_is_known_is_known_after_a_restart_which_reads_nothing(
    rig: LogRig, stop: Callable[[LogRig], Log]
) -> None:
    DAMAGES["a flipped bit in a body"](segment(rig, 4))
    assert not rig.log.at_rest.report_gaps()
    rig.log.at_rest.note_damage(is_damaged=True)
    rig.directory.checkpoint_high_watermarks({})
    stop(rig)
    found: list[DamagedLog] = []
    rig.directory.tell_of_damage(found.append)
    assert rig.log.at_rest.report_gaps()
    assert [each.segment for each in found] == [-1], "which one it is nobody has written down"
    rig.log.at_rest.note_damage(is_damaged=False)
    rig.directory.checkpoint_high_watermarks({})
    stop(rig)
    assert not rig.log.at_rest.report_gaps()
