"""Exports the spans of this process's clients to the same place as those of the services, so that a trace has
both.

Hightide's own programs call it: the command, the demo, benchmarks. Programs of users set up OpenTelemetry
themselves; see `hightide.tracing`.
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
#: The end of a command waits no longer than this for the export of its last spans.
_SHUT_DOWN_PATIENCE_S: Final = 0.5


def trace_clients(directory: Path | None = None, *, at_once: bool = False) -> bool:
    """Export the spans of this process's clients to the target of OTEL_* or HIGHTIDE_TRACE_DIR, else into
    `directory`, such as a local cluster's trace directory. Returns whether they are exported.

    OpenTelemetry is imported at the first span, which takes half a second, or now if `at_once`, as benchmarks
    want. If it is not installed, there are no spans.
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
    """A span around the work of a command, the parent of the spans of its RPCs. The command's main calls it.
    There is a span only if the environment names a target for traces."""
    provider = _provider_for(None)
    if provider is None:
        yield
        return
    tracing.use(provider)
    with provider().get_tracer("hightide").start_as_current_span(name, record_exception=False):
        yield


def export_trace_directory(directory: Path) -> None:
    """Let the processes that this one starts and that call `trace_clients` export there, too, unless the
    environment already names a target. Programs that start a cluster and loads call it."""
    if not is_target_named(TRACES):
        os.environ[TRACE_DIRECTORY_VARIABLE] = str(directory)


def _provider_for(directory: Path | None) -> "_Provider | None":
    is_named = is_target_named(TRACES)
    if is_switched_off() or not (is_named or directory is not None) or not _is_installed():
        return None
    return _Provider(None if is_named else directory)


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec(_SDK) is not None
    except ModuleNotFoundError:
        return False


class _Provider:
    """Makes the TracerProvider of the process at the first call. Any thread may call it."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._made: TracerProvider | None = None
        self._lock = threading.Lock()

    def __call__(self) -> "TracerProvider":
        """Return the TracerProvider. The SDK calls it for each span, on the client's thread."""
        if self._made is None:
            # Without the lock two threads could make two, with two open files.
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
            # A wrong setting of traces, perhaps for other programs, must not stop a client.
            log.warning("nothing is traced: %s", error)
            provider = None
        if provider is None:
            return NoOpTracerProvider()
        atexit.register(shut_down_within, provider.shutdown, _SHUT_DOWN_PATIENCE_S)
        return provider
