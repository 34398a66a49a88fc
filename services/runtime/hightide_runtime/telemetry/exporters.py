"""The target and the identity with which a process exports its spans and metrics.

OpenTelemetry's own variables hold: OTEL_EXPORTER_OTLP_ENDPOINT and its kin, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER (none, or otlp), OTEL_TRACES_SAMPLER,
OTEL_SDK_DISABLED. OTLP is supported only over gRPC. Without an endpoint, HIGHTIDE_TRACE_DIR names a
directory. OpenTelemetry is only imported if there is something to export.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

__all__ = [
    "COLLECTOR",
    "METRICS",
    "TRACES",
    "TRACE_DIRECTORY_VARIABLE",
    "export_target",
    "is_switched_off",
    "is_target_named",
    "quieten_exporters",
    "resource_of",
    "shut_down_within",
]

TRACE_DIRECTORY_VARIABLE: Final = "HIGHTIDE_TRACE_DIR"
#: The two signals, by their names in OpenTelemetry's variables.
TRACES: Final = "TRACES"
METRICS: Final = "METRICS"
#: The target that is a collector. It cannot be mistaken for a directory, since no path is empty.
COLLECTOR: Final = ""
_SHUT_DOWN_PATIENCE_S: Final = 2.0
"""The end of a process waits at most this long for a collector."""
_EXPORTER_LOGGERS: Final = ("opentelemetry.exporter.otlp", "opentelemetry.sdk")
_COMPLAINT_EVERY_S: Final = 60.0


def is_switched_off() -> bool:
    """Whether OTEL_SDK_DISABLED switches all exports off."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def is_target_named(signal: str) -> bool:
    """Whether the environment names a target for TRACES or METRICS, valid or not."""
    names = (*_endpoint_variables(signal), TRACE_DIRECTORY_VARIABLE)
    return any(os.environ.get(name) for name in names)


def export_target(signal: str) -> str | None:
    """The target of a signal (TRACES, METRICS): COLLECTOR if OTEL_EXPORTER_OTLP_ENDPOINT (or the signal's
    own) names one, otherwise the directory that HIGHTIDE_TRACE_DIR names; None: no target.

    Raises StartupError if the OTEL_* variables ask for something that does not exist.
    """
    exporter = os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower()
    if is_switched_off() or exporter == "none":
        return None
    if not any(os.environ.get(name) for name in _endpoint_variables(signal)):
        return os.environ.get(TRACE_DIRECTORY_VARIABLE) or None
    # Imported here, since it imports gRPC, which tools that only read spans do not need.
    from hightide_runtime.errors import StartupError

    if exporter not in ("", "otlp"):
        raise StartupError(f"OTEL_{signal}_EXPORTER is {exporter[:100]!r}; set it to otlp or none")
    for variable in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = os.environ.get(variable, "").strip().lower()
        if protocol not in ("", "grpc"):
            raise StartupError(
                f"{variable} is {protocol[:100]!r}; this program supports only grpc: set it to grpc, and "
                "the endpoint to the collector's gRPC port, which is usually 4317"
            )
        if protocol:
            break
    quieten_exporters()
    return COLLECTOR


def _endpoint_variables(signal: str) -> tuple[str, str]:
    return "OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"


def resource_of(service: str, instance: str) -> "Resource":
    """The identity of a process in its spans and metrics. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take
    precedence."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    ours = {
        "service.name": f"hightide-{service}",
        "service.namespace": "hightide",
        "service.instance.id": instance,
    }
    theirs = OTELResourceDetector().detect().attributes
    return Resource.create({name: value for name, value in ours.items() if name not in theirs})


def shut_down_within(shut_down: Callable[[], object], patience_s: float = _SHUT_DOWN_PATIENCE_S) -> None:
    """Shut an exporter down. Return after `patience_s` at the latest, even if its collector does not
    answer."""
    # A daemon thread does not delay the end of the process.
    thread = threading.Thread(target=shut_down, name="telemetry-shutdown", daemon=True)
    thread.start()
    thread.join(patience_s)


def quieten_exporters() -> None:
    """Let exporters log once a minute that their collector does not answer, and not at each attempt."""
    for name in _EXPORTER_LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, _OncePerMinute) for each in logger.handlers):
            logger.addHandler(_OncePerMinute())
            logger.propagate = False


class _OncePerMinute(logging.Handler):
    """Passes at most one record per minute on to the log of the process."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._next_s = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the record on, or drop it. Called by logging, on any thread."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _COMPLAINT_EVERY_S
            # Without the traceback of some records, which adds nothing.
            logging.getLogger(__name__).warning("telemetry is not delivered: %s", record.getMessage()[:500])
