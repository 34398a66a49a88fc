"""Who may use a console, decided without any I/O: the Host header, the session, the origin of a request.

A console listens on loopback. Three kinds of others can reach it there: a web page in the same browser, which
sends requests or rebinds its name to 127.0.0.1; another user of the machine; a program of the same user,
which needs no console. The Host header refuses rebinding. The secret of the address that is printed at the
start refuses other users, and becomes a cookie that no other site can have sent.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

TOKEN_PARAMETER: Final = "token"

#: No script, style or connection of others; nothing inline; no frame around the page.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With no-referrer, browsers hide from the console where its own forms come from (Origin: null).
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def hosts_of(host: str, port: int) -> frozenset[str]:
    """The values of the Host header that mean this console, in small letters. Browsers leave port 80 out."""
    names = {host.lower(), "127.0.0.1", "localhost", "::1"}
    spelled = {f"[{each}]" if ":" in each else each for each in names}
    return frozenset(f"{each}:{port}" for each in spelled) | (spelled if port == 80 else frozenset())


def _new_secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class Access:
    """The secrets of one run of a console. They end with the process."""

    hosts: frozenset[str]
    port: int
    secret: str = field(default_factory=_new_secret, repr=False)
    _passes: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @property
    def cookie_name(self) -> str:
        """Browsers keep cookies by host: two consoles on one machine would take each other's."""
        return f"hightide_console_{self.port}"

    @property
    def cookie(self) -> str:
        """The value of the cookie; who reads it from a browser's store does not learn the printed token."""
        return hmac.new(self.secret.encode(), b"cookie", sha256).hexdigest()

    def is_own_host(self, host: str | None) -> bool:
        """Whether the Host header names this console, and not a name that was bound to its address."""
        return host is not None and host.lower() in self.hosts

    def new_pass(self) -> str:
        """A token that opens one session. The command line of a browser is seen by all users of a machine."""
        self._passes.add(token := _new_secret())
        return token

    def is_token(self, token: str | None) -> bool:
        """Whether this is the token of the printed address, or a pass, which is used up then."""
        if token is not None and token in self._passes:
            self._passes.remove(token)
            return True
        return token is not None and hmac.compare_digest(token.encode(), self.secret.encode())

    def is_session(self, cookie: str | None) -> bool:
        """Whether a browser has shown the token before."""
        return cookie is not None and hmac.compare_digest(cookie.encode(), self.cookie.encode())

    def may_read(self, fetch_site: str | None, mode: str | None, destination: str | None) -> bool:
        """Whether a request that only reads is one of this console's pages, or of somebody who opens one, by
        what the browser says of it. Cookies know no ports: a page at another port of this host sends ours
        along, and could have the console read and search for it without end."""
        if fetch_site in (None, "same-origin", "none"):
            return True
        return (mode, destination) == ("navigate", "document")

    def is_own_origin(self, origin: str | None, fetch_site: str | None) -> bool:
        """Whether a request that changes something comes from a page of this console, by what the browser
        says of it. A program that is no browser says nothing, and has to know the session."""
        if fetch_site is not None and fetch_site != "same-origin":
            return False
        return origin is None or origin.lower().removeprefix("http://") in self.hosts
