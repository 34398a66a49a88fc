"""A cluster whose controllers write spans, each message taking a millisecond; and the spans as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import opentelemetry.sdk.trace as otel
import pytest
from hightide_local.traces.span_files import SpanRecord, read_spans
from hightide_runtime.telemetry import span_kinds, tracing
from hightide_runtime.telemetry.tracing import Telemetry
from sim.messages import Envelope
from sim.topics.world import CONTROLLERS, Cluster

FOLLOWS: Final = frozenset({span_kinds.FAILOVER, span_kinds.CONTROLLER_FAILOVER})
"""Kinds of trace whose ids follow from what does not change between two runs."""
_ID: Final = re.compile(r"\b[0-9a-f]{32}\b")


class TracedCluster(Cluster):
    """Its time moves on by a millisecond with each message that arrives."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._telemetry: dict[int, Telemetry] = {}
        super().__init__()

    def telemetry_of(self, controller_id: int) -> Telemetry:
        built = Telemetry.set_up("controller", str(controller_id), directory=self.directory)
        self._telemetry[controller_id] = built
        return built

    def deliver(self, envelope: Envelope) -> None:
        self.now_ms += 1
        super().deliver(envelope)

    def crash(self, node_id: int) -> None:
        # As by SIGKILL: what ends with its tasks is written by nobody.
        if node_id in self._telemetry:
            self._telemetry.pop(node_id).shut_down()
        super().crash(node_id)

    def close(self) -> None:
        super().close()
        for telemetry in self._telemetry.values():
            telemetry.shut_down()

    def resign(self) -> None:
        """The active controller steps down, and ends all that it traces."""
        for controller in self.controllers.values():
            if controller.is_active:
                controller.loop.create_task(controller.shell.resign(0))
                controller.loop.settle()

    def call_active(self, method: str, request: Any, traceparent: str = "") -> None:
        """An operator calls the active controller by an RPC; the traceparent is the caller's."""
        for controller in self.controllers.values():
            if controller.is_active:
                controller.serve(method, request, traceparent)


@contextmanager
def traced(directory: Path) -> Iterator[TracedCluster]:
    """Spans that begin and end now do so at the simulation's time."""
    world = TracedCluster(directory)

    def time_ns() -> int:
        return world.now_ms * 1_000_000

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracing, "time", SimpleNamespace(time_ns=time_ns))
        patch.setattr(otel, "time_ns", time_ns)
        try:
            yield world
        finally:
            world.close()


def written(world: TracedCluster, since_ms: int) -> str:
    """The traces of spans that began since then: of each its name, from and to in ms, who wrote it, what it
    is below, and its attributes. Ids that are drawn are no part of it."""
    spans = [span for span in read_spans(world.directory) if span.start_us >= since_ms * 1000]
    traces: dict[str, list[SpanRecord]] = {}
    for span in sorted(spans, key=_order):
        traces.setdefault(span.trace_id, []).append(span)
    names = {trace_id: f"trace {number}" for number, trace_id in enumerate(traces, 1)}
    return "\n".join(_trace(each, names) for each in traces.values())


def _order(span: SpanRecord) -> tuple[int, bool, int, str, str, str]:
    return span.start_us, bool(span.parent_id), span.end_us, span.name, span.instance, str(span.attributes)


def _trace(spans: list[SpanRecord], names: dict[str, str]) -> str:
    began_us = spans[0].start_us
    trace_id = spans[0].trace_id
    lines = [f"{names[trace_id]}, id {trace_id if any(span.name in FOLLOWS for span in spans) else '*'}"]
    by_id = {span.span_id: span.name for span in spans}
    for span in spans:
        below = by_id.get(span.parent_id, "a span of its caller") if span.parent_id else "nothing"
        from_ms, to_ms = (span.start_us - began_us) / 1000, (span.end_us - began_us) / 1000
        lines.append(f"  {span.name} {from_ms:g}..{to_ms:g} ms, by {span.instance}, below {below}")
        for name, value in sorted(span.attributes.items()):
            text = _ID.sub(lambda found: names.get(found.group(), "*"), str(value))
            lines.append(f"      {name}: {text}")
    return "\n".join(lines) + "\n"


ACTIVE, STANDBY = CONTROLLERS
