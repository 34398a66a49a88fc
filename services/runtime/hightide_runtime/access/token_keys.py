"""The public keys that tokens are verified with: read from one file, and read again when it changes.

The file is a JWK set (RFC 7517), or has public keys in PEM form, one after the other. It is no address: what
fetches it from an issuer, and how often, is up to the operator, and no service depends on another server.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from hightide_runtime.errors import StartupError

__all__ = ["KeysRefused", "ReloadedTokenKeys", "TokenKey", "TokenKeys", "read_token_keys"]

FILE_BYTES_MAX: Final = 256 * 1024
KEYS_MAX: Final = 64
NAMELESS_MAX: Final = 4
"""Keys without an id: each token is tried with all of them, so they cost those who send nonsense little."""
RSA_BITS: Final = range(2048, 8193)
LOOK_EVERY_S: Final = 1.0
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_BY_CURVE: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_PRIVATE_PARTS: Final = frozenset({"d", "p", "q", "k"})
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----.*?-----END \1-----", re.DOTALL)
_WANTED: Final = "RSA of 2048 to 8192 bits, EC on P-256, P-384 or P-521, or Ed25519"
_log = logging.getLogger(__name__)


class KeysRefused(Exception):
    """Why a file of keys cannot be used, as a sentence with the file and the next step."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    """One public key, and what may be signed with it. The algorithm never comes from a token alone."""

    key: Any
    algorithms: tuple[str, ...]
    #: None: the key has no name, and is tried for tokens that name no key of the file.
    key_id: str | None = None


class TokenKeys:
    """The keys of a file as it was read once."""

    def __init__(self, keys: Sequence[TokenKey]) -> None:
        self._by_id: dict[str, list[TokenKey]] = {}
        for key in keys:
            if key.key_id is not None:
                self._by_id.setdefault(key.key_id, []).append(key)
        self._nameless = [key for key in keys if key.key_id is None]
        self._only = list(keys) if len(keys) == 1 else []

    def candidates(self, key_id: str | None) -> list[TokenKey]:
        """The keys to try for a token that names this one, or none. At most a few: verifying costs some 100
        microseconds, and whoever sends nonsense does not pay for it."""
        if key_id is None:
            return self._only or self._nameless
        return self._by_id.get(key_id, self._nameless)


class ReloadedTokenKeys:
    """The keys as the file has them now. Belongs to the event loop's thread."""

    def __init__(self, path: Path, monotonic_s: Callable[[], float]) -> None:
        """Raises StartupError if the file cannot be used."""
        self._path = path
        self._monotonic_s = monotonic_s
        self._seen = _stamp(path)
        self._looked_s = monotonic_s()
        try:
            self._current = read_token_keys(path)
        except KeysRefused as why:
            raise StartupError(f"--token-keys: {why}") from None

    def current(self) -> TokenKeys:
        """The keys to verify a token with: others if the file has changed, else the same object. Called for
        each call; it looks at the file once a second.

        A file that cannot be used is reported once in the log, and the keys before it stay in use. So it does
        while it is replaced.
        """
        now_s = self._monotonic_s()
        if now_s - self._looked_s < LOOK_EVERY_S:
            return self._current
        self._looked_s = now_s
        stamp = _stamp(self._path)
        if stamp != self._seen:
            self._seen = stamp
            self._read_again(stamp)
        return self._current

    def _read_again(self, stamp: tuple[int, int, int] | None) -> None:
        try:
            read = read_token_keys(self._path)
        except KeysRefused as why:
            _log.warning(
                "the keys of tokens have changed and are not used, tokens go on with those before: %s", why
            )
            return
        if _stamp(self._path) != stamp:
            # It changed while it was read, and the next look reads it again.
            self._seen = None
            return
        self._current = read
        _log.info("tokens are verified with the keys that are now in %s", self._path)


def read_token_keys(path: Path) -> TokenKeys:
    """Read a file of keys. Raises KeysRefused."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise KeysRefused(
            f"{path} cannot be read: {error.strerror}; name a file that this user may read"
        ) from None
    if len(content) > FILE_BYTES_MAX:
        raise KeysRefused(f"{path} has more than {FILE_BYTES_MAX} bytes; name a file of public keys")
    keys = _keys_of_set(path, content) if content.lstrip()[:1] == b"{" else _keys_of_pem(path, content)
    if not keys:
        raise KeysRefused(f"{path} has no public key for signatures: {_WANTED}")
    if len(keys) > KEYS_MAX:
        raise KeysRefused(f"{path} has {len(keys)} keys, and may have {KEYS_MAX}")
    if sum(key.key_id is None for key in keys) > NAMELESS_MAX:
        raise KeysRefused(f"{path} has more than {NAMELESS_MAX} keys without a kid; give each one a kid")
    return TokenKeys(keys)


def _keys_of_set(path: Path, content: bytes) -> list[TokenKey]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise KeysRefused(f"{path} is no JWK set: {error}") from None
    entries = document.get("keys")
    if not isinstance(entries, list):
        raise KeysRefused(f"{path} is no JWK set: it has no list `keys`")
    found = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise KeysRefused(f"{path} is no JWK set: one of its keys is no object")
        if not _PRIVATE_PARTS.isdisjoint(entry):
            raise KeysRefused(
                f"{path} has a secret or private key; whoever reads it could sign tokens. Give services the "
                "public keys only"
            )
        if entry.get("use", "sig") != "sig":
            continue
        try:
            key = PyJWK(entry).key
        except (PyJWTError, ValueError, TypeError, KeyError, UnsupportedAlgorithm):
            # RFC 7517, 5: a key of a kind that is not known is no error of the set.
            continue
        key_id, algorithm = entry.get("kid"), entry.get("alg")
        algorithms = tuple(each for each in _algorithms(key) if algorithm in (None, each))
        if algorithms:
            found.append(TokenKey(key, algorithms, key_id if isinstance(key_id, str) else None))
    return found


def _keys_of_pem(path: Path, content: bytes) -> list[TokenKey]:
    found = []
    for matched in _PEM.finditer(content):
        label = matched[1].decode()
        if "PRIVATE" in label:
            raise KeysRefused(
                f"{path} has a private key; whoever reads it could sign tokens. Give services the public key "
                "only: openssl pkey -in KEY -pubout"
            )
        if "PUBLIC KEY" not in label:
            raise KeysRefused(
                f"{path} has a {label}, and no public key; of a certificate, write it by: openssl x509 -in "
                "CERTIFICATE -noout -pubkey"
            )
        try:
            key = load_pem_public_key(matched[0])
        except (ValueError, UnsupportedAlgorithm) as error:
            raise KeysRefused(f"{path} has a public key that cannot be read: {error}") from None
        algorithms = _algorithms(key)
        if not algorithms:
            raise KeysRefused(f"{path} has a public key of another kind than {_WANTED}")
        found.append(TokenKey(key, algorithms))
    return found


def _algorithms(key: object) -> tuple[str, ...]:
    """What may be signed with a key of this kind; nothing if the kind is not used here."""
    if isinstance(key, RSAPublicKey):
        return _RSA if key.key_size in RSA_BITS else ()
    if isinstance(key, EllipticCurvePublicKey):
        algorithm = _BY_CURVE.get(key.curve.name)
        return () if algorithm is None else (algorithm,)
    return ("EdDSA",) if isinstance(key, Ed25519PublicKey) else ()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes if the content changes. None: it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
