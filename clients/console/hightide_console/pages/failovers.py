"""The pages of failovers, moves and complaints."""

import asyncio
from typing import Final

from hightide_cli.trace.page import svg_of
from hightide_cli.trace.picture import picture_of
from hightide_cli.trace.search import all_traces
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hightide_console.console import Console, console_of
from hightide_console.events import changed_parts, stream
from hightide_console.views.failovers import MovesView, moves_view, trace_named, trace_rows

_FIRST_S: Final = 0.7


async def failovers(request: Request) -> Response:
    """The list, the moves, the complaints."""
    console = console_of(request)
    await console.watch.first(_FIRST_S)
    traces = await asyncio.to_thread(all_traces, console.trace_directories)
    cluster = console.watch.pulse.cluster
    values = {
        "rows": trace_rows(traces),
        "has_traces": bool(console.trace_directories),
        "complaints": cluster.complaints if cluster else (),
        "moves": _moves(console),
        "active": "failovers",
    }
    return console.page("failovers", values)


async def failover(request: Request) -> Response:
    """One trace as a waterfall. Its picture is the one of `hightide trace show --html`."""
    console = console_of(request)
    trace_id = request.path_params["trace"]
    traces = await asyncio.to_thread(all_traces, console.trace_directories, None)
    trace = trace_named(traces, trace_id)
    if trace is None:
        values = {
            "what": f"trace {trace_id[:64]}",
            "sentence": "No trace has this id.",
            "active": "failovers",
        }
        return console.page("failed", values, status_code=404)
    picture = await asyncio.to_thread(picture_of, trace)
    drawn = {"picture": picture, "svg": Markup(svg_of(picture))}
    return console.page("failover", {**drawn, "active": "failovers"})


async def failover_events(request: Request) -> Response:
    """What changes: moves and complaints. New failovers come with the next visit."""
    console = console_of(request)

    def parts() -> dict[str, str]:
        cluster = console.watch.pulse.cluster
        return {
            "status": console.part("status", {"status": console.status()}),
            "moves": console.part("moves", {"moves": _moves(console)}),
            "complaints": console.part("complaints", {"complaints": cluster.complaints if cluster else ()}),
        }

    return stream(console, changed_parts(console, parts))


def _moves(console: Console) -> MovesView | None:
    survey, cluster = console.watch.survey, console.watch.pulse.cluster
    if survey is None or cluster is None:
        return None
    return moves_view(survey.moves, cluster.reassignment_throttle_bytes_per_s)


ROUTES: Final = (
    Route("/failovers", failovers, name="failovers"),
    Route("/failovers/{trace}", failover, name="failover"),
    Route("/events/failovers", failover_events),
)
