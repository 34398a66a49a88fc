"""The gate of the console: every request passes it, and every answer leaves with the headers of its
safety."""

from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hightide_console.access import HEADERS, TOKEN_PARAMETER, Access

_READING: Final = frozenset({"GET", "HEAD"})


class Gate:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, open a session, or hand the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._answer(scope)
        await (answer or self._app)(scope, receive, send_safely)

    def _answer(self, scope: Scope) -> Response | None:
        """What is answered at once; None lets the request in."""
        headers = Headers(scope=scope)
        if not self._access.is_own_host(headers.get("host")):
            return _refusal(
                "This is not the console's address: open the one that `hightide console` printed."
            )
        words = parse_qs(scope["query_string"].decode("latin-1"))
        shown = words.pop(TOKEN_PARAMETER, [None])[-1]
        if scope["method"] in _READING and self._access.is_token(shown):
            rest = f"?{urlencode(words, doseq=True)}" if words else ""
            # One slash: two would lead to another site.
            path = "/" + quote(scope["path"].lstrip("/"))
            answer = RedirectResponse(f"{path}{rest}", status_code=303)
            answer.set_cookie(
                self._access.cookie_name, self._access.cookie, path="/", httponly=True, samesite="strict"
            )
            return answer
        if not self._access.is_session(_cookie(headers, self._access.cookie_name)):
            return _refusal(
                "This browser has no session with the console: open the address that `hightide console` "
                "printed when it was started. It has a token, which other users of the machine do not know."
            )
        fetch_site = headers.get("sec-fetch-site")
        if scope["method"] not in _READING and not self._access.is_own_origin(
            headers.get("origin"), fetch_site
        ):
            return _refusal("This form was not sent by a page of the console.")
        if not self._access.may_read(
            fetch_site, headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
        ):
            return _refusal("This was asked for by a page that is not the console's.")
        return None


def _refusal(sentence: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", status_code=403)


def _cookie(headers: Headers, name: str) -> str | None:
    found: SimpleCookie = SimpleCookie()
    try:
        found.load(headers.get("cookie", ""))
    except CookieError:
        return None
    return found[name].value if name in found else None
