"""Entrants are measured in turns, and a failure costs a figure and not the run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hightide_bench.peers.clusters.peer_cluster import PeerCluster, System
from hightide_bench.peers.ground import disk_bytes, ground
from hightide_bench.peers.page_cache import PageCache
from hightide_bench.peers.rows.row import Entrant, Figure, Figures, PeersPlan, Row, Stage
from hightide_bench.peers.turns import run_row
from hightide_local.errors import ClusterError


def no_cluster(system: System) -> PeerCluster:
    raise AssertionError(system)


class CountedRow(Row):
    """Each measurement is its number; those that are named fail."""

    name, title, kafka = "counted", "counted", None
    figures = (Figure("number", "number", "higher"),)
    is_bulk = True

    def __init__(self, failing: tuple[int, ...] = ()) -> None:
        self.calls: list[str] = []
        self._failing = failing

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        def measure(entrant: Entrant) -> Figures:
            self.calls.append(entrant.name)
            if len(self.calls) in self._failing:
                raise ClusterError("it fell over")
            return {"number": float(len(self.calls))}

        yield measure
        self.calls.append("closed")


STAGE = Stage({}, PeersPlan(rounds=2, seconds=1, size_mb=1, partitions=1), no_cluster, Path())
FORWARDS = ["hightide", "kafka default", "kafka tuned"]


def test_every_second_round_goes_backwards_and_the_first_one_does_not_count() -> None:
    row, filled = CountedRow(), [0]

    def fill() -> None:
        filled[0] += 1

    result = run_row(row, STAGE, fill, lambda line: None)
    assert row.calls == [*reversed(FORWARDS), *FORWARDS, *reversed(FORWARDS), "closed"]
    assert [each["hightide"] for each in result.rounds] == [{"number": 4.0}, {"number": 9.0}]
    assert filled == [9], "the page cache is filled before each turn"


def test_a_measurement_that_fails_is_told_and_the_next_one_is_measured() -> None:
    said: list[str] = []
    result = run_row(CountedRow(failing=(5,)), STAGE, lambda: None, said.append)
    assert result.failures == ["counted, round 1, kafka default: it fell over"]
    assert result.failures[0] in said
    assert [sorted(each) for each in result.rounds] == [["hightide", "kafka tuned"], sorted(FORWARDS)]


def test_a_folder_of_data_is_empty_at_the_beginning_and_gone_at_the_end(tmp_path: Path) -> None:
    with ground(tmp_path / "disk", 1) as first:
        (first / "left").write_text("by a run that was killed")
        with pytest.raises(ClusterError, match="another `bench peers` runs"), ground(tmp_path / "disk", 1):
            pass
    assert not first.exists()
    first.mkdir()
    (first / "left").write_text("by a run that was killed")
    with ground(tmp_path / "disk", 1) as second:
        assert list(second.iterdir()) == []


def test_a_disk_with_too_little_room_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with (
        pytest.raises(ClusterError, match=r"may take 1000000\.0 GB"),
        ground(tmp_path, 10**15),
    ):
        pytest.fail("it began")


def test_topics_to_read_take_room_in_both_systems_three_times() -> None:
    assert disk_bytes(1_000) - disk_bytes(0) == 6 * 10**9


def test_the_page_cache_is_filled_until_little_memory_is_free(tmp_path: Path) -> None:
    free = [(256 << 20) + (5 << 20), (256 << 20) - 1]
    path = tmp_path / "page-cache"
    with PageCache(path, lambda: free.pop(0)) as cache:
        assert path.stat().st_blocks == 0, "it takes no room on the disk"
        assert [cache.fill(), cache.fill()] == [5 << 20, 0]
    assert not path.exists()
