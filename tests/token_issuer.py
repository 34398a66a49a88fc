"""An issuer of bearer tokens for tests: it signs what it is told to, also what no issuer should."""

import base64
import json
import time
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "hightide"
HOUR_S: Final = 3_600


class TokenIssuer:
    """One private key, with what is signed by it."""

    def __init__(self, key_id: str | None = "first", key: Any = None, algorithm: str = "ES256") -> None:
        self.key = generate_private_key(SECP256R1()) if key is None else key
        self.key_id = key_id
        self.algorithm = algorithm

    def token(
        self,
        name: Any = "alice",
        *,
        headers: dict[str, Any] | None = None,
        lasts_s: float = HOUR_S,
        **claims: Any,
    ) -> str:
        """A valid token, but for what is given. A claim that is None is left out."""
        told = {"iss": ISSUER, "aud": AUDIENCE, "sub": name, "exp": int(time.time() + lasts_s)} | claims
        named = {} if self.key_id is None else {"kid": self.key_id}
        payload = json.dumps({claim: value for claim, value in told.items() if value is not None})
        # Not as a JWT: that would refuse to sign nonsense.
        return jwt.PyJWS().encode(payload.encode(), self.key, self.algorithm, headers=named | (headers or {}))

    @property
    def pem(self) -> bytes:
        """The public key, as PEM."""
        pem: bytes = self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return pem

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key, as JWK."""
        jwk: dict[str, Any] = json.loads(
            get_default_algorithms()[self.algorithm].to_jwk(self.key.public_key())
        )
        return jwk if self.key_id is None else jwk | {"kid": self.key_id}


def write_key_set(path: Path, *keys: TokenIssuer | dict[str, Any]) -> Path:
    """Write a JWK set beside the old one, and put it into its place."""
    entries = [key.jwk if isinstance(key, TokenIssuer) else key for key in keys]
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"keys": entries}))
    return new.rename(path)


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """A token of which every part is given."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
