"""What a campaign does to the files of a broker."""

import random
from pathlib import Path

import pytest
from hightide_bench.campaign import damage

PARTITION = "00112233445566778899aabbccddeeff-0"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A data directory with one partition of three segments, the last one empty, and its small files."""
    partition = tmp_path / PARTITION
    partition.mkdir()
    for base in (0, 100):
        (partition / f"{base:020}.log").write_bytes(bytes(range(1, 200)))
    (partition / f"{200:020}.log").touch()
    (partition / "leader_epochs").write_bytes(b"0123456789abcdef")
    (tmp_path / "checkpoints").write_bytes(b"checkpoints of all")
    (tmp_path / "meta.json").write_text("{}")
    return tmp_path


def files(disk: Path) -> dict[str, bytes]:
    """All files, by name."""
    return {str(path.relative_to(disk)): path.read_bytes() for path in disk.rglob("*") if path.is_file()}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", sorted({**damage.OFFLINE, **damage.LIVE}))
def test_each_damage_changes_the_files_and_says_what_it_did(disk: Path, kind: str, seed: int) -> None:
    """A campaign that damages nothing would prove nothing."""
    before = files(disk)
    what = {**damage.OFFLINE, **damage.LIVE}[kind](disk, random.Random(seed))
    assert what != ""
    assert files(disk) != before


@pytest.mark.parametrize("kind", sorted({**damage.OFFLINE, **damage.LIVE}))
def test_where_there_is_nothing_to_damage_nothing_is_said(tmp_path: Path, kind: str) -> None:
    """The table of a campaign counts what was done only."""
    what = {**damage.OFFLINE, **damage.LIVE}[kind](tmp_path, random.Random(1))
    assert what in ("", "the disk was replaced by an empty one")


def test_a_flip_changes_one_bit(disk: Path) -> None:
    """A disk that lies changes little."""
    before = files(disk)
    damage.flip_bits(disk, random.Random(2))
    after = files(disk)
    changed = [
        (one ^ other).bit_count()
        for name, content in before.items()
        for one, other in zip(content, after[name], strict=True)
    ]
    assert 1 <= sum(changed) <= 3


def test_the_segment_that_is_written_to_is_left_alone_while_the_broker_runs(disk: Path) -> None:
    """A broker that writes on into a file that is gone is another story."""
    for seed in range(20):
        damage.flip_bits(disk, random.Random(seed))
    assert files(disk)[f"{PARTITION}/{100:020}.log"] == bytes(range(1, 200))
