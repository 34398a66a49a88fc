"""The shell performs whatever a core can ask for."""

from __future__ import annotations

from typing import get_args

from hightide_broker.core.effects import Effect
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.shell import ReplicaShell
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry import Telemetry


def test_every_effect_of_the_core_has_somebody_who_performs_it() -> None:
    failures: list[Exception] = []
    shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
    assert set(shell.performs) == set(get_args(Effect))
