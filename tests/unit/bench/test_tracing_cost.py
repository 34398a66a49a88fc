"""`bench produce --tracing`: what may be said, and how two clusters are compared."""

from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from hightide_bench.commands.bench import bench
from hightide_bench.measuring import tracing_cost
from hightide_bench.measuring.throughput import Figures
from hightide_bench.measuring.tracing_cost import OFF, ON
from hightide_bench.measuring.turns import environment, in_turns, ratio
from hightide_runtime.telemetry.exporters import TRACE_DIRECTORY_VARIABLE, export_target


@pytest.mark.parametrize("value", ["maybe", "on,on", ""])
def test_anything_but_on_and_off_is_refused_before_anything_starts(value: str) -> None:
    ended = CliRunner().invoke(bench, ["produce", "--tracing", value])
    assert ended.exit_code == 2
    assert "on | off | on,off" in ended.output


def test_rounds_are_compared_one_by_one_so_that_a_slow_minute_hits_both() -> None:
    rates = {ON: [99.0, 49.0, 98.0], OFF: [100.0, 50.0, 100.0]}
    figures: dict[str, list[Figures]] = {
        mode: [{"records_per_s": rate} for rate in each] for mode, each in rates.items()
    }
    assert ratio(figures, ON, OFF, "records_per_s") == 0.98
    assert ratio({ON: figures[ON]}, ON, OFF, "records_per_s") is None
    assert ratio({ON: [{"x": None}], OFF: [{"x": 1.0}]}, ON, OFF, "x") is None


def test_each_round_measures_both_and_begins_with_the_other_one() -> None:
    order: list[str] = []

    def measure(name: str) -> Figures:
        order.append(name)
        return {"place": float(len(order))}

    told: list[str] = []
    figures = in_turns(
        {name: partial(measure, name) for name in (ON, OFF)}, 3, lambda name, figures: told.append(name)
    )
    assert order == told == [ON, OFF, OFF, ON, ON, OFF]
    assert figures[OFF] == [{"place": 2.0}, {"place": 3.0}, {"place": 6.0}]


def test_each_cluster_has_its_own_environment_and_ours_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, "mine")
    monkeypatch.delenv("OTEL_TRACES_EXPORTER", raising=False)
    with environment(tracing_cost._NO_TRACES):
        assert export_target("TRACES") is None
    with environment(tracing_cost._traces_of(Path("cluster"))):
        assert export_target("TRACES") == str(Path("cluster", "traces"))
    assert export_target("TRACES") == "mine"
