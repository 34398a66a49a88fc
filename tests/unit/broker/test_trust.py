"""Which logs a restarted broker believes."""

from __future__ import annotations

from pathlib import Path

from hightide_broker import trust
from hightide_broker.decisions import TopicDecisions

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
