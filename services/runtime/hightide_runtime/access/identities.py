"""Who a caller is, by the identity in its certificate: the URI `spiffe://<cluster>/<role>/<name>`.

The form is SPIFFE's (X.509-SVID): `<cluster>` is the trust domain, and a certificate has one such URI. Of two
clusters that trust the same CA, neither takes the other's processes for its own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from hightide_runtime.access.callers import AnsweredCall, UnknownCaller
from hightide_runtime.access.principals import Principal, Role

FORM: Final = "spiffe://<cluster>/<role>/<name>"
_IDENTITY = re.compile(
    r"spiffe://(?P<cluster>[a-z0-9._-]{1,255})/"
    r"(?P<role>broker|controller|coordinator|client)/(?P<name>[a-zA-Z0-9._-]{1,200})"
)
#: gRPC gives it only if the certificate has exactly one URI, and that is a SPIFFE id.
_PROPERTY: Final = "peer_spiffe_id"


class UnknownIdentity(UnknownCaller):
    """A certificate that names nobody of this cluster; the message says what it names."""


def trust_domain_of(uris: Sequence[str]) -> str:
    """The cluster that a process belongs to, by the URIs in its own certificate. Raises UnknownIdentity."""
    matched = _IDENTITY.fullmatch(uris[0]) if len(uris) == 1 else None
    if matched is None:
        raise UnknownIdentity(f"it has {_told(uris)} and needs one URI of the form {FORM}")
    return matched["cluster"]


def check_own_identity(uris: Sequence[str], role: str, number: int) -> None:
    """Check that a certificate is that of this process: `broker`, 2. Others would refuse what it says of
    itself. Raises UnknownIdentity."""
    cluster = trust_domain_of(uris)
    own = f"spiffe://{cluster}/{role}/{number}"
    if uris[0] != own:
        raise UnknownIdentity(f"it has {uris[0]}, and this process is {own}")


class CallersByCertificate:
    """The callers of a listener that asks for certificates."""

    def __init__(self, cluster: str) -> None:
        """`cluster`: the trust domain of their certificates."""
        self._cluster = cluster

    def identify(self, call: AnsweredCall) -> Principal:
        """Whom the certificate of the connection names. Raises UnknownIdentity."""
        try:
            return caller_of(call.auth_context(), self._cluster)
        except UnknownIdentity as error:
            raise UnknownIdentity(f"the caller's certificate names nobody of this cluster: {error}") from None


def caller_of(authenticated: Mapping[str, Iterable[bytes]], cluster: str) -> Principal:
    """The caller of a call, by what gRPC has checked when the connection was made (`auth_context()`).

    It belongs to the connection, and no other connection gets it. Raises UnknownIdentity.
    """
    found = tuple(authenticated.get(_PROPERTY, ()))
    if len(found) != 1:
        uris = [each.decode("ascii", "replace") for each in authenticated.get("peer_uri", ())]
        raise UnknownIdentity(f"it has {_told(uris)} and needs one URI of the form {FORM}")
    return _principal(found[0], cluster)


@lru_cache(maxsize=1024)
def _principal(identity: bytes, cluster: str) -> Principal:
    uri = identity.decode("ascii", "replace")
    matched = _IDENTITY.fullmatch(uri)
    if matched is None:
        raise UnknownIdentity(f"it has {_told([uri])} and needs one URI of the form {FORM}")
    if matched["cluster"] != cluster:
        raise UnknownIdentity(f"it is of the cluster {matched['cluster']!r}, and this is {cluster!r}")
    return Principal(Role(matched["role"]), matched["name"])


def _told(uris: Sequence[str]) -> str:
    return ", ".join(uris)[:300] if uris else "no URI"
