"""Who a caller is, by its bearer token: a JWT (RFC 7519) as `authorization: Bearer …` (RFC 6750).

What a token must have follows RFC 8725: the algorithm is that of a key of the operator's file, and issuer,
audience and expiry are checked. A token makes its bearer a client, and never a process of the cluster.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import jwt
from jwt.exceptions import (
    InvalidAlgorithmError,
    InvalidAudienceError,
    InvalidIssuerError,
    InvalidSignatureError,
    MissingRequiredClaimError,
    PyJWTError,
)

from hightide_runtime.access.callers import IdentifiedCall, UnknownToken
from hightide_runtime.access.client_identities import TokenSettings
from hightide_runtime.access.principals import CLIENT_NAME, Principal, Role
from hightide_runtime.access.token_keys import ReloadedTokenKeys, TokenKeys

TOKEN_BYTES_MAX: Final = 8 * 1024
CACHE_MAX: Final = 4_096
"""Verified tokens that are remembered; some 300 bytes each."""
LEEWAY_S: Final = 30.0
"""The clocks of an issuer and of a service may differ by so much."""
PROVEN_FOR_S_MAX: Final = 86_400.0
"""A stream lasts so long at most, also with a token that is valid for ever. It may be opened again."""
_METADATA: Final = "authorization"
_NAME = re.compile(CLIENT_NAME)
#: RFC 8725, 3.11: tokens of the issuer for other purposes say so. RFC 9068 has at+jwt.
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
_SEND_ONE: Final = (
    "send it as `authorization: Bearer TOKEN` (the SDK does with token_file, commands with --token-file)"
)


@dataclass(frozen=True, slots=True)
class _Verified:
    caller: Principal
    #: When it is not valid any more, in seconds since 1970, the leeway included.
    until_s: float


class CallersByToken:
    """The callers of a listener that asks for tokens. Belongs to the event loop's thread.

    A token is verified once, and remembered until it expires or the keys change: so a call costs some
    microseconds, and a client's first call 100 to 500.
    """

    def __init__(
        self,
        settings: TokenSettings,
        *,
        wall_s: Callable[[], float] = time.time,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises StartupError if the keys cannot be used."""
        self._settings = settings
        self._wall_s = wall_s
        self._keys = ReloadedTokenKeys(settings.keys, monotonic_s)
        self._used_keys = self._keys.current()
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    def identify(self, call: IdentifiedCall) -> Principal:
        """Whom the token of the call names. Raises UnknownToken."""
        return self._look_up(_token_of(call.invocation_metadata())).caller

    def proven_for_s(self, call: IdentifiedCall) -> float | None:
        """Until the token expires, and a day at most. Raises UnknownToken."""
        until_s = self._look_up(_token_of(call.invocation_metadata())).until_s
        return min(until_s - self._wall_s(), PROVEN_FOR_S_MAX)

    def _look_up(self, token: bytes) -> _Verified:
        keys = self._keys.current()
        if keys is not self._used_keys:
            self._used_keys = keys
            self._verified.clear()
        # The tokens themselves are not kept: who reads this memory should not have them.
        digest = hashlib.sha256(token).digest()
        found = self._verified.get(digest)
        now_s = self._wall_s()
        if found is not None and now_s < found.until_s:
            self._verified.move_to_end(digest)
            return found
        found = self._verified[digest] = _verify(token, self._settings, keys, now_s)
        self._verified.move_to_end(digest)
        if len(self._verified) > CACHE_MAX:
            self._verified.popitem(last=False)
        return found


def _token_of(metadata: Iterable[tuple[str, str | bytes]]) -> bytes:
    """The one bearer token of a call. Raises UnknownToken."""
    found = [value for key, value in metadata or () if key == _METADATA]
    if not found:
        raise UnknownToken(f"this listener asks for a bearer token, and the call has none; {_SEND_ONE}")
    if len(found) > 1:
        raise UnknownToken("the call has more than one `authorization`; send one token")
    value = found[0] if isinstance(found[0], bytes) else found[0].encode("utf-8", "replace")
    scheme, _, token = value.partition(b" ")
    if scheme.lower() != b"bearer" or not token:
        raise UnknownToken(f"the `authorization` of the call is no bearer token; {_SEND_ONE}")
    if len(token) > TOKEN_BYTES_MAX:
        raise _refused(f"it has {len(token)} bytes, and may have {TOKEN_BYTES_MAX}")
    return token


def _verify(token: bytes, settings: TokenSettings, keys: TokenKeys, now_s: float) -> _Verified:
    """Check everything that a token must have. Raises UnknownToken."""
    try:
        claims = _signed_claims(token, settings, keys)
    except InvalidAudienceError:
        raise _refused(f"it is not for the audience {settings.audience!r}") from None
    except InvalidIssuerError:
        raise _refused(f"it is not of the issuer {settings.issuer!r}") from None
    except MissingRequiredClaimError as error:
        raise _refused(f"it has no claim {error.claim!r}") from None
    except (PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        # What the library says may quote the token.
        raise _refused(f"it is no JWT that can be read ({type(error).__name__})") from None
    until_s = _time(claims, "exp") + LEEWAY_S
    if now_s >= until_s:
        raise _refused(f"it expired at {_told(until_s - LEEWAY_S)}; get a new one")
    if "nbf" in claims and now_s < (begins_s := _time(claims, "nbf") - LEEWAY_S):
        raise _refused(f"it is not valid before {_told(begins_s + LEEWAY_S)}; is the clock right?")
    name = claims[settings.claim]
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise _refused(
            f"its claim {settings.claim!r} is {str(name)[:100]!r}, and the name of a client has 1 to 200 "
            "characters of [a-zA-Z0-9._-]"
        )
    return _Verified(Principal(Role.CLIENT, name), until_s)


def _signed_claims(token: bytes, settings: TokenSettings, keys: TokenKeys) -> dict[str, Any]:
    """The claims of a token that a key of the file has signed, for this audience, by this issuer. Raises
    UnknownToken, and what the library raises."""
    header = jwt.get_unverified_header(token)
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise _refused(f"it is a token for something else, of the type {str(kind)[:100]!r}")
    key_id, algorithm = header.get("kid"), header.get("alg")
    candidates = keys.candidates(key_id)
    if not candidates:
        if key_id is None:
            raise _refused("it names no key (kid), and those of --token-keys have names")
        raise _refused(f"its key id (kid) {key_id[:100]!r} is unknown: --token-keys has no such key")
    for key in candidates:
        if algorithm not in key.algorithms:
            continue
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=key.algorithms,
                audience=settings.audience,
                issuer=settings.issuer,
                options={
                    "require": ["exp", settings.claim],
                    # Below, by the clock that is given.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (InvalidSignatureError, InvalidAlgorithmError):
            continue
    if any(algorithm in key.algorithms for key in candidates):
        raise _refused("its signature is not of a key of --token-keys")
    allowed = ", ".join(dict.fromkeys(each for key in candidates for each in key.algorithms))
    raise _refused(f"its algorithm is {str(algorithm)[:20]!r}, and the key is for {allowed}")


def _time(claims: dict[str, Any], claim: str) -> float:
    """A NumericDate of RFC 7519. Raises UnknownToken."""
    value = claims[claim]
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass  # A whole number beyond all floats.
    raise _refused(f"its claim {claim!r} is no time")


def _told(time_s: float) -> str:
    try:
        return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{time_s:.0f} s after 1970"


def _refused(why: str) -> UnknownToken:
    return UnknownToken(f"the token of the call is refused: {why}")
