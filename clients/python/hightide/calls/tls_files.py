"""The files of a client's TLS: its CA, its certificate and its key."""

import os
from dataclasses import dataclass
from typing import Final

from hightide.errors import InvalidArgumentError

CA_VARIABLE: Final = "HIGHTIDE_TLS_CA"
CERTIFICATE_VARIABLE: Final = "HIGHTIDE_TLS_CERTIFICATE"
KEY_VARIABLE: Final = "HIGHTIDE_TLS_KEY"

FilePath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files: the certificates of the CAs that this client trusts and, where servers ask for it,
    its own certificate (with those between it and its CA) and the key of that. Holds no content: whoever
    opens a channel reads them then, so that renewed files are used."""

    ca: str
    certificate: str | None = None
    key: str | None = None


def chosen_tls_files(
    ca: FilePath | None = None, certificate: FilePath | None = None, key: FilePath | None = None
) -> TlsFiles | None:
    """The files that a client was given, else those of $HIGHTIDE_TLS_CA, _CERTIFICATE and _KEY; None for
    plaintext. Called once by every client. One argument is enough to leave the environment out: files of two
    clusters must not mix. Raises InvalidArgumentError if one is missing."""
    if ca is None and certificate is None and key is None:
        variables = (CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE)
        return _complete(variables, tuple(os.environ.get(each) or None for each in variables))
    names = ("tls_ca", "tls_certificate", "tls_key")
    given = zip(names, (ca, certificate, key), strict=True)
    return _complete(names, tuple(None if path is None else _checked(name, path) for name, path in given))


def _checked(name: str, path: FilePath) -> str:
    try:
        text = os.fspath(path)
    except TypeError:
        raise InvalidArgumentError(f"{name} is the path of a file, not {path!r}") from None
    if not isinstance(text, str) or not text:
        raise InvalidArgumentError(f"{name} is the path of a file, not {text!r}; leave it out for plaintext")
    return text


def _complete(names: tuple[str, ...], paths: tuple[str | None, ...]) -> TlsFiles | None:
    (ca_name, certificate_name, key_name), (ca, certificate, key) = names, paths
    if certificate is not None and key is None:
        raise InvalidArgumentError(f"{certificate_name} is given without {key_name}: give its key as well")
    if key is not None and certificate is None:
        raise InvalidArgumentError(f"{key_name} is given without {certificate_name}: give both")
    if ca is None and certificate is not None:
        raise InvalidArgumentError(
            f"{certificate_name} is given without {ca_name}: give the certificate of the CA that signed "
            "those of the servers"
        )
    return None if ca is None else TlsFiles(ca, certificate, key)
