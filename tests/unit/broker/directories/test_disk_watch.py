"""A call to a disk that clients wait for too long is told, and one that never returns is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hightide_broker.directories.disk_watch import PATIENCE_MIN_S, DiskWatch, patience_s
from hightide_broker.directories.log_directories import LogDirectory
from hightide_broker.storage import StorageFailed

LOOK_S = 0.5
PATIENCE_S = 5.0
TIMEOUT_S = 30.0


class Watched:
    """A disk whose calls begin and end when the test says so, looked at twice a second."""

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S, patience_s: float = PATIENCE_S) -> None:
        self.disk = LogDirectory(0, path)
        self.watch = DiskWatch([self.disk], timeout_s, lambda: patience_s)
        self.told: list[str] = []
        self.watch.tell(
            lambda disk, calls: self.told.append(f"waits for {', '.join(sorted(calls))}"),
            lambda disk: self.told.append("answers"),
        )

    def begins(self, call: str, thread: int = 1) -> None:
        self.disk.calls._under_way[thread] = [call]

    def ends(self, thread: int = 1) -> None:
        del self.disk.calls._under_way[thread]

    async def looks(self, seconds: float) -> list[str]:
        """What is told meanwhile."""
        self.told.clear()
        for _ in range(int(seconds / LOOK_S)):
            self.watch.look(LOOK_S)
        await asyncio.sleep(0)
        return list(self.told)


def run(path: Path, scenario: Callable[[Watched], object], **options: float) -> None:
    async def main() -> None:
        result = scenario(Watched(path, **options))
        assert asyncio.iscoroutine(result)
        await result

    asyncio.run(main())


def test_a_call_that_clients_wait_for_too_long_is_told_while_it_lasts_and_when_it_is_over(
    tmp_path: Path,
) -> None:
    async def scenario(watched: Watched) -> None:
        watched.begins("sync")
        assert await watched.looks(PATIENCE_S) == []
        assert await watched.looks(1.0) == ["waits for sync"]
        assert await watched.looks(1.0) == ["waits for sync"] * 2
        watched.ends()
        assert await watched.looks(PATIENCE_S - LOOK_S) == [], "it may hang again at once"
        assert await watched.looks(LOOK_S) == ["answers"]
        assert await watched.looks(60.0) == []

    run(tmp_path, scenario)


def test_a_disk_that_is_slow_and_answers_is_left_alone(tmp_path: Path) -> None:
    """Syncs of five seconds, one after the other, for ten minutes."""

    async def scenario(watched: Watched) -> None:
        for _ in range(120):
            watched.begins("sync")
            assert await watched.looks(5.0) == []
            watched.ends()
        assert watched.disk.failure is None

    run(tmp_path, scenario)


def test_a_disk_that_hangs_now_and_then_is_told_once_until_it_has_been_well_for_as_long(
    tmp_path: Path,
) -> None:
    async def scenario(watched: Watched) -> None:
        for _ in range(3):
            watched.begins("sync")
            assert set(await watched.looks(10.0)) == {"waits for sync"}
            watched.ends()
            assert await watched.looks(1.0) == []
        assert await watched.looks(PATIENCE_S) == ["answers"]

    run(tmp_path, scenario)


def test_all_calls_that_hang_are_named_also_behind_a_longer_one(tmp_path: Path) -> None:
    async def scenario(watched: Watched) -> None:
        watched.begins("sync", thread=1)
        await watched.looks(2.0)
        watched.begins("read_at", thread=2)
        assert (await watched.looks(6.0))[-1] == "waits for read_at, sync"

    run(tmp_path, scenario)


def test_a_disk_that_never_answers_is_given_up_once(tmp_path: Path) -> None:
    async def scenario(watched: Watched) -> None:
        watched.begins("sync")
        await watched.looks(TIMEOUT_S + 1.0)
        assert watched.disk.is_given_up
        with pytest.raises(StorageFailed, match=r"sync has not returned for 3[01] s"):
            await watched.disk.run(lambda: None)
        watched.ends()
        assert await watched.looks(60.0) == [], "it is offline until the broker is started again"

    run(tmp_path, scenario)


def test_a_disk_may_be_given_up_before_anything_is_handed_over(tmp_path: Path) -> None:
    async def scenario(watched: Watched) -> None:
        watched.begins("sync")
        assert await watched.looks(3.0) == []
        assert watched.disk.is_given_up

    run(tmp_path, scenario, timeout_s=2.0)


@pytest.mark.parametrize(
    ("granted_ms", "expected_s"), [(6_000, 5.0), (2_000, PATIENCE_MIN_S), (18_000, 15.0)]
)
def test_clients_wait_less_than_a_session_lasts_and_longer_than_a_sync_takes(
    granted_ms: int, expected_s: float
) -> None:
    assert patience_s(granted_ms) == pytest.approx(expected_s)


def test_nothing_is_handed_over_while_there_is_no_session() -> None:
    assert patience_s(0) == float("inf")
