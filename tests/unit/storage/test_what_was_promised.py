"""Whoever opens a log compares what is there with what was: what is missing is noticed, and nothing else."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from faulty_files import Fault, FaultyFiles, SimulatedCrash
from hightide.batch.header import check_from_producer
from hightide_broker.storage import DamagedLog, DataDirectory, Flush, LogSettings
from log_rig import KEY, LogRig, apply_retention
from stored_batches import TOPIC_ID, make_batch

SIZE = len(make_batch(1, producer=(7, 0, 0)))
SETTINGS = LogSettings(segment_bytes=4 * SIZE, index_interval_bytes=SIZE)
START, FIRST, END = 5, 4, 22
"""Of the log; its segments begin at 4, 8, 12, 16 and 20."""


def written(path: Path, *, is_checkpointed: bool = True) -> LogRig:
    """Batches of one record each; epochs 1, 2 and 3 begin at 0, 10 and 18. Deleted in front of 5."""
    rig = LogRig(path, SETTINGS)
    for at in range(END):
        rig.append(1, epoch=1 + (at >= 10) + (at >= 18), producer=(7, 0, at))
        if at == 13:
            rig.log.flush()
            rig.log.move_start(START)
            apply_retention(rig.log, 0, 13)
            if is_checkpointed:
                rig.directory.checkpoint_high_watermarks({KEY: 14})
    assert rig.names(".log") == ["4", "8", "12", "16", "20"]
    return rig


Contents = tuple[int, int, list[bytes], object, list[tuple[int, int, int, int]]]


def contents_of(rig: LogRig) -> Contents:
    """All that a log says. Raises DamagedLog."""
    log = rig.log
    batches = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        batches.append(b"".join(log.read(offset, 1, log.log_end_offset)))
        offset += 1
    producers = [
        (each.producer_id, each.producer_epoch, each.next_sequence, each.end_offset)
        for each in log.describe_producers([])
    ]
    return log.log_start_offset, log.log_end_offset, batches, log.epochs.entries, producers


def is_noticed(rig: LogRig) -> bool:
    return rig.log.lost_data or rig.directory.lost_checkpoints or not rig.directory.knows_its_logs


def last(rig: LogRig) -> Path:
    return rig.segments()[-1]


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def flip(path: Path, at: int) -> None:
    contents = bytearray(path.read_bytes())
    contents[at] ^= 0x10
    path.write_bytes(contents)


def unlink(paths: list[Path]) -> None:
    for path in paths:
        path.unlink()


def empty(paths: list[Path]) -> None:
    for path in paths:
        cut(path, 0)


LOSSES: dict[str, Callable[[LogRig], object]] = {
    "the last segment cut at a batch": lambda rig: cut(last(rig), SIZE),
    "cut within one": lambda rig: cut(last(rig), SIZE + 30),
    "cut to nothing": lambda rig: cut(last(rig), 0),
    "its last batch zeroed": lambda rig: last(rig).write_bytes(last(rig).read_bytes()[:SIZE] + bytes(SIZE)),
    "all of it zeroed": lambda rig: zero(last(rig)),
    "the last segment gone": lambda rig: unlink([last(rig)]),
    "the last two gone": lambda rig: unlink(rig.segments()[-2:]),
    "the oldest gone": lambda rig: unlink(rig.segments()[:1]),
    "the oldest three gone": lambda rig: unlink(rig.segments()[:3]),
    "one in the middle gone": lambda rig: unlink(rig.segments()[1:2]),
    "one in the middle cut at a batch": lambda rig: cut(rig.segments()[1], 2 * SIZE),
    "one in the middle cut to nothing": lambda rig: cut(rig.segments()[1], 0),
    "all segments gone": lambda rig: unlink(rig.segments()),
    "all segments cut to nothing": lambda rig: empty(rig.segments()),
    "the directory emptied": lambda rig: unlink(list(rig.log_directory.iterdir())),
    "the directory gone": lambda rig: shutil.rmtree(rig.log_directory),
}


@pytest.mark.parametrize("stop", ["clean", "killed", "killed before a checkpoint"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_log_that_lost_something_says_so(tmp_path: Path, loss: str, stop: str) -> None:
    rig = written(tmp_path, is_checkpointed=stop == "killed")
    rig.close(clean=stop == "clean")
    LOSSES[loss](rig)
    rig.settles = False
    rig.open()
    if "zeroed" in loss and stop == "clean":
        # Nothing is read then; whoever does is told.
        with pytest.raises(DamagedLog):
            contents_of(rig)
    else:
        assert rig.log.lost_data
    assert not rig.directory.failed
    assert rig.log.high_watermark_checkpoint <= rig.log.log_end_offset
    rig.close(clean=False)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_whose_directory_is_gone_is_missed_and_one_that_was_empty_is_not(
    tmp_path: Path, clean: bool
) -> None:
    rig = written(tmp_path)
    rig.directory.log(TOPIC_ID, 99, True, "flights", SETTINGS).assign_epoch(3, 0)
    rig.close(clean)
    shutil.rmtree(rig.log_directory)
    directory = rig.open_directory()
    assert directory.is_missing(*KEY)
    assert not directory.is_missing(TOPIC_ID, 99)
    rig.close(clean=False)


@pytest.mark.parametrize("stop", [LogRig.restart, LogRig.crash])
def test_a_log_that_lost_nothing_says_nothing(tmp_path: Path, stop: Callable[[LogRig], object]) -> None:
    rig = written(tmp_path)
    before = contents_of(rig)
    for _ in range(2):
        stop(rig)
        assert not is_noticed(rig)
        assert contents_of(rig) == before
    rig.close()


@pytest.mark.parametrize("is_checkpointed", [True, False])
def test_a_log_that_was_killed_is_opened_and_read_on_a_full_disk(
    tmp_path: Path, is_checkpointed: bool
) -> None:
    """A broker that cannot open it says that it has nothing, and another one leads that has less."""
    rig = written(tmp_path, is_checkpointed=is_checkpointed)
    before = contents_of(rig)
    rig.close(clean=False)
    for index in rig.log_directory.glob("*index"):
        index.unlink()
    files = FaultyFiles(rig.files)
    files.faults.append(Fault("write_at", errno.ENOSPC, lasting=True))
    rig.directory = DataDirectory.open(rig.path, "cluster", 1, files=files)
    rig.log = rig.directory.log(*KEY, False, "flights", SETTINGS)
    assert not rig.log.lost_data
    assert contents_of(rig) == before
    rig.close(clean=False)


@pytest.mark.parametrize("size", [20, 24, 40])
def test_so_is_one_of_which_a_power_cut_took_leader_epochs(tmp_path: Path, size: int) -> None:
    """A file cannot be written anew there. What is missing finds room at its end."""
    rig = written(tmp_path)
    before = contents_of(rig)
    rig.close(clean=False)
    cut(rig.log_directory / "leader_epochs", size)
    files = FaultyFiles(rig.files)
    files.faults.append(Fault("write_at", errno.ENOSPC, ".tmp", lasting=True))
    rig.directory = DataDirectory.open(rig.path, "cluster", 1, files=files)
    rig.log = rig.directory.log(*KEY, False, "flights", SETTINGS)
    assert not rig.log.lost_data
    assert contents_of(rig) == before
    rig.directory.settle()
    rig.crash()
    assert contents_of(rig) == before
    rig.close()


def test_what_was_lost_stays_said_until_it_has_been_acted_on(tmp_path: Path) -> None:
    """A crash between recovery and leaving the ISR must not make it forgotten: the log looks whole then."""
    rig = written(tmp_path)
    rig.close(clean=False)
    cut(last(rig), SIZE)
    rig.settles = False
    for _ in range(2):
        rig.open()
        assert rig.log.lost_data
        rig.close(clean=False)
    rig.settles = True
    assert rig.open().lost_data
    rig.close(clean=False)
    assert not rig.open().lost_data
    rig.close()


def test_what_is_left_after_a_loss_is_promised_at_once(tmp_path: Path) -> None:
    """Also if nothing is appended to it. Its directory was taken away later, and nobody missed it."""
    rig = written(tmp_path, is_checkpointed=False)
    rig.close(clean=False)
    unlink(rig.segments()[1:2])
    rig.files.cut_power(Random(1))
    assert rig.open().lost_data
    rig.close(clean=False)
    shutil.rmtree(rig.log_directory)
    assert rig.open().lost_data


def test_a_cut_on_a_leaders_word_is_no_loss(tmp_path: Path) -> None:
    """Also below the high watermark and the recovery point that were written down."""
    rig = written(tmp_path)
    rig.log.flush()
    rig.directory.checkpoint_high_watermarks({KEY: END})
    rig.log.truncate_to(9)
    assert not rig.crash().lost_data
    assert rig.log.log_end_offset == 9
    rig.log.truncate_and_start_at(100)
    assert not rig.crash().lost_data
    rig.log.truncate_and_start_at(50)
    assert not rig.crash().lost_data
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (50, 50)
    rig.close()


@pytest.mark.parametrize("act", [lambda rig: rig.log.truncate_to(9), lambda rig: rig.append(1, epoch=3)])
def test_a_crash_at_any_step_of_it_is_no_loss(tmp_path: Path, act: Callable[[LogRig], object]) -> None:
    for steps in range(40):
        rig = written(tmp_path / str(steps))
        rig.files.crash_in = steps
        try:
            act(rig)
        except SimulatedCrash:
            rig.files.crash_in, rig.files.crashed = None, False
            assert not rig.crash().lost_data, steps
            rig.close()
        else:
            rig.files.crash_in = None
            rig.close()
            return
    pytest.fail("it takes fewer steps")


def test_a_log_that_took_the_name_of_one_that_was_put_aside_is_not_held_to_what_that_one_had(
    tmp_path: Path,
) -> None:
    rig = written(tmp_path)
    rig.directory.checkpoint_high_watermarks({KEY: END})
    rig.directory.quarantine(*KEY, now_us=1)
    rig.log = rig.directory.log(*KEY, True, "flights", SETTINGS)
    rig.append(1)
    assert not rig.crash().lost_data
    assert rig.log.log_end_offset == 1
    rig.close(clean=False)
    (segment,) = rig.segments()
    flip(segment, SIZE // 2)
    rig.open()
    assert rig.log.lost_data, "nothing of it was ever synced, so all of it is read"
    rig.close()


def test_a_start_without_room_for_marks_does_not_leave_those_of_the_life_before(tmp_path: Path) -> None:
    """The machine has not gone down, so they would be believed after a kill, each with two places."""
    rig = LogRig(tmp_path, SETTINGS)
    rig.directory.log(TOPIC_ID, 99, True, "flights", SETTINGS)
    rig.close(clean=False)
    rig.open_directory()
    other = rig.directory.log(TOPIC_ID, 99, True, "flights", SETTINGS)
    batch = make_batch(1, partition=99)
    other.append_as_leader(batch, check_from_producer(batch, TOPIC_ID, 99, 1 << 20), 1)
    rig.log = rig.directory.log(*KEY, True, "flights", SETTINGS)
    rig.append(1)
    rig.directory.quarantine(TOPIC_ID, 99, now_us=1)
    rig.close()
    files = FaultyFiles(rig.files)
    files.faults.append(Fault("write_at", errno.ENOSPC, "marks.tmp", lasting=True))
    rig.directory = DataDirectory.open(rig.path, "cluster", 1, files=files)
    rig.log = rig.directory.log(*KEY, False, "flights", SETTINGS)
    rig.append(1)
    rig.append(1)
    rig.close(clean=False)
    cut(last(rig), SIZE)
    rig.settles = False
    rig.open()
    assert is_noticed(rig)
    rig.close(clean=False)


def test_a_power_cut_makes_nobody_believe_marks_that_were_never_synced(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, LogSettings(flush=Flush.FSYNC))
    rig.fill(5)
    rig.log.flush()
    rig.directory.checkpoint_high_watermarks({KEY: 5})
    rig.fill(5)
    for seed in range(20):
        rig.cut_power(seed)
        assert rig.log.log_end_offset >= 5
        assert not rig.log.lost_data
        rig.fill(5)
    rig.close()


def test_what_was_acknowledged_before_flush_fsync_is_not_taken_for_synced(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, LogSettings())
    rig.fill(5)
    rig.directory.checkpoint_high_watermarks({KEY: 5})
    rig.log.update_settings(LogSettings(flush=Flush.FSYNC))
    assert not rig.log.promises.acks_are_synced
    rig.fill(1)
    rig.directory.checkpoint_high_watermarks({KEY: 5})
    rig.cut_power(1)
    assert not rig.directory.acks_were_synced(*KEY)
    rig.log.update_settings(LogSettings(flush=Flush.FSYNC))
    rig.fill(1)
    rig.log.flush()
    rig.directory.checkpoint_high_watermarks({KEY: 5})
    rig.cut_power(1)
    assert rig.directory.acks_were_synced(*KEY)
    rig.close()


SMALL_FILES = ["leader_epochs", "log_start", "*.index", "*.timeindex", "*.producers", "partition.json"]
OF_THE_DIRECTORY = ["checkpoints", "marks", ".clean", "ageing"]
SMALL_DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut by a byte": lambda path: cut(path, path.stat().st_size - 1),
    "cut by five": lambda path: cut(path, path.stat().st_size - 5),
    "cut by an entry": lambda path: cut(path, path.stat().st_size - 16),
    "cut in half": lambda path: cut(path, path.stat().st_size // 2),
    "empty": lambda path: cut(path, 0),
    "missing": lambda path: path.unlink(),
    "zeroed": zero,
    "first bit flipped": lambda path: flip(path, 0),
    "last bit flipped": lambda path: flip(path, path.stat().st_size - 1),
    "garbage": lambda path: path.write_bytes(b"\xff" * 100),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\x01" * 16),
}


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("damage", SMALL_DAMAGES)
@pytest.mark.parametrize("name", [*SMALL_FILES, *OF_THE_DIRECTORY])
def test_no_small_file_stops_a_broker_or_changes_a_log(
    tmp_path: Path, name: str, damage: str, clean: bool
) -> None:
    """It is rebuilt, or what it said is known from elsewhere, or the directory vouches for nothing."""
    rig = written(tmp_path)
    before = contents_of(rig)
    rig.close(clean)
    paths = [*rig.log_directory.glob(name), *rig.path.glob(name)]
    assert paths or name in (".clean", "ageing")
    for path in paths:
        SMALL_DAMAGES[damage](path)
    rig.open()
    assert not rig.directory.failed
    assert not rig.log.lost_data
    assert contents_of(rig) == before
    if name == "checkpoints":
        assert rig.directory.lost_checkpoints
    elif name == "marks" and not clean and damage not in ("longer", "last bit flipped"):  # behind its records
        assert not rig.directory.knows_its_logs
    else:
        assert not is_noticed(rig) or name == ".clean"
    rig.append(1, epoch=3)
    assert rig.crash().log_end_offset == END + 1
    rig.close()


def damage_at_random(path: Path, random: Random) -> None:
    size = path.stat().st_size
    at = random.randrange(size) if size else 0
    kind = random.randrange(5)
    if kind == 0:
        path.unlink()
    elif kind == 1:
        cut(path, at)
    elif kind == 2 and size:
        flip(path, at)
    elif kind == 3:
        contents = bytearray(path.read_bytes())
        contents[at : at + SIZE] = bytes(len(contents[at : at + SIZE]))
        path.write_bytes(contents)
    else:
        path.write_bytes(path.read_bytes() + random.randbytes(random.randrange(1, 2 * SIZE)))


@pytest.fixture(scope="module", params=[True, False], ids=["clean", "killed"])
def stopped(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Contents]:
    rig = written(tmp_path_factory.mktemp("stopped"))
    before = contents_of(rig)
    rig.close(clean=request.param)
    return rig.path, before


@pytest.mark.parametrize("seeds", [range(at, at + 50) for at in range(0, 400, 50)], ids=lambda each: each[0])
def test_a_log_that_was_damaged_anyhow_is_as_before_or_says_so(
    stopped: tuple[Path, Contents], tmp_path: Path, seeds: range
) -> None:
    for seed in seeds:
        random = Random(seed)
        path = tmp_path / str(seed)
        shutil.copytree(stopped[0], path / "data")
        # An identity that is damaged stops a broker, and says why.
        names = sorted(
            each
            for each in (path / "data").rglob("*")
            if each.is_file() and each.name not in ("meta.json", ".lock")
        )
        for name in random.sample(names, random.choice([1, 1, 1, 2, 3])):
            damage_at_random(name, random)
        rig = LogRig(path, SETTINGS)
        with suppress(DamagedLog):
            assert is_noticed(rig) or contents_of(rig) == stopped[1], seed
        assert not rig.directory.failed, seed
        rig.close(clean=False)
        shutil.rmtree(path)


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_follows_a_segment_that_was_cut_to_nothing_stays_as_if_that_was_gone(
    tmp_path: Path, stop: str, place: int
) -> None:
    """It may be the last copy. It was put into quarantine, though the next segment was whole."""
    rig = written(tmp_path, is_checkpointed=False)
    rig.log.flush()
    rig.directory.checkpoint_high_watermarks({KEY: END})
    rig.close(clean=stop == "clean")
    cut(rig.segments()[place], 0)
    rig.settles = False
    rig.open()
    assert rig.log.lost_data
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (START, END)
    behind = FIRST + 4 * (place + 1)
    assert b"".join(rig.log.read(behind, 1, END))
    with pytest.raises(DamagedLog):
        rig.log.read(behind - 1, 1, END)
    assert rig.log.at_rest.report_gaps()
    assert rig.log.lacks_front == (place == 0)
    rig.close(clean=False)
