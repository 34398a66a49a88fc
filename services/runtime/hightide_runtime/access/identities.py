"""Who a caller is, by the identity in its certificate: the URI `spiffe://<cluster>/<role>/<name>`.

The form is SPIFFE's (X.509-SVID): `<cluster>` is the trust domain, and a certificate has one such URI. Of two
clusters that trust the same CA, neither takes the other's processes for its own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from hightide_runtime.access.callers import IdentifiedCall, UnknownIdentity
from hightide_runtime.access.principals import CLIENT_NAME, Principal, Role
from hightide_runtime.access.subject_mapping import SubjectMapping

FORM: Final = "spiffe://<cluster>/<role>/<name>"
_IDENTITY = re.compile(
    r"spiffe://(?P<cluster>[a-z0-9._-]{1,255})/"
    rf"(?P<role>broker|controller|coordinator|client)/(?P<name>{CLIENT_NAME})"
)
#: gRPC gives it only if the certificate has exactly one URI, and that is a SPIFFE id.
_PROPERTY: Final = "peer_spiffe_id"


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

    def __init__(self, cluster: str, mapping: SubjectMapping | None = None) -> None:
        """`cluster`: the trust domain of their certificates. `mapping`: who those are that have no SPIFFE
        URI; None: nobody."""
        self._cluster = cluster
        self._mapping = mapping

    def identify(self, call: IdentifiedCall) -> Principal:
        """Whom the certificate of the connection names. Raises UnknownIdentity."""
        try:
            return caller_of(call.auth_context(), self._cluster, self._mapping)
        except UnknownIdentity as error:
            raise UnknownIdentity(f"the caller's certificate names nobody of this cluster: {error}") from None

    def proven_for_s(self, call: IdentifiedCall) -> float | None:
        """For ever: the certificate was looked at when the connection was made."""
        return None


def caller_of(
    authenticated: Mapping[str, Iterable[bytes]], cluster: str, mapping: SubjectMapping | None = None
) -> Principal:
    """The caller of a call, by what gRPC has checked when the connection was made (`auth_context()`).

    It belongs to the connection, and no other connection gets it. A certificate with a SPIFFE URI is never
    looked at by its subject, whatever is wrong with the URI. Raises UnknownIdentity.
    """
    found = tuple(authenticated.get(_PROPERTY, ()))
    if len(found) == 1:
        return _principal(found[0], cluster)
    uris = [each.decode("ascii", "replace") for each in authenticated.get("peer_uri", ())]
    if mapping is None or any(uri.lower().startswith("spiffe:") for uri in uris):
        raise UnknownIdentity(f"it has {_told(uris)} and needs one URI of the form {FORM}")
    return mapping.principal_of(next(iter(authenticated.get("x509_subject", ())), b""))


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
