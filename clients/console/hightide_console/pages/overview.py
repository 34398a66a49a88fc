"""The overview page, its events, the grid and the charts."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hightide_console.console import Console, console_of, now_ms
from hightide_console.events import changed_parts, event, stream
from hightide_console.views.overview import Overview, overview_of
from hightide_console.views.record_query import whole_number

#: A page that is opened first waits so long for the cluster, and is shown without figures after that.
_FIRST_S: Final = 0.7
_PARTS: Final = ("status", "figures", "problems", "brokers", "roles", "unwell")


def _view(console: Console) -> Overview:
    watch = console.watch
    return overview_of(watch.pulse, watch.survey, watch.traffic, now_ms(), watch.servers)


async def overview(request: Request) -> Response:
    """The page."""
    console = console_of(request)
    await console.watch.first(_FIRST_S)
    return console.page("overview", {"view": _view(console), "active": "overview"})


async def overview_events(request: Request) -> Response:
    """What changes on it: parts, the grid, points of the charts."""
    console = console_of(request)
    return stream(console, _messages(console, _version(request)))


async def grid(request: Request) -> Response:
    """All of the grid."""
    console = console_of(request)
    await console.watch.first(_FIRST_S)
    console.grid.take(console.watch.survey)
    return Response(console.grid.whole(), media_type="application/json")


async def traffic(request: Request) -> Response:
    """The points of the charts so far."""
    return JSONResponse(console_of(request).watch.traffic.columns())


def _parts(console: Console) -> Mapping[str, str]:
    values: dict[str, Any] = {"view": _view(console), "status": console.status()}
    return {name: console.part(name, values) for name in _PARTS}


async def _messages(console: Console, grid_version: int) -> AsyncGenerator[str]:
    survey_number = console.watch.survey.number if console.watch.survey else 0
    async for message in changed_parts(console, lambda: _parts(console)):
        yield message
        survey = console.watch.survey
        if survey is None or survey.number == survey_number:
            continue
        survey_number = survey.number
        columns = console.watch.traffic.columns()
        yield event("point", [column[-1] for column in columns])
        console.grid.take(survey)
        if console.grid.version != grid_version:
            yield event("grid", console.grid.change_after(grid_version) or {"again": True})
            grid_version = console.grid.version


def _version(request: Request) -> int:
    said = whole_number(request.query_params.get("grid", ""))
    return -1 if said is None else said


ROUTES: Final = (
    Route("/", overview, name="overview"),
    Route("/events/overview", overview_events),
    Route("/grid.json", grid),
    Route("/traffic.json", traffic),
)
