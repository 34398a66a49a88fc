"""DeleteRecords on real logs: answered when it is durable, refused where it is not; and the room on disks."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest
from control_rig import ME, TOPIC_ID, Rig, decision, run
from faulty_files import Fault
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.contract.convert_deletions import deletions_out
from hightide_broker.contract.convert_descriptions import replicas_out
from hightide_broker.contract.data_calls import PartitionDeletion, PartitionRefused
from hightide_broker.contract.descriptions import DescribedDirectory
from hightide_broker.data.delete_records import RecordDeletion
from hightide_broker.data.log_start_writer import LogStartWriter
from hightide_broker.directories.disk_space import DiskSpace


async def leading(rig: Rig, records: int = 4) -> RecordDeletion:
    """The only replica, so that what is appended is committed."""
    await rig.decide(decision(isr=(ME,), replicas=(ME,)))
    for _ in range(records):
        rig.produce()
    log_starts = rig.shell.ports.log_starts
    assert isinstance(log_starts, LogStartWriter)
    return RecordDeletion(ME, rig.replicas, rig.metadata, rig.shell, log_starts)


async def delete(
    deletion: RecordDeletion, before: int, *, validate_only: bool = False
) -> int | PartitionRefused:
    (outcome,) = await deletion.delete(
        [PartitionDeletion((TOPIC_ID, 0), before)], validate_only=validate_only
    )
    return outcome


def file_of(rig: Rig) -> Path:
    return Path(rig.replica().log.data_directory) / f"{TOPIC_ID.hex()}-0" / "log_start"


def test_it_is_answered_when_it_is_on_disk_and_not_before(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        deletion = await leading(rig)
        with rig.busy_disk():
            asked = asyncio.create_task(delete(deletion, 3))
            await asyncio.sleep(0)
            assert rig.replica().state.log_start_offset == 3, "nobody reads below from now on"
            assert not asked.done()
            assert not file_of(rig).exists()
        assert await asked == 3
        assert file_of(rig).exists()

    run(tmp_path, scenario)


def test_a_full_disk_refuses_it_until_there_is_room(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        deletion = await leading(rig)
        rig.files.faults.append(Fault("write_at", errno.ENOSPC, "log_start", lasting=True))
        outcome = await delete(deletion, 3)
        assert isinstance(outcome, PartitionRefused)
        assert outcome.code == ErrorCode.ERROR_CODE_DISK_FULL
        assert not file_of(rig).exists()
        rig.files.faults.clear()
        assert await delete(deletion, 3) == 3, "the same again is not taken for done"
        assert file_of(rig).exists()

    run(tmp_path, scenario)


def test_a_full_disk_is_tried_again_in_the_room_that_the_deletion_makes(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        deletion = await leading(rig)
        rig.replica().log.roll()
        rig.produce()
        rig.files.faults.append(Fault("write_at", errno.ENOSPC, "log_start", lasting=True))

        def make_room_by_removing(call: str, _path: str) -> None:
            if call == "remove":
                rig.files.faults.clear()

        rig.files.on_call = make_room_by_removing
        assert await delete(deletion, 4) == 4
        assert file_of(rig).exists()

    run(tmp_path, scenario)


def test_a_bug_at_one_replica_keeps_nobody_waiting_for_another(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        deletion = await leading(rig)
        await rig.decide(decision(1, isr=(ME,), replicas=(ME,)))
        rig.produce(1)

        def breaks() -> None:
            raise AssertionError("a bug")

        rig.replica().log.persist_start = breaks  # type: ignore[method-assign]
        with rig.busy_disk():
            asked = [
                asyncio.create_task(
                    deletion.delete([PartitionDeletion((TOPIC_ID, each), 1)], validate_only=False)
                )
                for each in (0, 1)
            ]
            await asyncio.sleep(0)
        with pytest.raises(AssertionError, match="a bug"):
            await asyncio.wait_for(asked[0], 60)
        assert await asyncio.wait_for(asked[1], 60) == [1]
        del rig.replica().log.persist_start

    run(tmp_path, scenario)


def test_a_disk_that_fails_is_said(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        deletion = await leading(rig)
        rig.files.faults.append(Fault("sync", errno.EIO, "log_start"))
        outcome = await delete(deletion, 3)
        assert isinstance(outcome, PartitionRefused)
        assert outcome.code == ErrorCode.ERROR_CODE_STORAGE_FAILED
        (told,) = deletions_out([outcome]).outcomes
        assert told.error_code == ErrorCode.ERROR_CODE_STORAGE_FAILED
        assert "flights-0" in told.error_message

    run(tmp_path, scenario)


def test_a_rehearsal_says_what_would_be(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        deletion = await leading(rig)
        assert await delete(deletion, -1, validate_only=True) == 4
        refused = await delete(deletion, 5, validate_only=True)
        assert isinstance(refused, PartitionRefused)
        assert "offset 5 is above the high watermark 4" in refused.message
        assert rig.replica().state.log_start_offset == 0

    run(tmp_path, scenario)


def test_who_leads_no_more_when_it_is_on_disk_does_not_say_that_it_is_done(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        deletion = await leading(rig)
        with rig.busy_disk():
            asked = asyncio.create_task(delete(deletion, 3))
            await asyncio.sleep(0)
            await rig.decide(decision(leader=2, epoch=1, isr=(2,), replicas=(ME, 2), version=1))
        outcome = await asked
        assert isinstance(outcome, PartitionRefused)
        assert outcome.code == ErrorCode.ERROR_CODE_NOT_LEADER

    run(tmp_path, scenario)


def test_the_room_on_each_disk_is_told_also_where_one_hangs_or_has_failed(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        space = DiskSpace(rig.directories)
        (known,) = await space.describe()
        assert 0 < known.free_bytes < known.total_bytes
        with rig.busy_disk():
            assert [each.total_bytes for each in await space.describe()] == [known.total_bytes]
        rig.directories.all[0].failure = "it is gone"
        (failed,) = await space.describe()
        assert failed == DescribedDirectory(known.path, True, known.total_bytes, known.free_bytes)
        (told,) = replicas_out(ME, [], [failed]).log_directories
        assert (told.path, told.error_code) == (known.path, ErrorCode.ERROR_CODE_STORAGE_FAILED)
        rig.directories.all[0].failure = None

    run(tmp_path, scenario)
