"""Where the certificates of a process are, and what its listeners ask of clients."""

import enum
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files of one process. It serves with its certificate and key, and also calls others with them;
    it trusts those whose certificates lead to one of the CAs."""

    certificate: Path
    key: Path
    ca: Path


class ClientAuth(enum.StrEnum):
    """Whether a client must bring a certificate. gRPC's Python servers cannot ask for one and do without."""

    NONE = "none"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The TLS of a server, for `serve`."""

    files: TlsFiles
    client_auth: ClientAuth = ClientAuth.REQUIRED
    #: Of the listener for clients from outside.
    external_client_auth: ClientAuth = ClientAuth.REQUIRED
    #: The hosts by which others reach the process. Its certificate must name them, or they refuse it.
    hosts: tuple[str, ...] = ()
