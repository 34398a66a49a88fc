"""What the units of deploy/systemd promise."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from hightide_broker.settings import BrokerSettings
from hightide_controller.settings import ControllerSettings
from hightide_coordinator.settings import CoordinatorSettings
from hightide_runtime.process.settings import ServiceSettings

DIRECTORY = Path(__file__).resolve().parents[3] / "deploy" / "systemd"
SETTINGS: Final[dict[str, type[ServiceSettings]]] = {
    "broker": BrokerSettings,
    "controller": ControllerSettings,
    "coordinator": CoordinatorSettings,
}
KINDS = sorted(SETTINGS)
#: What `systemd-analyze security` may say at most, in tenths; without a sandbox it says 92.
EXPOSURE_MAX = 15


def unit(kind: str) -> dict[str, list[str]]:
    """The settings of a unit: each has as many values as lines."""
    found: dict[str, list[str]] = {}
    text = (DIRECTORY / f"hightide-{kind}@.service").read_text()
    for name, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_unit_starts_its_service_with_the_id_behind_the_at(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in unit(kind).get("Environment", []):
        name, _, value = each.replace("%i", "7").partition("=")
        assert name in {f"HIGHTIDE_{kind}_{field}".upper() for field in SETTINGS[kind].model_fields}
        monkeypatch.setenv(name, value)
    (start,) = unit(kind)["ExecStart"]
    program, *arguments = start.replace("%i", "7").split()
    assert program == f"/opt/hightide/bin/hightide-{kind}"
    settings = SETTINGS[kind].from_command_line(arguments)
    assert getattr(settings, f"{kind}_id") == 7
    if isinstance(settings, BrokerSettings):
        assert [str(path) for path in settings.data_dir] == ["/var/lib/hightide/broker-7"]
        assert unit(kind)["StateDirectory"] == ["hightide/broker-%i"]


def test_a_broker_has_time_to_hand_over_and_to_close_its_logs() -> None:
    patience_ms = BrokerSettings.model_fields["controlled_shutdown_timeout_ms"].default
    assert int(unit("broker")["TimeoutStopSec"][0]) >= 2 * patience_ms / 1000 + 30


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_may_do_little_but_read_the_id_of_the_boot(kind: str) -> None:
    hardened = unit(kind)
    assert hardened["NoNewPrivileges"] == ["yes"]
    assert hardened["ProtectSystem"] == ["strict"]
    assert hardened["CapabilityBoundingSet"] == [""]
    assert hardened["User"] == ["hightide"]
    # Without /proc/sys a broker would not know that the machine was started again, and would trust logs that
    # may have lost their ends.
    assert "ProcSubset" not in hardened


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
@pytest.mark.parametrize("kind", KINDS)
def test_systemd_takes_the_unit_and_calls_it_hardened(kind: str, tmp_path: Path) -> None:
    text = (DIRECTORY / f"hightide-{kind}@.service").read_text()
    installed = tmp_path / f"hightide-{kind}@1.service"
    installed.write_text(text.replace("/opt/hightide/bin", str(Path(sys.executable).parent)))
    verified = subprocess.run(
        ["systemd-analyze", "verify", installed], capture_output=True, text=True, timeout=60
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    security = ["systemd-analyze", "security", "--no-pager", "--offline=true", f"--threshold={EXPOSURE_MAX}"]
    judged = subprocess.run([*security, installed], capture_output=True, text=True, timeout=60)
    assert judged.returncode == 0, judged.stdout + judged.stderr
