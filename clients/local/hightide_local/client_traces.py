"""Spans of the clients in this process, written beside those of the services, so that one trace shows both.

Called by programs that are Hightide's own: the command, the demo, benchmarks. Programs of users set up
OpenTelemetry as they please; see `hightide.tracing`.
"""

import atexit
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hightide import tracing
from hightide_runtime.telemetry import TRACE_DIRECTORY_VARIABLE

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_COLLECTOR_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def trace_clients(directory: Path | None = None, *, at_once: bool = False) -> bool:
    """Send the spans of this process's clients where OTEL_* or HIGHTIDE_TRACE_DIR say, else into a directory
    (what a local cluster calls its trace directory). Returns whether they go anywhere.

    OpenTelemetry is imported for the first span, or `at_once` by who measures: the import takes half a
    second. Processes that this one starts with its environment do the same, by this function.
    """
    if directory is not None and not _is_set():
        os.environ[TRACE_DIRECTORY_VARIABLE] = str(directory)
    if not _is_set():
        return False
    tracing.use(_provider)
    if at_once:
        _provider()
    return True


def _is_set() -> bool:
    return any(os.environ.get(name) for name in (*_COLLECTOR_VARIABLES, TRACE_DIRECTORY_VARIABLE))


@cache
def _provider() -> "TracerProvider":
    """One for the process. Raises StartupError where the OTEL_* variables ask for what there is not."""
    from hightide_runtime.telemetry import Telemetry
    from opentelemetry.trace import NoOpTracerProvider

    telemetry = Telemetry.set_up("client", str(os.getpid()))
    atexit.register(telemetry.shut_down)
    return telemetry.provider or NoOpTracerProvider()
