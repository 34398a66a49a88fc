"""The arguments with which a command makes clients of the SDK: the address of the cluster, and the files of
TLS."""

import os
from dataclasses import dataclass
from typing import Final, TypedDict


class ClientArguments(TypedDict, total=False):
    """Arguments that Admin, Producer, Consumer and RangeReader have in common. What is left out, the SDK
    takes from the environment."""

    bootstrap: str
    tls_ca: str
    tls_certificate: str
    tls_key: str


@dataclass(frozen=True, slots=True)
class TlsPaths:
    """What --tls-ca, --tls-certificate and --tls-key say, or a context. The SDK checks that all are there
    that are needed, and reads them."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    @property
    def is_said(self) -> bool:
        """Whether any of the three is given."""
        return self != NO_TLS

    def arguments(self) -> ClientArguments:
        """The part of the arguments that is about TLS."""
        given = ClientArguments()
        if self.ca is not None:
            given["tls_ca"] = self.ca
        if self.certificate is not None:
            given["tls_certificate"] = self.certificate
        if self.key is not None:
            given["tls_key"] = self.key
        return given


NO_TLS: Final = TlsPaths()
"""Nothing is said: the environment decides."""


def hand_on_tls(tls: TlsPaths) -> None:
    """Put the files into this process's environment, for those who are told only the address of the cluster:
    the processes that a benchmark starts, and Spark. Called before they start. Files that are not said stay
    as the environment has them."""
    if not tls.is_said:
        return
    from hightide.calls.tls_files import CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE

    paths = (tls.ca, tls.certificate, tls.key)
    for variable, path in zip((CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE), paths, strict=True):
        os.environ.pop(variable, None)
        if path is not None:
            os.environ[variable] = path
