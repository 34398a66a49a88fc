"""The arguments with which a command makes clients of the SDK: the address of the cluster, and the files of
TLS and of the token."""

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
    token_file: str


@dataclass(frozen=True, slots=True)
class CredentialFiles:
    """What --tls-ca, --tls-certificate, --tls-key and --token-file say, or a context. The SDK checks that all
    are there that are needed, and reads them."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    token: str | None = None

    @property
    def is_said(self) -> bool:
        """Whether any of them is given."""
        return self != NO_FILES

    def arguments(self) -> ClientArguments:
        """The part of the arguments that is about them."""
        given = ClientArguments()
        if self.ca is not None:
            given["tls_ca"] = self.ca
        if self.certificate is not None:
            given["tls_certificate"] = self.certificate
        if self.key is not None:
            given["tls_key"] = self.key
        if self.token is not None:
            given["token_file"] = self.token
        return given


NO_FILES: Final = CredentialFiles()
"""Nothing is said: the environment decides."""


def hand_on_files(files: CredentialFiles) -> None:
    """Put the files into this process's environment, for those who are told only the address of the cluster:
    the processes that a benchmark starts, and Spark. Called before they start. If none is said, they stay as
    the environment has them."""
    if not files.is_said:
        return
    from hightide.calls.credentials import TOKEN_FILE_VARIABLE
    from hightide.calls.tls_files import CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE

    variables = (CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE, TOKEN_FILE_VARIABLE)
    paths = (files.ca, files.certificate, files.key, files.token)
    for variable, path in zip(variables, paths, strict=True):
        os.environ.pop(variable, None)
        if path is not None:
            os.environ[variable] = path
