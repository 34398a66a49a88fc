"""Orders that waited while a newer controller spoke: they change nothing, and leave nothing behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

from control_rig import TOPIC_ID, Rig, decision, leave_a_log, run, stamp, stop, until_settled, update
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.core.replica import Role
from hightide_broker.hosting.control import BREATHE_EVERY


def test_an_older_controller_that_waits_for_a_disk_decides_nothing_any_more(tmp_path: Path) -> None:
    leave_a_log(tmp_path)

    async def scenario(rig: Rig) -> None:
        with rig.busy_disk():
            late = asyncio.create_task(rig.decide(decision(leader=2, epoch=1)))
            await until_settled()
            await rig.control.update_metadata(stamp(controller_epoch=6), update())
        assert await late == [ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH]
        assert rig.replica().state.role is Role.IDLE

    run(tmp_path, scenario)


def test_a_replica_that_was_opened_for_an_older_controller_is_looked_into(tmp_path: Path) -> None:
    """The newer controller has told of all partitions before the replica was here: it took nothing away."""

    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(epoch=3, first_epoch=3))
        rig.produce()
        with rig.busy_disk():
            late = asyncio.create_task(rig.decide(decision(leader=2, epoch=4, first_epoch=4)))
            await until_settled()
            await rig.control.update_metadata(stamp(controller_epoch=6), update(full=True))
            assert rig.suspects == [], "there is nothing yet to look into"
        assert await late == [ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH]
        assert rig.runs()
        assert rig.suspects == [(TOPIC_ID, 0)]

    run(tmp_path, scenario)


def test_a_replica_is_looked_into_also_where_the_controller_gave_up_waiting_for_others(
    tmp_path: Path,
) -> None:
    leave_a_log(tmp_path)

    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(1))
        await rig.stop(stop(1))
        with rig.busy_disk():
            late = asyncio.create_task(rig.decide(decision(1), decision(leader=2, epoch=1)))
            await until_settled()
            late.cancel()
            await until_settled()
        assert rig.runs(1)
        assert rig.suspects == [(TOPIC_ID, 1)]

    run(tmp_path, scenario)


def test_clients_hear_nothing_of_an_older_controllers_decisions(tmp_path: Path) -> None:
    """The first of many is carried out, and a newer controller speaks before the last."""

    async def scenario(rig: Rig) -> None:
        late = asyncio.create_task(rig.decide(*map(decision, range(BREATHE_EVERY + 1))))
        await asyncio.sleep(0)
        assert rig.runs(BREATHE_EVERY - 1)
        assert not rig.runs(BREATHE_EVERY)
        await rig.control.update_metadata(stamp(controller_epoch=6), update(full=True))
        assert (await late)[-1] == ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH
        assert rig.metadata.topics() == []

    run(tmp_path, scenario)
