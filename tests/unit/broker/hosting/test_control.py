"""What the controller says, carried out on real files: decisions, stops, and what waits for a disk."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest
from control_rig import (
    ME,
    TOPIC_ID,
    Rig,
    codes,
    decision,
    described,
    leave_a_log,
    request,
    run,
    stamp,
    stop,
    until_settled,
    update,
)  # fmt: skip
from faulty_files import Fault
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.metadata import (
    MetadataUpdate,
    RemovedPartitions,
)
from hightide_broker.contract.convert_descriptions import replicas_out
from hightide_broker.core.events import DirectoryFailed
from hightide_broker.core.fetch_session import FollowerPosition
from hightide_broker.core.replica import Role
from hightide_broker.data import partition_errors
from hightide_broker.directories.replica_descriptions import ReplicaDescriptions
from hightide_broker.replica.parking import ParkedFetch, ParkedProduce
from msgspec.structs import replace

OK = ErrorCode.ERROR_CODE_UNSPECIFIED
FENCED = ErrorCode.ERROR_CODE_FENCED_LEADER_EPOCH
OTHER_ID = bytes(15) + b"\x07"
ON_DISK = f"{TOPIC_ID.hex()}-0"


# --- stopping ------------------------------------------------------------------------------------


def test_a_stopped_replica_is_gone_and_its_data_is_in_quarantine(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        rig.produce()
        assert await rig.stop(stop()) == [OK]
        assert not rig.runs()
        assert rig.quarantined() == [ON_DISK]
        assert not rig.directories.holds((TOPIC_ID, 0))

    run(tmp_path, scenario)


def test_a_stop_without_delete_keeps_the_data_and_has_it_looked_at(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        assert await rig.stop(stop(delete=False)) == [OK]
        assert rig.replica().state.role is Role.STOPPED
        assert rig.suspects == [(TOPIC_ID, 0)]

    run(tmp_path, scenario)


def test_what_is_not_here_has_stopped_already(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert await rig.stop(stop(), stop(7), stop(topic_id=OTHER_ID)) == [OK, OK, OK]

    run(tmp_path, scenario)


def test_a_stop_of_what_is_only_on_disk_puts_it_aside(tmp_path: Path) -> None:
    leave_a_log(tmp_path)

    async def scenario(rig: Rig) -> None:
        assert await rig.stop(stop()) == [OK]
        assert rig.quarantined() == [ON_DISK]

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "late",
    [stop(epoch=2), stop(epoch=3, version=6), stop(epoch=3, topic_id=OTHER_ID)],
    ids=["older leader epoch", "older partition epoch", "another topic's id"],
)
def test_a_late_stop_does_not_touch_what_was_decided_on_since(tmp_path: Path, late: object) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(epoch=3, version=7, first_epoch=3))
        assert await rig.stop(late) in ([FENCED], [OK])  # type: ignore[arg-type]
        assert rig.replica().state.is_leader
        assert rig.quarantined() == []

    run(tmp_path, scenario)


def test_a_stop_of_an_older_controller_is_refused_as_a_whole(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        with pytest.raises(Exception, match="5 was elected since"):
            await rig.control.stop_replicas(stamp(controller_epoch=4), [stop()])
        assert rig.replica().state.is_leader

    run(tmp_path, scenario)


def test_whoever_waits_at_a_stopped_leader_is_answered(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        rig.produce()
        replica = rig.replica()
        produce, fetch = ParkedProduce(), ParkedFetch()
        produce.expect(0, replica.acks, 1)
        replica.fetches[fetch] = None
        waiting = asyncio.gather(produce.wait(60_000), fetch.wait(60_000))
        await until_settled()
        assert not waiting.done()
        await rig.stop(stop())
        await waiting
        # Not UNKNOWN_PARTITION, which promises that nothing was appended.
        assert produce.failures == {0: ErrorCode.ERROR_CODE_NOT_LEADER}

    run(tmp_path, scenario)


def test_a_follower_that_waits_at_a_stopped_leader_is_woken_to_hear_of_it(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        session = rig.sessions.open(2, 1)
        session.receive([((TOPIC_ID, 0), FollowerPosition(0, 0))], [])
        parked = rig.shell.parked_rounds[session] = ParkedFetch()
        await rig.stop(stop())
        await parked.wait(60_000)
        assert list(session.touched()) == [(TOPIC_ID, 0)]

    run(tmp_path, scenario)


def test_a_quarantine_that_fails_is_told_and_the_replica_is_not_served(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(), decision(1))
        rig.produce()
        rig.files.faults.append(Fault("replace", errno.EIO, where=ON_DISK))
        assert await rig.stop(stop()) == [ErrorCode.ERROR_CODE_STORAGE_FAILED]
        assert not rig.runs()
        assert rig.runs(1)

    run(tmp_path, scenario)


def test_a_quarantine_that_finds_no_room_is_told_and_looked_at_again(tmp_path: Path) -> None:
    """Nobody need tell it to stop once more: it would hold what is not assigned to it."""

    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        rig.produce()
        rig.suspects.clear()
        rig.files.faults.append(Fault("make_directory", errno.ENOSPC, where="quarantine"))
        assert await rig.stop(stop()) == [ErrorCode.ERROR_CODE_DISK_FULL]
        assert not rig.runs()
        assert rig.suspects == [(TOPIC_ID, 0)]
        assert rig.control.held((TOPIC_ID, 0)) is not None

    run(tmp_path, scenario)


def test_thousands_of_stops_leave_room_for_others(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(*map(decision, range(2_000)))
        queues = 0

        async def others() -> None:
            nonlocal queues
            while True:
                await asyncio.sleep(0)
                queues += 1

        beside = asyncio.create_task(others())
        assert set(await rig.stop(*map(stop, range(2_000)))) == {OK}
        beside.cancel()
        assert queues >= 10
        assert len(rig.replicas) == 0

    run(tmp_path, scenario)


# --- what waits for a disk -------------------------------------------------------------------------


def test_a_stop_waits_until_the_log_is_open_and_then_stops_it(tmp_path: Path) -> None:
    leave_a_log(tmp_path)

    async def scenario(rig: Rig) -> None:
        with rig.busy_disk():
            opening = asyncio.create_task(rig.decide(decision(epoch=1, version=1)))
            await until_settled()
            stopping = asyncio.create_task(rig.stop(stop(epoch=1)))
            await until_settled()
            assert not opening.done()
            assert not stopping.done()
        assert await opening == [FENCED], "it leads in no epoch that an earlier life may have led in"
        assert await stopping == [OK]
        assert not rig.runs()
        assert rig.quarantined() == [ON_DISK]

    run(tmp_path, scenario)


def test_a_decision_waits_for_the_quarantine_before_it_and_begins_a_new_log(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        rig.produce()
        with rig.busy_disk():
            stopping = asyncio.create_task(rig.stop(stop()))
            await until_settled()
            assert not rig.runs(), "whoever asks hears at once that it is not here"
            deciding = asyncio.create_task(rig.decide(decision(epoch=1, version=2, first_epoch=1)))
            await until_settled()
            assert not deciding.done()
        assert (await stopping, await deciding) == ([OK], [OK])
        assert rig.replica().log.log_end_offset == 0
        assert rig.quarantined() == [ON_DISK]

    run(tmp_path, scenario)


def test_partitions_that_run_are_not_held_up_by_one_that_is_being_opened(tmp_path: Path) -> None:
    leave_a_log(tmp_path)

    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(1))
        with rig.busy_disk():
            slow = asyncio.create_task(
                rig.decide(decision(leader=2, epoch=1), decision(1, epoch=1, version=1))
            )
            await until_settled()
            assert rig.replica(1).state.leader_epoch == 1
            assert await rig.decide(decision(1, epoch=2, version=2)) == [OK]
            assert not slow.done()
        assert await slow == [OK, OK]

    run(tmp_path, scenario)


def test_who_gives_up_waiting_lets_nobody_overtake_those_before_it(tmp_path: Path) -> None:
    leave_a_log(tmp_path)

    async def scenario(rig: Rig) -> None:
        with rig.busy_disk():
            opening = asyncio.create_task(rig.decide(decision(leader=2, epoch=1, version=1)))
            await until_settled()
            second = asyncio.create_task(rig.decide(decision(leader=2, epoch=2, version=2)))
            await until_settled()
            third = asyncio.create_task(rig.stop(stop(epoch=2)))
            await until_settled()
            second.cancel()
            await until_settled()
            assert not third.done()
        assert await opening == [OK]
        assert await third == [OK]
        assert not rig.runs()

    run(tmp_path, scenario)


def test_a_stop_goes_on_where_the_controller_gave_up_waiting_for_it(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        rig.produce()
        with rig.busy_disk():
            stopping = asyncio.create_task(rig.stop(stop()))
            await until_settled()
            stopping.cancel()
            await until_settled()
        assert await rig.stop(stop()) == [OK]
        assert rig.quarantined() == [ON_DISK]

    run(tmp_path, scenario)


def test_a_log_whose_directory_failed_is_told_by_partition(tmp_path: Path) -> None:
    leave_a_log(tmp_path)

    async def scenario(rig: Rig) -> None:
        rig.files.faults.append(Fault("open", errno.EIO, where=ON_DISK))
        assert await rig.decide(decision(epoch=1)) == [ErrorCode.ERROR_CODE_STORAGE_FAILED]

    run(tmp_path, scenario)


# --- a removed partition whose number came back ----------------------------------------------------


def test_a_log_of_a_removed_partition_is_put_aside_and_a_new_one_begun(tmp_path: Path) -> None:
    leave_a_log(tmp_path, epoch=3)

    async def scenario(rig: Rig) -> None:
        assert await rig.decide(decision(leader=2, epoch=4, first_epoch=4)) == [OK]
        assert rig.replica().log.log_end_offset == 0
        assert rig.replica().state.log_end_offset == 0
        assert rig.quarantined() == [ON_DISK]

    run(tmp_path, scenario)


def test_a_log_of_the_partition_that_came_back_is_kept(tmp_path: Path) -> None:
    leave_a_log(tmp_path, epoch=4)

    async def scenario(rig: Rig) -> None:
        assert await rig.decide(decision(leader=2, epoch=5, first_epoch=4)) == [OK]
        assert rig.replica().log.log_end_offset == 1
        assert rig.quarantined() == []

    run(tmp_path, scenario)


def test_a_replica_of_a_removed_partition_that_runs_is_replaced(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(epoch=3, first_epoch=3))
        rig.produce()
        produce = ParkedProduce()
        produce.expect(0, rig.replica().acks, 1)
        assert await rig.decide(decision(leader=2, epoch=4, first_epoch=4)) == [OK]
        assert rig.replica().state.is_follower
        assert rig.replica().log.log_end_offset == 0
        assert rig.quarantined() == [ON_DISK]
        assert produce.failures == {0: ErrorCode.ERROR_CODE_NOT_LEADER}

    run(tmp_path, scenario)


def test_a_replacement_that_nobody_waits_for_any_more_never_begins_over_the_old_log(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(epoch=3, first_epoch=3))
        rig.produce()
        with rig.busy_disk():
            given_up = asyncio.create_task(rig.decide(decision(leader=2, epoch=4, first_epoch=4)))
            await until_settled()
            given_up.cancel()
            await until_settled()
        assert await rig.decide(decision(leader=2, epoch=4, first_epoch=4)) == [OK]
        assert rig.replica().log.log_end_offset == 0
        assert rig.quarantined() == [ON_DISK]

    run(tmp_path, scenario)


def test_a_late_controller_cannot_have_a_replica_replaced(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(epoch=3, first_epoch=3))
        rig.produce()
        late = decision(leader=2, epoch=4, first_epoch=4)
        late = replace(late, decision=replace(late.decision, controller_epoch=4))
        await rig.control.decide(request(late))
        assert rig.replica().log.log_end_offset == 1
        assert rig.quarantined() == []

    run(tmp_path, scenario)


# --- settings, assignment --------------------------------------------------------------------------


def test_settings_are_applied_live_without_a_new_epoch(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(isr=(1,)))
        configs = {
            "retention.ms": "1234", "segment.bytes": "65536", "max.message.bytes": "2000",
            "min.insync.replicas": "2", "flush": "fsync",
        }  # fmt: skip
        assert await rig.decide(decision(isr=(1,)), configs=configs) == [OK]
        replica = rig.replica()
        assert (replica.log.settings.retention_ms, replica.log.settings.segment_bytes) == (1234, 65_536)
        assert replica.settings.log.max_message_bytes == 2_000
        assert replica.state.settings.min_insync_replicas == 2
        assert replica.state.settings.flush_on_disk

    run(tmp_path, scenario)


def test_a_decision_that_is_refused_changes_no_settings(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(epoch=3, version=3))
        late = decision(epoch=2, version=2)
        assert await rig.decide(late, configs={"retention.ms": "1"}) == [FENCED]
        assert rig.replica().log.settings.retention_ms > 1

    run(tmp_path, scenario)


def test_a_new_assignment_in_the_same_leader_epoch_lets_the_new_replica_fetch(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(replicas=(1, 2)))
        assert await rig.decide(decision(replicas=(1, 2, 3), version=1, adding=(3,))) == [OK]
        leading = rig.replica().state.leading
        assert leading is not None
        assert leading.progress_of(3) is not None
        assert rig.replica().adding_replicas == {3}
        assert await rig.decide(decision(isr=(1,), replicas=(1, 3), version=2)) == [OK]
        leading = rig.replica().state.leading
        assert leading is not None
        assert leading.progress_of(2) is None
        assert rig.replica().adding_replicas == frozenset()

    run(tmp_path, scenario)


# --- metadata ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "suspects"),
    [
        (update(described((1, 2), (1, 2), (1, 2))), []),
        (update(described((1, 2), (2, 3))), [1]),
        (update(deleted=(TOPIC_ID,)), [0, 1, 2]),
        (update(described((1, 2), topic_id=OTHER_ID)), [0, 1, 2]),
        (update(removed=(RemovedPartitions(TOPIC_ID, (2,)),)), [2]),
        (update(described((1, 2), (1, 2)), full=True), [2]),
        (update(full=True), [0, 1, 2]),
        (update(), []),
    ],
    ids=["as it is", "moved", "deleted", "created again", "removed", "full", "nothing at all", "no topic"],
)
def test_an_update_that_does_not_name_a_replica_here_makes_it_suspect(
    tmp_path: Path, told: MetadataUpdate, suspects: list[int]
) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(), decision(1), decision(2))
        await rig.control.update_metadata(stamp(), told)
        assert rig.suspects == [(TOPIC_ID, number) for number in suspects]
        assert len(rig.replicas) == 3, "nothing is stopped for not being named"

    run(tmp_path, scenario)


def test_a_decision_about_a_topic_of_the_same_name_makes_the_replicas_of_the_one_before_suspect(
    tmp_path: Path,
) -> None:
    """Metadata names the old topic no more, and no later update tells the broker to look."""

    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(), decision(1))
        namesake = request(decision(), topic_id=OTHER_ID)
        assert codes(await rig.control.leader_and_isr(stamp(), namesake)) == [OK]
        assert rig.suspects == [(TOPIC_ID, 0), (TOPIC_ID, 1)]
        assert len(rig.replicas) == 3, "nothing is stopped for not being named"

    run(tmp_path, scenario)


def test_a_replica_that_was_put_aside_and_comes_back_is_looked_into_though_metadata_names_it(
    tmp_path: Path,
) -> None:
    """Both the metadata and the order may be of before."""

    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        rig.produce()
        held = rig.control.held((TOPIC_ID, 0))
        assert held is not None
        await rig.control.update_metadata(stamp(), update(deleted=(TOPIC_ID,)))
        assert await rig.control.let_go(held)
        rig.suspects.clear()
        await rig.control.update_metadata(stamp(), update(described((1, 2))))
        assert await rig.decide(decision()) == [OK]
        assert rig.suspects == [(TOPIC_ID, 0)]

    run(tmp_path, scenario)


def test_a_decision_that_comes_behind_the_end_of_its_topic_is_looked_into(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.control.update_metadata(stamp(), update(described((1, 2)), deleted=(OTHER_ID,)))
        late = request(decision(), topic_id=OTHER_ID)
        assert codes(await rig.control.leader_and_isr(stamp(), late)) == [OK]
        assert rig.suspects == [(OTHER_ID, 0)]
        assert (held := rig.metadata.topic("flights")) is not None
        assert held.topic_id == TOPIC_ID

    run(tmp_path, scenario)


def test_the_speed_limit_of_moves_is_passed_on(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.control.update_metadata(stamp(), update(limit=1_000_000))
        await rig.control.update_metadata(stamp(), update())
        assert rig.limits == [1_000_000, 0]

    run(tmp_path, scenario)


# --- removing strays ---------------------------------------------------------------------------------


def test_a_stray_is_put_aside_unless_there_is_news_of_it(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        rig.produce()
        held = rig.control.held((TOPIC_ID, 0))
        assert held is not None
        await rig.decide(decision(version=1))
        assert not await rig.control.let_go(held)
        assert rig.runs()
        held = rig.control.held((TOPIC_ID, 0))
        assert held is not None
        assert await rig.control.let_go(held)
        assert not rig.runs()
        assert rig.quarantined() == [ON_DISK]

    run(tmp_path, scenario)


def test_a_startup_that_takes_over_leaves_what_is_not_assigned_for_the_search_for_strays(
    tmp_path: Path,
) -> None:
    leave_a_log(tmp_path)

    async def scenario(rig: Rig) -> None:
        assert codes(await rig.control.decide(request(decision(1, leader=2)), is_live=False)) == [OK]
        assert rig.control.not_hosted() == [(TOPIC_ID, 0)]
        held = rig.control.held((TOPIC_ID, 0))
        assert held is not None
        assert await rig.control.let_go(held)
        assert rig.quarantined() == [ON_DISK]

    run(tmp_path, scenario)


# --- describing ------------------------------------------------------------------------------------


def test_what_is_held_is_described_by_topic_and_partition(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision(1, leader=2), decision(0))
        rig.produce(0)
        await rig.control.leader_and_isr(stamp(), request(decision(), topic="airports", topic_id=OTHER_ID))
        descriptions = ReplicaDescriptions(rig.replicas, rig.metadata, rig.directories)
        everything = await descriptions.describe(())
        assert [(each.topic, each.key[1], each.is_leader) for each in everything] == [
            ("airports", 0, True),
            ("flights", 0, True),
            ("flights", 1, False),
        ]
        leader = everything[1]
        assert (leader.log_end_offset, leader.high_watermark, leader.log_directory) == (1, 0, 0)
        assert leader.size_bytes > 0
        assert [each.topic for each in await descriptions.describe(["airports", "nope"])] == ["airports"]

    run(tmp_path, scenario)


def test_a_replica_whose_directory_failed_is_described_as_such(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        rig.produce()
        rig.shell.feed(rig.replica(), DirectoryFailed())
        (described,) = await ReplicaDescriptions(rig.replicas, rig.metadata, rig.directories).describe(())
        assert described.failed
        (told,) = replicas_out(ME, [described], []).replicas
        assert (told.error_code, told.log_end_offset) == (ErrorCode.ERROR_CODE_STORAGE_FAILED, 1)

    run(tmp_path, scenario)


# --- what clients hear -----------------------------------------------------------------------------


def test_clients_hear_of_a_deleted_topic_by_its_old_id_that_it_is_unknown(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.control.update_metadata(stamp(), update(described((1, 2))))
        await rig.control.update_metadata(stamp(), update(described((1, 2), topic_id=OTHER_ID)))
        refusal = partition_errors.not_hosted(ME, rig.metadata, (TOPIC_ID, 0))
        assert refusal.code == ErrorCode.ERROR_CODE_UNKNOWN_TOPIC
        assert "topic flights with the id" in refusal.message

    run(tmp_path, scenario)


def test_a_partition_that_this_broker_leads_on_paper_only_is_tried_again(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.control.update_metadata(stamp(), update(described((ME, 2))))
        refusal = partition_errors.not_hosted(ME, rig.metadata, (TOPIC_ID, 0))
        assert (refusal.code, refusal.current_leader) == (ErrorCode.ERROR_CODE_NOT_LEADER, -1)

    run(tmp_path, scenario)
