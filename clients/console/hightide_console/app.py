"""The application: its routes behind the gate, and the watch that lives as long as it does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from hightide_console.console import Console, console_of
from hightide_console.gate import Gate
from hightide_console.pages import changes, failovers, groups, overview, tail, topics


def application(console: Console) -> Starlette:
    """The application of one console. Called by `hightide console`, and by tests."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        console.watch.start()
        yield
        await console.watch.stop()
        console.reading.close()
        await console.door.close()

    app = Starlette(
        routes=[
            *overview.ROUTES,
            *topics.ROUTES,
            *tail.ROUTES,
            *groups.ROUTES,
            *failovers.ROUTES,
            *(changes.ROUTES if console.settings.allows_changes else ()),
            Mount("/static", StaticFiles(packages=[("hightide_console", "static")]), name="static"),
        ],
        middleware=[Middleware(Gate, access=console.access)],
        exception_handlers={HTTPException: _not_found},
        lifespan=lifespan,
    )
    app.state.console = console
    return app


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it is registered for these"
    values = {"what": request.url.path, "sentence": str(error.detail), "active": ""}
    return console_of(request).page("failed", values, status_code=error.status_code)
