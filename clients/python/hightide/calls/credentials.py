"""What a client shows of itself, and whom it trusts: the files of its TLS, and its bearer token."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hightide.calls.tls_files import FilePath, TlsFiles, chosen_tls_files
from hightide.errors import InvalidArgumentError

TOKEN_FILE_VARIABLE: Final = "HIGHTIDE_TOKEN_FILE"
TOKEN_BYTES_MAX: Final = 8 * 1024

#: A token, or what returns one when the client needs another.
Token = str | Callable[[], str]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of one client. At most one of `token` and `token_file` is there."""

    tls: TlsFiles | None = None
    token: Token | None = None
    token_file: str | None = None


def chosen_credentials(
    tls_ca: FilePath | None = None,
    tls_certificate: FilePath | None = None,
    tls_key: FilePath | None = None,
    token: Token | None = None,
    token_file: FilePath | None = None,
) -> Credentials:
    """The credentials that a client was given, else those of the environment. Called once by every client.
    One argument is enough to leave the environment out: a token must not travel to another cluster. Raises
    InvalidArgumentError."""
    if (tls_ca, tls_certificate, tls_key, token, token_file) == (None, None, None, None, None):
        return Credentials(chosen_tls_files(), token_file=os.environ.get(TOKEN_FILE_VARIABLE) or None)
    if token is not None and token_file is not None:
        raise InvalidArgumentError("token and token_file are given; give one of them")
    if isinstance(token, str):
        check_token("token", token)
    elif token is not None and not callable(token):
        raise InvalidArgumentError("token is a text, or a function that returns one")
    path = None if token_file is None else os.fspath(token_file)
    if path is not None and (not isinstance(path, str) or not path):
        raise InvalidArgumentError(f"token_file is the path of a file, not {path!r}")
    has_tls = (tls_ca, tls_certificate, tls_key) != (None, None, None)
    files = chosen_tls_files(tls_ca, tls_certificate, tls_key) if has_tls else None
    return Credentials(files, token, path)


def check_token(source: str, token: str) -> None:
    """Check that a text can be a token (RFC 6750, 2.1). The message never shows it. Raises
    InvalidArgumentError."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidArgumentError(f"{source} holds no token: that is one word of printable ASCII")
    if len(token) > TOKEN_BYTES_MAX:
        raise InvalidArgumentError(
            f"{source} holds {len(token)} characters, and a token has at most {TOKEN_BYTES_MAX}"
        )
