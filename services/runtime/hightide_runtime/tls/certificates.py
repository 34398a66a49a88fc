"""Reads the certificates of a process, and reads them again when the files have changed.

Whether they are good is tried, not parsed: a handshake in memory, in which both sides have these files. So
what Python's OpenSSL finds wrong is known before the first peer refuses the process, and no library is needed
that a service would not have otherwise.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from hightide_runtime.errors import StartupError
from hightide_runtime.tls.files import TlsFiles

__all__ = ["CertificateRefused", "Certificates", "ReloadedCertificates", "read_certificates"]

_log = logging.getLogger(__name__)
_Stamps: TypeAlias = tuple[tuple[int, int, int] | None, ...]

_ROUNDS_MAX: Final = 10
"""A handshake takes three rounds."""
# Codes of X509_verify_cert_error_string(3).
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_NO_ISSUER: Final = frozenset({2, 18, 19, 20, 21})
_WRONG_PURPOSE: Final = 26
_WRONG_HOST: Final = frozenset({62, 64})


class CertificateRefused(Exception):
    """Why peers would refuse these files, as a sentence with the file and the next step."""


@dataclass(frozen=True, slots=True, eq=False)
class Certificates:
    """The content of a process's files, which fit each other. Equal only to itself."""

    certificate: bytes
    key: bytes
    ca: bytes
    #: The URIs among the names of the certificate. They say who the process is (access/identities.py).
    uris: tuple[str, ...]


class ReloadedCertificates:
    """The certificates of a process, as the files have them now. Any thread."""

    def __init__(self, files: TlsFiles, hosts: Sequence[str] = ()) -> None:
        """`hosts`: the certificate must name them. Raises StartupError if the files cannot be used."""
        self._files = files
        self._hosts = tuple(hosts)
        self._lock = threading.Lock()
        self._seen = _stamps(files)
        try:
            self._current = read_certificates(files, self._hosts)
        except CertificateRefused as why:
            raise StartupError(str(why)) from None

    def current(self) -> Certificates:
        """The certificates for the next connection: new ones if the files have changed and can be used, else
        the same object as before. Called for each handshake of a server; it costs three stat calls.

        Files that cannot be used are reported once in the log, and what was read before stays in use. So it
        does while the files are replaced one after another.
        """
        with self._lock:
            stamps = _stamps(self._files)
            if stamps != self._seen:
                self._seen = stamps
                self._read_again(stamps)
            return self._current

    def _read_again(self, stamps: _Stamps) -> None:
        try:
            read = read_certificates(self._files, self._hosts)
        except CertificateRefused as why:
            _log.warning(
                "the certificate of this process has changed and is not used, new connections go on with the "
                "one before: %s",
                why,
            )
            return
        if _stamps(self._files) == stamps:
            self._current = read
            _log.info("new connections use the certificate that is now in %s", self._files.certificate)
        # Else they changed while they were read, and the next call reads them again.


def read_certificates(files: TlsFiles, hosts: Sequence[str] = ()) -> Certificates:
    """Read the files, and try them. Raises CertificateRefused."""
    certificate = _pem(files.certificate, b"-----BEGIN CERTIFICATE-----", "certificate")
    key = _pem(files.key, b"PRIVATE KEY-----", "private key")
    ca = _pem(files.ca, b"-----BEGIN CERTIFICATE-----", "certificate")
    serving = _context(ssl.PROTOCOL_TLS_SERVER, files, ca)
    uris: tuple[str, ...] = ()
    for host in hosts or (None,):
        calling = _context(ssl.PROTOCOL_TLS_CLIENT, files, ca)
        calling.check_hostname = host is not None
        try:
            uris = _shake_hands(serving, calling, host)
        except ssl.SSLCertVerificationError as error:
            _refuse(files, ca, error, host)
        except ssl.SSLError as error:
            raise CertificateRefused(f"{files.certificate} cannot be used: {error.reason or error}") from None
    return Certificates(certificate, key, ca, uris)


def _pem(path: Path, mark: bytes, what: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CertificateRefused(
            f"{path} cannot be read: {error.strerror}; name a file that this user may read"
        ) from None
    if mark not in content:
        raise CertificateRefused(
            f"{path} has no {what} in PEM form; `hightide certs issue` writes such files"
        )
    return content


def _context(side: ssl._SSLMethod, files: TlsFiles, ca: bytes) -> ssl.SSLContext:
    def no_password() -> NoReturn:
        raise CertificateRefused(
            f"{files.key} is encrypted; store it without a password, readable by its owner only"
        )

    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(files.certificate, files.key, no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise CertificateRefused(
                f"{files.key} is not the key of {files.certificate}; name files that were issued together"
            ) from None
        raise CertificateRefused(
            f"{files.certificate} and {files.key} cannot be read: {error.reason or error}; issue them again"
        ) from None
    try:
        context.load_verify_locations(cadata=ca.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateRefused(f"{files.ca} is damaged: {error}; copy it again from the CA") from None
    return context


def _shake_hands(serving: ssl.SSLContext, calling: ssl.SSLContext, host: str | None) -> tuple[str, ...]:
    """A whole handshake in memory, and the URIs in the server's certificate. Raises what either side says."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    client = calling.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(_ROUNDS_MAX):
        done = 0
        for side in (client, server):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                continue  # It waits for the other side.
        if done == 2:
            names: Any = (client.getpeercert() or {}).get("subjectAltName", ())
            return tuple(value for kind, value in names if kind == "URI")
    raise AssertionError(f"a handshake takes less than {_ROUNDS_MAX} rounds")


def _refuse(files: TlsFiles, ca: bytes, error: ssl.SSLCertVerificationError, host: str | None) -> NoReturn:
    code = error.verify_code
    if code in _WRONG_HOST:
        raise CertificateRefused(
            f"{files.certificate} does not name the host {host}, by which others reach this process; issue "
            "one that does, or give --advertise (--external-advertise) a host that it names"
        ) from None
    if code == _EXPIRED:
        late = files.ca if _has_expired(ca) else files.certificate
        raise CertificateRefused(f"{late} has expired; issue a new one") from None
    if code == _NOT_YET_VALID:
        raise CertificateRefused(
            f"{files.certificate} is not valid yet; is the clock of this machine right?"
        ) from None
    if code in _NO_ISSUER:
        raise CertificateRefused(
            f"{files.certificate} is not signed by a CA of {files.ca}; name the CA that issued it, or "
            "have it issued by this one"
        ) from None
    if code == _WRONG_PURPOSE:
        raise CertificateRefused(
            f"{files.certificate} may not be used by both sides of a connection, and a service serves and "
            "calls; issue one for server and client authentication"
        ) from None
    raise CertificateRefused(f"{files.certificate} would be refused: {error.verify_message}") from None


def _has_expired(ca: bytes) -> bool:
    """Whether a CA of the file has expired."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=ca.decode("ascii", "replace"))
    ends = (each["notAfter"] for each in context.get_ca_certs())
    return any(ssl.cert_time_to_seconds(str(end)) < time.time() for end in ends)


def _stamps(files: TlsFiles) -> _Stamps:
    return tuple(_stamp(path) for path in (files.certificate, files.key, files.ca))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes if the content changes. None: it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
