"""Whom a cluster takes a console for, as its credentials say: for the page, and for nothing else. The servers
decide who calls."""

import base64
import json
import os
from pathlib import Path

from cryptography import x509
from hightide.calls.credentials import TOKEN_FILE_VARIABLE
from hightide.calls.tls_files import CERTIFICATE_VARIABLE
from hightide_cli.command_line.client_arguments import ClientArguments

_FILE_BYTES_MAX = 64 << 10
_NAME_MAX = 200


def identity_of(arguments: ClientArguments) -> str:
    """`client/alice` of the certificate's URI, the certificate's subject, or the subject of the token; ""
    where there is neither, or it cannot be read."""
    environment = os.environ if len(arguments) <= ("bootstrap" in arguments) else {}
    certificate = arguments.get("tls_certificate") or environment.get(CERTIFICATE_VARIABLE)
    token = arguments.get("token_file") or environment.get(TOKEN_FILE_VARIABLE)
    try:
        if certificate:
            return _of_certificate(_content(certificate))[:_NAME_MAX]
        if token:
            return f"client/{_of_token(_content(token))}"[:_NAME_MAX]
    except (OSError, ValueError):
        # The first call says what is wrong with the file.
        return ""
    return ""


def _content(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(_FILE_BYTES_MAX)


def _of_certificate(pem: bytes) -> str:
    certificate = x509.load_pem_x509_certificate(pem)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except x509.ExtensionNotFound:
        uris = []
    if len(uris) == 1 and uris[0].startswith("spiffe://"):
        return uris[0].removeprefix("spiffe://").partition("/")[2]
    return certificate.subject.rfc4514_string()


def _of_token(token: bytes) -> str:
    """The subject of a JWT. Raises ValueError."""
    parts = token.strip().split(b".")
    if len(parts) != 3:
        raise ValueError("no JWT")
    claims = json.loads(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    subject = claims.get("sub") if isinstance(claims, dict) else None
    if not isinstance(subject, str) or not subject.isprintable():
        raise ValueError("no subject")
    return subject
