"""Spans of the clients in this process, written beside those of the services, so that one trace shows both.

Called by programs that are Hightide's own: the command, the demo, benchmarks. Programs of users set up
OpenTelemetry as they please; see `hightide.tracing`.
"""

import atexit
import importlib.util
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hightide import tracing
from hightide_runtime.telemetry.exporters import (
    TRACE_DIRECTORY_VARIABLE,
    TRACES,
    is_switched_off,
    is_target_named,
)

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

log = logging.getLogger("hightide")

_SDK: Final = "opentelemetry.sdk"
#: A command ends when its work is done, whatever becomes of its last span.
_SHUT_DOWN_PATIENCE_S: Final = 0.5


def trace_clients(directory: Path | None = None, *, at_once: bool = False) -> bool:
    """Send the spans of this process's clients where OTEL_* or HIGHTIDE_TRACE_DIR say, else into a directory
    (what a local cluster calls its trace directory). Returns whether they go anywhere.

    OpenTelemetry is imported for the first span, or `at_once` by who measures: the import takes half a
    second. Where it is not installed there are no spans.
    """
    provider = _provider_for(directory)
    if provider is None:
        return False
    tracing.use(provider)
    if at_once:
        provider()
    return True


@contextmanager
def command_span(name: str) -> Iterator[None]:
    """A span around what a command does, which the RPCs that it makes carry along. Called by the command's
    main, where the environment says that it is traced."""
    provider = _provider_for(None)
    if provider is None:
        yield
        return
    tracing.use(provider)
    with provider().get_tracer("hightide").start_as_current_span(name, record_exception=False):
        yield


def export_trace_directory(directory: Path) -> None:
    """Let the processes that this one starts, which call `trace_clients`, write there as well, unless the
    environment says something else already. Called by programs that start a cluster and loads of their
    own."""
    if not is_target_named(TRACES):
        os.environ[TRACE_DIRECTORY_VARIABLE] = str(directory)


def _provider_for(directory: Path | None) -> "_Provider | None":
    is_said = is_target_named(TRACES)
    if is_switched_off() or not (is_said or directory is not None) or not _is_installed():
        return None
    return _Provider(None if is_said else directory)


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec(_SDK) is not None
    except ModuleNotFoundError:
        return False


class _Provider:
    """Makes the process's TracerProvider when it is asked for the first time, by whichever thread."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._made: TracerProvider | None = None
        self._lock = threading.Lock()

    def __call__(self) -> "TracerProvider":
        """Called by the SDK for each span, on the thread of the client that has one to tell."""
        if self._made is None:
            # Two of them would be two open files, and two ends that the process waits for.
            with self._lock:
                if self._made is None:
                    self._made = self._make()
        return self._made

    def _make(self) -> "TracerProvider":
        from hightide_runtime.errors import StartupError
        from hightide_runtime.telemetry.exporters import shut_down_within
        from hightide_runtime.telemetry.tracing import Telemetry
        from opentelemetry.trace import NoOpTracerProvider

        try:
            provider = Telemetry.set_up("client", str(os.getpid()), directory=self._directory).provider
        except (StartupError, OSError) as error:
            # A client has its work to do; what is wrong with its traces may be meant for other programs.
            log.warning("nothing is traced: %s", error)
            provider = None
        if provider is None:
            return NoOpTracerProvider()
        atexit.register(shut_down_within, provider.shutdown, _SHUT_DOWN_PATIENCE_S)
        return provider
