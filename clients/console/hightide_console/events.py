"""Server-sent events: parts of a page as they change, for a bounded number of windows."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from hightide_console.console import Console, TooManyStreamsError

#: A stream says something at least so often, so that a window learns of a console that is gone.
BEAT_S: Final = 5.0

#: The events of one moment: name → what a browser gets. Names that are in `parts` are HTML.
Composer = Callable[[int], Mapping[str, Any]]


def event(name: str, document: object) -> str:
    """One event, with a document as JSON."""
    text = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n"


def stream(console: Console, messages: AsyncIterator[str], kind: str = "events") -> Response:
    """Send messages until the window goes away. Refuses one window too many."""
    guard = console.stream(kind)
    try:
        guard.__enter__()
    except TooManyStreamsError:
        return PlainTextResponse(
            "Too many windows are open: close one, and this one goes on.\n",
            503,
            {"retry-after": "5"},
        )

    async def sent() -> AsyncIterator[str]:
        try:
            yield "retry: 1000\n\n"
            async for message in _until(console.ending, messages):
                yield message
        finally:
            guard.__exit__(None, None, None)

    return StreamingResponse(sent(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _until(ending: asyncio.Event, messages: AsyncIterator[str]) -> AsyncIterator[str]:
    """The messages, until the server stops."""
    end = asyncio.create_task(ending.wait())
    try:
        while True:
            message = asyncio.ensure_future(anext(messages))
            try:
                await asyncio.wait({end, message}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not message.done():
                    message.cancel()
                    with suppress(asyncio.CancelledError):
                        await message
            if message.cancelled():
                return
            try:
                yield message.result()
            except StopAsyncIteration:
                return
    finally:
        end.cancel()


async def changed_parts(console: Console, parts: Callable[[], Mapping[str, str]]) -> AsyncIterator[str]:
    """The parts of a page that differ from what this window has, each time the watch has news. A comment
    where none differs, so that whoever sends more of a page has its turn at each look."""
    sent: dict[str, str] = {}
    version = -1
    while True:
        console.watch.want()
        version = await console.watch.changed(version, BEAT_S)
        news = {name: html for name, html in parts().items() if sent.get(name) != html}
        sent.update(news)
        yield event("parts", news) if news else ": still here\n\n"
