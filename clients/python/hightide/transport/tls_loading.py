"""Reads the files of a client's TLS, whenever a channel is opened and when a failure is looked into."""

import ssl
from dataclasses import dataclass
from typing import Final

from hightide.calls.tls_files import TlsFiles
from hightide.errors import InvalidArgumentError

# A file that is larger is no certificate; a wrong path must not fill the memory.
_FILE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LoadedTls:
    """The content of the files, which belong together. `context` is what Python's ssl makes of them; it
    checks servers as gRPC does."""

    ca: bytes
    certificate: bytes | None
    key: bytes | None
    context: ssl.SSLContext


def load_tls(files: TlsFiles) -> LoadedTls:
    """Read the files, and check that gRPC can use them: it would say only that the connection failed. Raises
    InvalidArgumentError, which names the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    ca = _content("tls_ca", files.ca)
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError):
        raise InvalidArgumentError(f"tls_ca {files.ca} holds no certificate in PEM form") from None
    if files.certificate is None or files.key is None:
        return LoadedTls(ca, None, None, context)
    certificate, key = _content("tls_certificate", files.certificate), _content("tls_key", files.key)
    load_own_certificate(context, files)
    return LoadedTls(ca, certificate, key, context)


def load_own_certificate(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Let the context show this client's certificate, if it has one. Raises InvalidArgumentError."""
    if files.certificate is None or files.key is None:
        return

    def no_password() -> str:
        raise InvalidArgumentError(
            f"tls_key {files.key} is encrypted, and no password can be given: write it without one by "
            "`openssl pkey -in OLD -out NEW`, readable by its user alone"
        )

    try:
        context.load_cert_chain(files.certificate, files.key, no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise InvalidArgumentError(
                f"tls_key {files.key} does not belong to tls_certificate {files.certificate}"
            ) from None
        raise InvalidArgumentError(
            f"tls_certificate {files.certificate} and tls_key {files.key} are not a certificate and its key "
            "in PEM form"
        ) from None
    except OSError as error:
        raise InvalidArgumentError(
            f"tls_certificate {files.certificate} or tls_key {files.key} cannot be read: {error.strerror}"
        ) from None


def _content(name: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgumentError(f"{name} {path} cannot be read: {why}") from None
    if len(content) > _FILE_BYTES_MAX:
        raise InvalidArgumentError(f"{name} {path} has more than {_FILE_BYTES_MAX} bytes: no PEM file has")
    return content
