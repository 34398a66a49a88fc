"""What a broker tells clients of the trace in which a partition got its leader."""

from __future__ import annotations

from pathlib import Path

import pytest
from control_rig import TOPIC_ID, Rig, decision, run, until_settled
from hightide_broker.hosting import control
from hightide_runtime.telemetry.span_kinds import FAILOVER
from hightide_runtime.telemetry.trace_context import CURRENT, root_traceparent

ROOT = root_traceparent(FAILOVER, "cluster", 2, 0, 0)
CALLER = f"{ROOT[:36]}00f067aa0ba902b7-01"
"""A span somewhere below the root, as the controller sends it along."""


def told(rig: Rig) -> str:
    view = rig.metadata.partition(TOPIC_ID, 0)
    assert view is not None
    return "" if view.change is None else view.change.traceparent


def test_clients_are_told_the_root_of_the_trace_in_which_the_decision_came(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        token = CURRENT.set(CALLER)
        await rig.decide(decision(epoch=1))
        CURRENT.reset(token)
        assert told(rig) == ROOT
        await rig.decide(decision(epoch=1, version=1))
        assert told(rig) == ROOT
        await rig.decide(decision(epoch=2, version=2))
        assert told(rig) == ""

    run(tmp_path, scenario)


def test_it_is_forgotten_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "CHANGE_TOLD_S", 0.0)

    async def scenario(rig: Rig) -> None:
        token = CURRENT.set(CALLER)
        await rig.decide(decision(epoch=1))
        CURRENT.reset(token)
        await until_settled()
        assert told(rig) == ""

    run(tmp_path, scenario)
