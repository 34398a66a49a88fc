"""One running console: what all its pages share."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hightide_cli.cluster.health_report import is_led
from starlette.requests import Request
from starlette.responses import HTMLResponse

from hightide_console.access import Access
from hightide_console.changes.catalogue import changes_of
from hightide_console.changes.change import Change
from hightide_console.changes.pending import PendingChanges
from hightide_console.changes.running import CommandRunner
from hightide_console.door import ClusterDoor
from hightide_console.grid_keeper import GridKeeper
from hightide_console.reading import RecordReading
from hightide_console.rendering import Rendering
from hightide_console.settings import STREAMS_MAX, TAILS_MAX, ConsoleSettings
from hightide_console.views.overview import status_of
from hightide_console.watch import ClusterWatch


class TooManyStreamsError(Exception):
    """More windows ask for events than the console serves."""


class Console:
    """The state of one console. Handlers find it by `console_of`. `ending` is set when the server stops:
    streams end then, which have no other end."""

    def __init__(
        self,
        settings: ConsoleSettings,
        access: Access,
        door: ClusterDoor,
        reading: RecordReading,
        trace_directories: tuple[Path, ...] = (),
    ) -> None:
        self.settings, self.access, self.door, self.reading = settings, access, door, reading
        self.trace_directories = trace_directories
        self.watch = ClusterWatch(door.pulse_admin.describe_cluster, door.survey, door.look_at_servers)
        self.grid = GridKeeper()
        self.runner = CommandRunner(settings.cluster, door.arguments)
        self.pending = PendingChanges()
        self.ending = asyncio.Event()
        self._open = {"events": 0, "tail": 0}
        self._rendering = Rendering(
            {
                "settings": settings,
                "changes_of": self._changes_of,
            }
        )

    def _changes_of(self, place: str) -> tuple[Change, ...]:
        """The changes of a page. What asks for a controller is left out where there is none."""
        cluster = self.watch.pulse.cluster
        return changes_of(place, has_controller=cluster is None or not is_led(cluster))

    def page(self, name: str, values: Mapping[str, Any], status_code: int = 200) -> HTMLResponse:
        """Render a page, with the state of the cluster on top."""
        return HTMLResponse(self._rendering.page(name, {"status": self.status(), **values}), status_code)

    def part(self, name: str, values: Mapping[str, Any]) -> str:
        """Render a part of a page."""
        return self._rendering.part(name, values)

    def status(self) -> Any:
        """The state of the cluster in a word."""
        return status_of(self.watch.pulse, self.watch.survey, now_ms(), self.watch.servers)

    @contextmanager
    def stream(self, kind: str) -> Iterator[None]:
        """Count a stream while it is open. Raises TooManyStreamsError."""
        is_full = sum(self._open.values()) >= STREAMS_MAX
        if is_full or (kind == "tail" and self._open[kind] >= TAILS_MAX):
            raise TooManyStreamsError(kind)
        self._open[kind] += 1
        try:
            yield
        finally:
            self._open[kind] -= 1


def console_of(request: Request) -> Console:
    """The console that serves a request."""
    console = request.app.state.console
    assert isinstance(console, Console), "the application has one"
    console.watch.want()
    return console


def now_ms() -> int:
    """The wall clock, for what people read."""
    return time.time_ns() // 1_000_000
