"""A log that lacks a segment when it is opened: it is repaired, or fetched anew, before it is in sync."""

from __future__ import annotations

from pathlib import Path

import pytest
from control_rig import OK, Rig, decision, run, until_settled
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.storage import DamagedLog


def test_a_replica_that_lacks_a_segment_is_damaged_from_its_first_decision_on(tmp_path: Path) -> None:
    """Its end is where it was: its leader would take it for in sync."""

    async def before(rig: Rig) -> None:
        await rig.decide(decision())
        for _ in range(3):
            rig.produce()
            rig.replica().log.roll()

    run(tmp_path, before)
    first, second, *_ = sorted(tmp_path.glob("**/*.log"))
    second.unlink()

    async def after(rig: Rig) -> None:
        found: list[DamagedLog] = []
        rig.directories.tell_of_damage(found.append)
        await rig.decide(decision(leader=2, epoch=1))
        assert rig.replica().is_held, "it fetches nothing"
        await until_settled()
        assert [each.segment for each in found] == [int(first.stem)]

    run(tmp_path, after)


def lose_the_front(path: Path) -> None:
    """An earlier life had the partition, and lost its first segment. The start of the next one did not look
    at the log: the partition is not assigned to it yet."""

    async def before(rig: Rig) -> None:
        await rig.decide(decision())
        for _ in range(3):
            rig.produce()
            rig.replica().log.roll()

    run(path, before)
    first, *_ = sorted(path.glob("**/*.log"))
    first.unlink()


def test_a_replica_that_lacks_its_oldest_records_fetches_all_anew_if_others_have_them(tmp_path: Path) -> None:
    """A follower never fetches what lies before its log, and as a leader it would pass the gap on."""
    lose_the_front(tmp_path)

    async def after(rig: Rig) -> None:
        assert await rig.decide(decision(leader=2, epoch=1, isr=(2,))) == [OK]
        replica = rig.replica()
        assert (replica.state.log_start_offset, replica.state.log_end_offset) == (0, 0)
        assert len(rig.quarantined()) == 1

    run(tmp_path, after)


@pytest.mark.parametrize("leader", [1, 2])
def test_as_long_as_others_count_on_it_it_neither_serves_nor_fetches(tmp_path: Path, leader: int) -> None:
    lose_the_front(tmp_path)

    async def after(rig: Rig) -> None:
        told = await rig.decide(decision(leader=leader, epoch=1, isr=(1, 2)))
        assert told == [ErrorCode.ERROR_CODE_STORAGE_FAILED]
        assert not rig.runs()
        assert rig.quarantined() == []

    run(tmp_path, after)


def test_if_no_other_has_them_it_keeps_what_it_has(tmp_path: Path) -> None:
    lose_the_front(tmp_path)

    async def after(rig: Rig) -> None:
        assert await rig.decide(decision(leader=-1, epoch=1, isr=(1,))) == [OK]
        assert rig.replica().state.log_end_offset == 3
        assert rig.quarantined() == []

    run(tmp_path, after)


def test_one_that_runs_without_them_fetches_all_anew_once_others_have_them(tmp_path: Path) -> None:
    """It lacks them as long as it runs, and no repair brings them back."""
    lose_the_front(tmp_path)

    async def after(rig: Rig) -> None:
        assert await rig.decide(decision(leader=-1, epoch=1, isr=(1,), version=4)) == [OK]
        assert rig.replica().is_held, "it is damaged"
        assert await rig.decide(decision(leader=2, epoch=2, isr=(1, 2), version=5)) == [OK]
        assert rig.replica().state.log_end_offset == 3, "others count on it"
        assert await rig.decide(decision(leader=2, epoch=3, isr=(2,), version=6)) == [OK]
        replica = rig.replica()
        assert (replica.state.log_start_offset, replica.state.log_end_offset) == (0, 0)
        assert len(rig.quarantined()) == 1

    run(tmp_path, after)


def test_an_earlier_decision_does_not_put_a_log_aside_that_later_is_the_last(tmp_path: Path) -> None:
    lose_the_front(tmp_path)

    async def after(rig: Rig) -> None:
        assert await rig.decide(decision(leader=-1, epoch=2, isr=(1,), version=5)) == [OK]
        await rig.decide(decision(leader=2, epoch=1, isr=(2,), version=4))
        assert rig.replica().state.log_end_offset == 3
        assert rig.quarantined() == []

    run(tmp_path, after)
