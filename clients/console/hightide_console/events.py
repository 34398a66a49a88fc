"""Server-sent events: parts of a page as they change, for a bounded number of windows."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hightide_console.console import Console, TooManyStreamsError

#: A stream says something at least so often, so that a window learns of a console that is gone.
BEAT_S: Final = 5.0

#: The events of one moment: name → what a browser gets. Names that are in `parts` are HTML.
Composer = Callable[[int], Mapping[str, Any]]


def event(name: str, document: object) -> str:
    """One event, with a document as JSON."""
    text = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n"


def stream(console: Console, messages: AsyncGenerator[str], kind: str = "events") -> Response:
    """Send messages until the window goes away. Refuses one window too many."""
    return _Stream(console, messages, kind)


class _Stream(StreamingResponse):
    """A stream counts for exactly as long as it is answered: also one of a window that was gone before its
    first message."""

    def __init__(self, console: Console, messages: AsyncGenerator[str], kind: str) -> None:
        self._console, self._messages, self._kind = console, messages, kind
        self._sent = _until(console.ending, messages)
        super().__init__(
            self._sent,
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._console.stream(self._kind):
                async with aclosing(self._messages), aclosing(self._sent):
                    await super().__call__(scope, receive, send)
        except TooManyStreamsError:
            await _TOO_MANY(scope, receive, send)


_TOO_MANY: Final = PlainTextResponse(
    "Too many windows are open: close one, and this one goes on.\n", 503, {"retry-after": "5"}
)


async def _until(ending: asyncio.Event, messages: AsyncIterator[str]) -> AsyncGenerator[str]:
    """The messages, until the server stops."""
    yield "retry: 1000\n\n"
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


async def changed_parts(console: Console, parts: Callable[[], Mapping[str, str]]) -> AsyncGenerator[str]:
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
