"""A log that lacks a segment in its middle when the broker starts: it is repaired before it is in sync."""

from __future__ import annotations

from pathlib import Path

from control_rig import Rig, decision, run, until_settled
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
