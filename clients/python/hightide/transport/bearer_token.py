"""The bearer token of one client's calls (RFC 6750): where it comes from, and when it is looked at again.

The client does not verify it, which is the servers' part. It reads when the token expires only to know when
to ask for another one.
"""

import base64
import binascii
import ipaddress
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from hightide.calls.credentials import TOKEN_BYTES_MAX, Credentials, check_token
from hightide.errors import InvalidArgumentError, TokenNotSentError

_AUTHORIZATION: Final = "authorization"
RENEWED_AFTER: Final = 0.8
"""The part of its life after which a token is asked for anew, so that the next one is there in time."""

Metadata = tuple[tuple[str, str], ...]


class BearerToken:
    """Whatever a client was given as its token. Thread-safe."""

    def __init__(self, credentials: Credentials, wall_s: Callable[[], float] = time.time) -> None:
        """Raises InvalidArgumentError if the file cannot be used now."""
        self._is_encrypted = credentials.tls is not None
        self._source = credentials.token if callable(credentials.token) else None
        self._path = credentials.token_file
        self._wall_s = wall_s
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._renew_at_s = 0.0
        self._metadata: Metadata = ()
        if isinstance(credentials.token, str):
            self._metadata = _metadata_of(credentials.token)
        if self._path is not None:
            self._read(self._path)

    def metadata(self, address: str) -> Metadata:
        """What a call to this address carries. Raises TokenNotSentError."""
        if not self._is_encrypted and not _is_loopback(address):
            raise TokenNotSentError(
                f"a token is not sent to {address} without TLS: whoever reads it on the way can use it. Give "
                "tls_ca, or HIGHTIDE_TLS_CA",
                address=address,
            )
        with self._lock:
            if self._path is not None:
                self._look_at(self._path)
            elif self._source is not None and self._wall_s() >= self._renew_at_s:
                self._ask(self._source)
            return self._metadata

    def refused(self) -> None:
        """Note that a server has refused the token: the next call asks for another one."""
        with self._lock:
            self._renew_at_s = 0.0
            self._stamp = None

    def _look_at(self, path: str) -> None:
        """Read the file again if it has changed. While it cannot be used, as when it is being replaced, the
        token before it is."""
        try:
            status = os.stat(path)
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self._stamp:
                self._read(path)
                self._stamp = stamp
        except (OSError, InvalidArgumentError):
            return

    def _read(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                content = file.read(2 * TOKEN_BYTES_MAX)
        except OSError as error:
            raise InvalidArgumentError(f"token_file {path} cannot be read: {error.strerror}") from None
        token = content.decode("utf-8", "replace").strip()
        check_token(f"token_file {path}", token)
        self._metadata = _metadata_of(token)

    def _ask(self, source: Callable[[], str]) -> None:
        try:
            token = source()
            if not isinstance(token, str):
                raise InvalidArgumentError(f"token returned {type(token).__name__}, and not a text")
            check_token("what token returned", token)
        except Exception as error:
            raise TokenNotSentError(f"the function that was given as token has failed: {error!r}") from error
        self._metadata = _metadata_of(token)
        now_s = self._wall_s()
        expires_s = _expiry_of(token)
        self._renew_at_s = now_s if expires_s is None else now_s + RENEWED_AFTER * (expires_s - now_s)


def _metadata_of(token: str) -> Metadata:
    return ((_AUTHORIZATION, f"Bearer {token}"),)


def _expiry_of(token: str) -> float | None:
    """When a JWT says that it expires, in seconds since 1970. None: it says nothing that can be read."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError, binascii.Error):
        return None


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
