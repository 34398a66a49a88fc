"""How connections to each listener are protected, and who may come in by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import grpc

from hightide_runtime.access.callers import Callers, UnknownIdentity
from hightide_runtime.access.client_identities import ClientIdentities, TokenSettings
from hightide_runtime.access.identities import CallersByCertificate, trust_domain_of
from hightide_runtime.errors import StartupError
from hightide_runtime.serving.listeners import Listener
from hightide_runtime.tls.certificates import ReloadedCertificates
from hightide_runtime.tls.credentials import server_credentials
from hightide_runtime.tls.files import ClientAuth, ServerTls


@dataclass(frozen=True, slots=True)
class Transport:
    """How connections to one listener are protected."""

    #: None: not at all.
    credentials: grpc.ServerCredentials | None = None
    #: Who may come in; None: everybody, and all are anonymous.
    callers: Callers | None = None


def transports_of(tls: ServerTls | None, clients: ClientIdentities) -> Mapping[Listener, Transport]:
    """The transport of each listener. Called when a server is built. Raises StartupError."""
    by_token = None if clients.tokens is None else _callers_by_token(clients.tokens)
    if tls is None:
        return {Listener.INTERNAL: Transport(), Listener.EXTERNAL: Transport(None, by_token)}
    certificates = ReloadedCertificates(tls.files, tls.hosts)

    def transport(client_auth: ClientAuth, others: Callers | None) -> Transport:
        callers = others
        if client_auth is ClientAuth.REQUIRED:
            cluster = _own_cluster(tls, certificates.current().uris)
            callers = CallersByCertificate(cluster, clients.subjects)
        return Transport(server_credentials(certificates, client_auth), callers)

    return {
        Listener.INTERNAL: transport(tls.client_auth, None),
        Listener.EXTERNAL: transport(tls.external_client_auth, by_token),
    }


def _callers_by_token(tokens: TokenSettings) -> Callers:
    """Those with tokens. Raises StartupError."""
    # Only here: most processes verify no tokens, and need no library for it.
    from hightide_runtime.access.tokens import CallersByToken

    return CallersByToken(tokens)


def _own_cluster(tls: ServerTls, uris: Sequence[str]) -> str:
    """The cluster that this process belongs to. Raises StartupError."""
    try:
        return trust_domain_of(uris)
    except UnknownIdentity as error:
        raise StartupError(
            f"{tls.files.certificate} does not say which process of which cluster this is: {error}; "
            "`hightide certs issue` issues such certificates"
        ) from None
