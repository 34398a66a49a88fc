"""The pages of a change: fill it in, see what would happen, say yes, see what happened.

A console that was started without --allow-changes has none of these routes.
"""

import time
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hightide_console.changes.catalogue import change_named
from hightide_console.changes.change import LONG_TEXT_MAX, Change, ChangeError, checked
from hightide_console.changes.pending import Shown
from hightide_console.console import Console, console_of
from hightide_console.views.records import safe_text

#: Each of its characters may be written as %XX of four bytes.
_FORM_BYTES_MAX: Final = 12 * LONG_TEXT_MAX
_FIELDS_MAX: Final = 20


async def form(request: Request) -> Response:
    """What there is to fill in; the page that led here has said some of it."""
    console = console_of(request)
    change = change_named(request.path_params["change"])
    if change is None:
        return _unknown(console, request.path_params["change"])
    said = {each.name: request.query_params.get(each.name, each.default) for each in change.fields}
    return _form(console, change, said)


async def preview(request: Request) -> Response:
    """The dry run, the command, and the question."""
    console = console_of(request)
    change = change_named(request.path_params["change"])
    if change is None:
        return _unknown(console, request.path_params["change"])
    try:
        said = await _said(request)
    except ChangeError as error:
        return _form(console, change, {}, str(error))
    try:
        values = checked(change, said)
        tried, command = change.tried(values), change.done(values)
    except ChangeError as error:
        return _form(console, change, said, str(error))
    outcome = await console.runner.run(tried)
    ticket = ""
    if outcome.is_well:
        ticket = console.pending.add(Shown(change, command, values, time.monotonic()))
    shown = {
        "change": change,
        "values": values,
        "tried": console.runner.text(tried),
        "command": console.runner.text(command),
        "output": safe_text(outcome.output.strip()),
        "ticket": ticket,
        "active": _active(change),
    }
    return console.page("change_preview", shown, 200 if outcome.is_well else 409)


async def carry_out(request: Request) -> Response:
    """What was shown is done, once."""
    console = console_of(request)
    try:
        ticket = (await _said(request)).get("ticket", "")
    except ChangeError:
        ticket = ""
    shown = console.pending.take(ticket, time.monotonic())
    if shown is None:
        values = {
            "what": "This change",
            "sentence": "It was not shown before, or it was done already, or it was shown too long ago. "
            "Nothing was changed now: fill it in again.",
            "active": "",
        }
        return console.page("failed", values, 409)
    outcome = await console.runner.run(shown.command)
    done = {
        "change": shown.change,
        "values": shown.values,
        "command": console.runner.text(shown.command),
        "output": safe_text(outcome.output.strip()),
        "is_well": outcome.is_well,
        "back": _back(shown),
        "active": _active(shown.change),
    }
    return console.page("change_done", done, 200 if outcome.is_well else 409)


def _form(console: Console, change: Change, said: dict[str, str], sentence: str = "") -> Response:
    values = {"change": change, "said": said, "sentence": sentence, "active": _active(change)}
    return console.page("change", values, 400 if sentence else 200)


def _unknown(console: Console, name: str) -> Response:
    values = {"what": name[:64], "sentence": "There is no such change.", "active": ""}
    return console.page("failed", values, 404)


def _active(change: Change) -> str:
    return {"topic": "topics", "group": "groups"}.get(change.place, change.place)


def _back(shown: Shown) -> str:
    """The page that shows what has become of it. A topic or a group that was deleted has none."""
    is_gone = shown.change.name.startswith("delete-")
    name = shown.values.get("topic" if shown.change.place == "topic" else "group", "")
    match shown.change.place:
        case "topic" if name and not is_gone:
            return f"/topics/{name}"
        case "topic" | "topics":
            return "/topics"
        case "group" if not is_gone:
            return f"/groups/{name}"
        case "group":
            return "/groups"
        case "failovers":
            return "/failovers"
        case _:
            return "/"


async def _said(request: Request) -> dict[str, str]:
    """The fields of a form that was sent. Raises ChangeError for one that is too large, or is no form."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _FORM_BYTES_MAX:
            raise ChangeError(f"This form has more than {_FORM_BYTES_MAX:,} bytes")
    try:
        return dict(
            parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
        )
    except ValueError as error:
        raise ChangeError("This form cannot be read: it is no UTF-8, or has too many fields") from error


ROUTES: Final = (
    Route("/changes/{change}", form),
    Route("/changes/{change}/preview", preview, methods=["POST"]),
    Route("/changes", carry_out, methods=["POST"]),
)
