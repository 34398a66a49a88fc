"""Which logs a restarted broker believes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hightide_broker import trust
from hightide_broker.decisions import Decisions, PartitionDecision, TopicDecisions
from hightide_broker.storage import LogSettings
from log_rig import KEY, LogRig

PLAIN = TopicDecisions("plain", bytes(16), {}, ())
SYNCED = TopicDecisions("synced", bytes(16), {"flush": "fsync"}, ())


def test_a_new_directory_vouches_for_nothing(tmp_path: Path) -> None:
    found = trust.assess(tmp_path, was_closed_cleanly=True)
    assert found.doubts(PLAIN)
    assert found.doubts(SYNCED)


def test_a_process_that_was_killed_lost_nothing_that_it_wrote(tmp_path: Path) -> None:
    trust.confirm(tmp_path)
    assert not trust.assess(tmp_path, was_closed_cleanly=False).doubts(PLAIN)


def after_a_power_cut(data_dir: Path) -> None:
    trust.confirm(data_dir)
    (data_dir / "machine_boot_id").write_text("an-earlier-boot-of-this-machine", encoding="ascii")


def test_a_machine_that_went_down_may_have_lost_tails_but_not_what_was_synced(tmp_path: Path) -> None:
    after_a_power_cut(tmp_path)
    found = trust.assess(tmp_path, was_closed_cleanly=False)
    assert found.doubts(PLAIN)
    assert not found.doubts(SYNCED)


def test_a_clean_shutdown_is_believed_over_a_reboot(tmp_path: Path) -> None:
    after_a_power_cut(tmp_path)
    assert not trust.assess(tmp_path, was_closed_cleanly=True).doubts(PLAIN)


MINE = Decisions(
    (TopicDecisions("t", KEY[0], {}, (PartitionDecision(KEY[1], 1, 3, (1, 2), (1, 2), 7, 1),)),), ()
)


@pytest.fixture
def killed(tmp_path: Path) -> LogRig:
    """The data directory of a broker that was killed with ten batches in its log."""
    rig = LogRig(tmp_path, LogSettings())
    rig.fill(10, epoch=1)
    rig.close(clean=False)
    return rig


def test_a_log_that_recovery_had_to_cut_for_damage_leaves_its_isr(killed: LogRig) -> None:
    (segment,) = killed.segments()
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    killed.open()
    assert trust.damaged_logs(killed.directory, MINE) == {KEY}
    killed.close(clean=False)


def test_a_write_that_a_kill_tore_was_never_acknowledged_and_leaves_no_doubt(killed: LogRig) -> None:
    (segment,) = killed.segments()
    segment.write_bytes(segment.read_bytes()[:-10])
    killed.open()
    assert trust.damaged_logs(killed.directory, MINE) == frozenset()
    killed.close(clean=False)


def test_damage_is_not_forgotten_by_a_crash_between_recovery_and_leaving_the_isr(tmp_path: Path) -> None:
    trust.confirm(tmp_path)
    trust.suspend(tmp_path)
    after_the_crash = trust.assess(tmp_path, was_closed_cleanly=False)
    assert after_the_crash.doubts(PLAIN)
    assert after_the_crash.doubts(SYNCED)
    trust.confirm(tmp_path)
    assert not trust.assess(tmp_path, was_closed_cleanly=False).doubts(PLAIN)
