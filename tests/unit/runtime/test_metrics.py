"""Figures of a service: where they go, and that they cost nothing where they go nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hightide_runtime.metrics import Metrics
from hightide_runtime.telemetry import TRACE_DIRECTORY_VARIABLE


def test_a_gauge_is_read_when_it_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, str(tmp_path))
    metrics = Metrics.set_up("controller", "1")
    complaints = {"/admin/nonsense": "nothing that Hightide knows of stands at this path"}
    metrics.gauge("hightide.controller.complaints", "what an operator should look at", complaints.__len__)
    complaints["/admin/more"] = "nothing either"
    metrics.shut_down()
    (line,) = (tmp_path / "controller-1.metrics").read_text().splitlines()
    exported = json.loads(line)
    assert (exported["name"], exported["value"]) == ("hightide.controller.complaints", 2)
    assert (exported["service"], exported["instance"]) == ("controller", "1")


def test_without_anywhere_to_go_no_figure_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRACE_DIRECTORY_VARIABLE, raising=False)

    def read() -> int:
        raise AssertionError("nobody asked")

    metrics = Metrics.set_up("controller", "1")
    metrics.gauge("hightide.controller.complaints", "what an operator should look at", read)
    metrics.shut_down()
