"""Which logs a restarted broker believes."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import cast

import pytest
from faulty_files import Fault, FaultyFiles
from hightide_broker.cluster.metadata import MetadataUpdate
from hightide_broker.cluster.partition_decisions import Decisions, PartitionDecision, TopicDecisions
from hightide_broker.coordination.by_controller import ControllerCluster
from hightide_broker.core.replica import Decision
from hightide_broker.directories.log_directories import LogDirectories
from hightide_broker.hosting import restart_checks
from hightide_broker.hosting.startup import ClusterAsStored
from hightide_broker.storage import DataDirectory, LogSettings
from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.cluster_znodes import LeaderAndIsrZnode, TopicIdZnode
from hightide_runtime.znodes.recovered_log import RecoveredLog
from hightide_runtime.zookeeper.session import Check, SetData, ZooKeeperSession
from log_rig import KEY, LogRig
from msgspec.structs import replace

PLAIN = TopicDecisions("plain", bytes(16), {}, ())
SYNCED = TopicDecisions("synced", bytes(16), {"flush": "fsync"}, ())


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDirectory]:
    """A directory of a broker, new."""
    opened = DataDirectory.open(tmp_path, "cluster", 1)
    yield opened
    opened.close()


def killed_and_opened(data: DataDirectory) -> DataDirectory:
    """The next life, after a kill."""
    data.write_note("something", b"so that it is not new")
    data.was_closed_cleanly = False
    return data


def test_a_new_directory_vouches_for_nothing(data: DataDirectory) -> None:
    assert data.was_closed_cleanly
    found = restart_checks.assess(data)
    assert found.doubts(PLAIN)
    assert found.doubts(SYNCED)


def test_a_process_that_was_killed_lost_nothing_that_it_wrote(data: DataDirectory) -> None:
    restart_checks.confirm(data)
    assert not restart_checks.assess(killed_and_opened(data)).doubts(PLAIN)


def after_a_power_cut(data: DataDirectory) -> None:
    restart_checks.confirm(data)
    data.write_note("machine_boot_id", b"an-earlier-boot-of-this-machine")


def test_a_machine_that_went_down_may_have_lost_tails_but_not_what_was_synced(data: DataDirectory) -> None:
    after_a_power_cut(data)
    found = restart_checks.assess(killed_and_opened(data))
    assert found.doubts(PLAIN)
    assert not found.doubts(SYNCED)


def test_a_clean_shutdown_is_believed_over_a_reboot(data: DataDirectory) -> None:
    after_a_power_cut(data)
    assert not restart_checks.assess(data).doubts(PLAIN)


def test_a_directory_that_failed_is_not_believed_when_it_works_again(data: DataDirectory) -> None:
    restart_checks.confirm(data)
    data._volume.disk.fail(OSError(errno.EIO, "Input/output error"))
    restart_checks.disown(data)
    data.close()
    again = DataDirectory.open(Path(data.path), "cluster", 1)
    assert restart_checks.assess(again).doubts(SYNCED)
    again.close()


def test_a_full_disk_costs_the_belief_and_not_the_start(tmp_path: Path) -> None:
    files = FaultyFiles()
    data = DataDirectory.open(tmp_path, "cluster", 1, files=files)
    restart_checks.confirm(data)
    restart_checks.suspend(data)
    files.faults.append(Fault("write_at", errno.ENOSPC, "machine_boot_id"))
    restart_checks.confirm(data)
    assert restart_checks.assess(data).doubts(PLAIN)
    restart_checks.confirm(data)
    assert not restart_checks.assess(data).doubts(PLAIN)
    data.close()


MINE = Decisions(
    (TopicDecisions("t", KEY[0], {}, (PartitionDecision(KEY[1], Decision(1, 1, 3, (1, 2), (1, 2), 7)),)),), ()
)


@pytest.fixture
def killed(tmp_path: Path) -> LogRig:
    """The data directory of a broker that was killed with ten batches in its log."""
    rig = LogRig(tmp_path, LogSettings())
    rig.fill(10, epoch=1)
    rig.close(clean=False)
    return rig


def looked_at(rig: LogRig) -> restart_checks.LogsFound:
    return restart_checks.look_at_logs(rig.directory, MINE, may_lack_tails=False)


def test_a_log_that_recovery_had_to_cut_for_damage_leaves_its_isr(killed: LogRig) -> None:
    (segment,) = killed.segments()
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    killed.open()
    assert looked_at(killed).damaged == {KEY}
    killed.close(clean=False)


def test_a_broker_that_lacks_descriptors_does_not_start_and_says_nothing_of_its_logs(killed: LogRig) -> None:
    """It would say that it has nothing, and another one would lead that has less."""
    killed.open_directory()
    killed.files.faults.append(Fault("open", errno.EMFILE, ".log", lasting=True))
    with pytest.raises(StartupError, match=r"t-3 cannot be opened.*ulimit -n"):
        looked_at(killed)
    killed.close(clean=False)


def test_a_write_that_a_kill_tore_was_never_acknowledged_and_leaves_no_doubt(killed: LogRig) -> None:
    (segment,) = killed.segments()
    contents = segment.read_bytes()
    segment.write_bytes(contents + contents[: len(contents) // 20])
    killed.open()
    assert looked_at(killed).damaged == set()
    killed.close(clean=False)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_lost_its_tail_leaves_its_isr_also_after_a_clean_stop(killed: LogRig, clean: bool) -> None:
    killed.open()
    killed.close(clean)
    (segment,) = killed.segments()
    segment.write_bytes(segment.read_bytes()[: -segment.stat().st_size // 10])
    killed.settles = False
    killed.open()
    assert looked_at(killed).damaged == {KEY}
    assert restart_checks.log_ends(killed.directory, [(MINE.topics[0], KEY[1])]) == {
        KEY: restart_checks.LogEnd(1, 9)
    }
    killed.close(clean=False)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_whose_directory_is_gone_leaves_its_isr(killed: LogRig, clean: bool) -> None:
    killed.open()
    killed.close(clean)
    shutil.rmtree(killed.log_directory)
    killed.open_directory()
    assert looked_at(killed).missing == {KEY}
    killed.close(clean=False)


@pytest.mark.parametrize("name", ["checkpoints", "marks"])
def test_a_directory_that_does_not_know_how_long_its_logs_were_vouches_for_none(
    killed: LogRig, name: str
) -> None:
    restart_checks.confirm(killed.open_directory())
    killed.close(clean=False)
    assert not restart_checks.assess(killed.open_directory()).doubts(SYNCED)
    killed.close(clean=False)
    (killed.path / name).unlink()
    assert restart_checks.assess(killed.open_directory()).doubts(SYNCED)
    killed.close(clean=False)


def test_flush_fsync_that_was_set_just_before_the_power_went_says_nothing_of_older_records(
    tmp_path: Path,
) -> None:
    rig = LogRig(tmp_path, LogSettings())
    rig.fill(10)
    rig.directory.checkpoint_high_watermarks({KEY: 10})
    rig.close(clean=False)
    synced = Decisions((replace(MINE.topics[0], configs={"flush": "fsync"}),), ())
    found = restart_checks.look_at_logs(rig.open_directory(), synced, may_lack_tails=True)
    assert found.damaged == {KEY}
    rig.close(clean=False)


@pytest.mark.parametrize(
    ("isr", "eligible", "told"),
    [((2,), (), ()), ((1,), (2,), (RecoveredLog(1, -1, 0),))],
    ids=["in the ISR", "eligible, while this one is the last in the ISR"],
)
def test_a_log_without_its_oldest_records_is_put_aside_where_others_have_all(
    tmp_path: Path, isr: tuple[int, ...], eligible: tuple[int, ...], told: tuple[RecoveredLog, ...]
) -> None:
    rig = LogRig(tmp_path, LogSettings(segment_bytes=1))
    rig.fill(5)
    rig.close()
    rig.segments()[0].unlink()
    (topic,) = MINE.topics
    (stored_decision,) = topic.partitions

    async def life(
        isr: tuple[int, ...], eligible: tuple[int, ...] = (), recovered: tuple[RecoveredLog, ...] = ()
    ) -> bool:
        directories = await LogDirectories.open([rig.path], "cluster", 1)
        broker_trust = await restart_checks.look_at_disks(directories, 1, MINE, 1)
        assert broker_trust.damaged == broker_trust.lack_front == {KEY}
        decision = replace(stored_decision.decision, isr=isr, eligible=eligible, recovered=recovered)
        decided = replace(stored_decision, decision=decision)
        stored = Decisions((replace(topic, partitions=(decided,)),), ())
        await restart_checks.begin_anew(directories, 1, broker_trust, stored)
        await restart_checks.confirm_all(directories, 1)
        await directories.close(clean=True)
        return directories.holds(KEY)

    assert asyncio.run(life((1,)))
    assert asyncio.run(life((1,), recovered=(RecoveredLog(1, 0, 5),)))
    assert not asyncio.run(life(isr, eligible, told))


def test_damage_is_not_forgotten_by_a_crash_between_recovery_and_leaving_the_isr(data: DataDirectory) -> None:
    restart_checks.confirm(data)
    restart_checks.suspend(data)
    after_the_crash = restart_checks.assess(killed_and_opened(data))
    assert after_the_crash.doubts(PLAIN)
    assert after_the_crash.doubts(SYNCED)
    restart_checks.confirm(data)
    assert not restart_checks.assess(data).doubts(PLAIN)


GOOD = restart_checks.DirectoryTrust(is_new=False, may_lack_tails=False)


@pytest.mark.parametrize("other", [GOOD, restart_checks.NONE])
def test_a_log_is_believed_like_the_directory_in_which_it_is(other: restart_checks.DirectoryTrust) -> None:
    broker_trust = restart_checks.BrokerTrust(
        {"/good": GOOD, "/other": other}, {(PLAIN.topic_id, 0): "/good"}.get, frozenset()
    )
    assert not broker_trust.doubts(PLAIN, 0)


def test_an_absent_log_is_believed_to_be_empty_only_if_every_directory_is_believed() -> None:
    both = restart_checks.BrokerTrust({"/one": GOOD, "/two": GOOD}, lambda _: None, frozenset())
    assert not both.doubts(PLAIN, 0)
    replaced = restart_checks.BrokerTrust(
        {"/one": GOOD, "/two": restart_checks.NONE}, lambda _: None, frozenset()
    )
    assert replaced.doubts(PLAIN, 0)
    assert replaced.doubts(SYNCED, 0)


def test_after_a_power_cut_an_absent_log_is_doubted_also_with_flush_fsync() -> None:
    # Its first records are acknowledged before a checkpoint names it, and marks are of the boot before: so
    # nothing here says whether its directory was there.
    after_power_cut = restart_checks.DirectoryTrust(is_new=False, may_lack_tails=True)
    found = restart_checks.BrokerTrust({"/a": after_power_cut}, lambda key: None, frozenset())
    assert found.doubts(SYNCED, 0)
    here = restart_checks.BrokerTrust({"/a": after_power_cut}, lambda key: "/a", frozenset())
    assert not here.doubts(SYNCED, 0)


def test_a_damaged_log_is_doubted_wherever_it_is() -> None:
    key = (PLAIN.topic_id, 0)
    broker_trust = restart_checks.BrokerTrust({"/good": GOOD}, {key: "/good"}.get, frozenset({key}))
    assert broker_trust.doubts(PLAIN, 0)


LIVES = count(1)


def trusts_of(*paths: Path, decisions: Decisions = MINE, clean: bool = True) -> restart_checks.BrokerTrust:
    """A life of a broker with these data directories: what it believes at its start."""
    number = next(LIVES)

    async def main() -> restart_checks.BrokerTrust:
        directories = await LogDirectories.open(paths, "cluster", 1)
        found = await restart_checks.look_at_disks(directories, 1, decisions, number)
        await restart_checks.confirm_all(directories, number)
        await directories.close(clean=clean)
        return found

    return asyncio.run(main())


def test_a_note_of_directories_that_makes_no_sense_says_nothing_of_other_ones(data: DataDirectory) -> None:
    for note in (b"{", b"7", b"{}", b'{"directories": 1, "incarnation": 2}', b'{"incarnation": "x"}'):
        data.write_note("data_directories", note)
        assert restart_checks.last_life(data) == restart_checks.LastLife()
    data.write_note("data_directories", b'["/a", "/b"]')
    assert restart_checks.last_life(data).paths == {"/a", "/b"}


@pytest.mark.parametrize("missed", [0, 1])
def test_a_directory_that_comes_back_without_the_others_is_believed_if_it_missed_no_life(
    tmp_path: Path, missed: int
) -> None:
    """What it holds was fetched anew into the others, and has grown since. They are lost now."""
    rig = LogRig(tmp_path)
    rig.fill(1)
    rig.close()
    (topic,) = MINE.topics
    for _ in range(2):
        both = trusts_of(tmp_path / "a", tmp_path / "data")
    assert not both.doubts(topic, KEY[1])
    for _ in range(missed):
        trusts_of(tmp_path / "a")
    assert trusts_of(tmp_path / "data").doubts(topic, KEY[1]) == bool(missed)
    assert not trusts_of(tmp_path / "data").doubts(topic, KEY[1]), "the ISRs were left once, that is enough"


def test_a_directory_that_is_left_out_may_have_held_what_is_not_found(tmp_path: Path) -> None:
    """Forgotten on the command line, or taken out for good: an absent log is not an empty one."""
    (topic,) = MINE.topics
    for _ in range(2):
        both = trusts_of(tmp_path / "a", tmp_path / "b")
    assert not both.doubts(topic, KEY[1])
    assert trusts_of(tmp_path / "a").doubts(topic, KEY[1])
    assert not trusts_of(tmp_path / "a").doubts(topic, KEY[1]), "the ISRs were left once, that is enough"


def test_a_directory_that_came_back_empty_may_have_held_what_is_not_found(tmp_path: Path) -> None:
    (topic,) = MINE.topics
    for _ in range(2):
        trusts_of(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "b")
    assert trusts_of(tmp_path / "a", tmp_path / "b").doubts(topic, KEY[1])


def test_what_is_found_twice_is_doubted(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    rig.fill(1)
    rig.close()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    (topic,) = MINE.topics
    for _ in range(2):
        assert trusts_of(tmp_path / "data", tmp_path / "copy").doubts(topic, KEY[1])


def decided(
    leader: int, *isr: int, eligible: tuple[int, ...] = (), recovered: tuple[RecoveredLog, ...] = ()
) -> Decisions:
    """What ZooKeeper says of a partition of which broker 1 has a replica."""
    decision = Decision(1, leader, 3, isr, (1, 2, 3), 7, eligible, recovered, 2)
    return Decisions((TopicDecisions("t", KEY[0], {}, (PartitionDecision(KEY[1], decision),)),), ())


def written(broker_trust: restart_checks.BrokerTrust, decisions: Decisions) -> LeaderAndIsrZnode | None:
    """What broker 1 writes before it registers; None: nothing."""
    cluster = ControllerCluster(cast(ZooKeeperSession, None), 1)
    stored = ClusterAsStored(1, MetadataUpdate(1, None, (), (), full=True), decisions, markers={KEY[0]: 4})
    groups = list(restart_checks._departures(cluster, 1, broker_trust, stored))
    if not groups:
        return None
    ((check, write),) = groups
    assert check == Check(TopicIdZnode.path(KEY[0]), 4), "else the partition may be another of its number"
    assert isinstance(write, SetData)
    assert write.version == 7
    return LeaderAndIsrZnode.decode(write.data)


IN_DOUBT = restart_checks.BrokerTrust(
    {"/one": restart_checks.NONE}, {KEY: "/one"}.get, frozenset(), {KEY: restart_checks.LogEnd(2, 40)}
)
BELIEVED = restart_checks.BrokerTrust(
    {"/one": GOOD}, {KEY: "/one"}.get, frozenset(), {KEY: restart_checks.LogEnd(2, 40)}
)
HERS = RecoveredLog(1, 2, 40)


def test_a_log_in_doubt_leaves_the_isr_and_tells_how_far_it_goes() -> None:
    told = (HERS,)
    assert written(IN_DOUBT, decided(2, 1, 2)) == LeaderAndIsrZnode(2, 3, (2,), 1, "", (), told, 2)
    assert written(IN_DOUBT, decided(1, 1, 2)) == LeaderAndIsrZnode(-1, 3, (2,), 1, "", (), told, 2)
    assert written(BELIEVED, decided(1, 1, 2)) is None


def test_the_last_member_stays_in_the_isr_in_name() -> None:
    found = written(IN_DOUBT, decided(1, 1, eligible=(2,), recovered=(RecoveredLog(3, 0, 5),)))
    assert found is not None
    assert (found.leader, found.isr, found.eligible) == (-1, (1,), (2,))
    assert found.recovered == (HERS, RecoveredLog(3, 0, 5))


def test_who_was_eligible_is_so_no_more() -> None:
    found = written(IN_DOUBT, decided(2, 2, eligible=(1, 3)))
    assert found is not None
    assert (found.leader, found.isr, found.eligible) == (2, (2,), (3,))


def test_what_an_earlier_life_told_is_brought_up_to_date_and_told_once() -> None:
    earlier = decided(2, 2, recovered=(RecoveredLog(1, 2, 90),))
    for broker_trust in (IN_DOUBT, BELIEVED):
        found = written(broker_trust, earlier)
        assert found is not None
        assert found.recovered == (HERS,)
        assert written(broker_trust, decided(2, 2, recovered=(HERS,))) is None


def test_who_nobody_counts_on_has_nothing_to_tell() -> None:
    assert written(IN_DOUBT, decided(2, 2, eligible=(3,))) is None


def test_how_far_a_log_goes_is_looked_up_on_the_disk_where_it_is(killed: LogRig, tmp_path: Path) -> None:
    killed.open()
    killed.close(clean=False)
    doubted = decided(1, 1, 2)
    assert trusts_of(Path(killed.path), decisions=doubted).ends == {KEY: restart_checks.LogEnd(1, 10)}
    assert trusts_of(Path(killed.path), decisions=doubted).ends == {}, "it is believed by now"


def test_a_high_watermark_above_the_end_that_is_left_is_not_found_again_when_the_log_has_grown(
    killed: LogRig,
) -> None:
    """The power took what was committed; other records come in its place, and the broker is killed."""
    path = Path(killed.path)
    killed.open()
    killed.directory.checkpoint_high_watermarks({KEY: 10})
    killed.log.truncate_to(4)
    killed.close(clean=False)
    trusts_of(path, decisions=decided(2, 2), clean=False)
    killed.open()
    assert killed.log.high_watermark_checkpoint == 4
    killed.fill(3, epoch=2)
    killed.close(clean=False)
    killed.open()
    assert killed.log.high_watermark_checkpoint == 4, "what came in its place is not committed yet"
    killed.close(clean=False)
