"""A certificate authority in a directory, which issues the certificates of a small cluster.

The local cluster, `hightide certs` and tests use it. Certificates follow SPIFFE's X.509-SVID: the identity
is a URI among the alternative names of the subject, such as `spiffe://hightide/broker/1`.
"""

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hightide_local.errors import CertificateError

CA_CERTIFICATE = "ca.crt"
CA_KEY = "ca.key"
_CA_DAYS = 3650
#: Clocks of machines differ; a certificate is valid from a little before it was made.
_CLOCK_SKEW = timedelta(hours=1)
#: The characters that SPIFFE-ID allows in a trust domain, and in a segment of a path.
_CLUSTER = re.compile(r"[a-z0-9._-]{1,255}")
_IDENTITY = re.compile(
    r"(?P<service>broker|controller|coordinator|zookeeper)/[1-9][0-9]{0,9}|client/[a-zA-Z0-9._-]{1,200}"
)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The PEM files that one process or client needs: its certificate, its key, and the CA that it trusts."""

    certificate: Path
    key: Path
    ca: Path


@dataclass(frozen=True, slots=True)
class CertificateDescription:
    """What a certificate says, as text. Times are ISO 8601. `identity` is its SPIFFE URI, if it has one."""

    path: str
    subject: str
    identity: str | None
    hosts: tuple[str, ...]
    issuer: str
    valid_from: str
    valid_until: str
    is_valid: bool


def describe_certificate(path: Path) -> CertificateDescription:
    """Describe the first certificate of a PEM file. Raises CertificateError."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CertificateError(f"{path} has no certificate in PEM form: {error}") from None
    uris: list[str] = []
    hosts: list[str] = []
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        addresses = names.get_values_for_type(x509.IPAddress)
        hosts = [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]
    except x509.ExtensionNotFound:
        pass  # It is for no host.
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return CertificateDescription(
        str(path),
        certificate.subject.rfc4514_string(),
        next((uri for uri in uris if uri.startswith("spiffe://")), None),
        tuple(hosts),
        certificate.issuer.rfc4514_string(),
        begin.isoformat(),
        end.isoformat(),
        begin <= datetime.now(UTC) <= end,
    )


class CertificateAuthority:
    """The CA of one cluster: the files ca.crt and ca.key (mode 0600) of a directory."""

    def __init__(
        self, directory: Path, cluster: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> None:
        """For `create` and `open`."""
        self._directory = directory
        #: The name of the cluster: the trust domain of the identities.
        self.cluster = cluster
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, directory: Path, cluster: str = "hightide") -> Self:
        """Make a CA in a directory, which is made if need be. Raises CertificateError if there is one
        already, since no certificate of the old one fits a new one, or if the name is not allowed."""
        if not _CLUSTER.fullmatch(cluster):
            raise CertificateError(
                f"{cluster!r} is no name of a cluster; use lower-case letters, digits, '.', '-' and '_'"
            )
        for name in (CA_CERTIFICATE, CA_KEY):
            if (directory / name).exists():
                raise CertificateError(
                    f"{directory / name} is there already; use it, or choose another directory"
                )
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{cluster} CA"[:64])])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + timedelta(days=_CA_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(is_ca=True), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"spiffe://{cluster}")]),
                critical=False,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        directory.mkdir(parents=True, exist_ok=True)
        _write(directory / CA_KEY, _pem_of_key(key), mode=0o600)
        _write(directory / CA_CERTIFICATE, certificate.public_bytes(Encoding.PEM), mode=0o644)
        return cls(directory, cluster, certificate, key)

    @classmethod
    def open(cls, directory: Path) -> Self:
        """The CA that `create` made. Raises CertificateError if there is none, or another kind of file."""
        try:
            pem = (directory / CA_CERTIFICATE).read_bytes()
            key_pem = (directory / CA_KEY).read_bytes()
        except OSError as error:
            raise CertificateError(
                f"{directory} has no CA that can be read: {error.filename}: {error.strerror}; "
                f"make one by `hightide certs ca --directory {directory}`"
            ) from None
        try:
            certificate = x509.load_pem_x509_certificate(pem)
            key = load_pem_private_key(key_pem, password=None)
            uris = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            cluster = uris.get_values_for_type(x509.UniformResourceIdentifier)[0].removeprefix("spiffe://")
        except (ValueError, TypeError, x509.ExtensionNotFound, IndexError) as error:
            raise CertificateError(
                f"{CA_CERTIFICATE} and {CA_KEY} of {directory} are not what `hightide certs ca` writes: "
                f"{error}"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise CertificateError(f"{directory / CA_KEY} is not the key of {directory / CA_CERTIFICATE}")
        return cls(directory, cluster, certificate, key)

    def issue(
        self,
        identity: str,
        hosts: Sequence[str],
        directory: Path,
        days: int = 825,
        name: str | None = None,
    ) -> CertificateFiles:
        """Issue a certificate with a new key, and write both, and ca.crt, to a directory.

        `identity`: "broker/1", "controller/1", "coordinator/1", "zookeeper/1" or "client/alice". `hosts`: the
        names and IP addresses by which clients reach the process; a client may have none. `days`: how long it
        is valid, at most as long as the CA; a negative number gives one that has expired, for tests. `name`:
        of the files, else the identity with a dash, "broker-1.crt" and "broker-1.key". Files of that name are
        replaced, each at once, the key (mode 0600) first: a process that reads both in between finds that
        they do not fit, and reads again. Raises CertificateError for an identity or host that is not allowed.
        """
        matched = _IDENTITY.fullmatch(identity)
        if matched is None:
            raise CertificateError(
                f"{identity!r} is no identity; use broker/ID, controller/ID, coordinator/ID, zookeeper/ID or "
                "client/NAME"
            )
        is_service = matched["service"] is not None
        if is_service and not hosts:
            raise CertificateError(f"the certificate of {identity} needs the hosts by which clients reach it")
        file_name = name or identity.replace("/", "-")
        if file_name != Path(file_name).name or file_name in ("ca", ".", ".."):
            raise CertificateError(f"{file_name!r} cannot be the name of the files of a certificate")
        uri = x509.UniformResourceIdentifier(f"spiffe://{self.cluster}/{identity}")
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if is_service:
            purposes.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        key = ec.generate_private_key(ec.SECP256R1())
        until = min(datetime.now(UTC) + timedelta(days=days), self._certificate.not_valid_after_utc)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity[:64])]))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(datetime.now(UTC), until) - _CLOCK_SKEW)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(is_ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([uri, *(_name_of_host(host) for host in hosts)]), critical=False
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        directory.mkdir(parents=True, exist_ok=True)
        files = CertificateFiles(
            directory / f"{file_name}.crt", directory / f"{file_name}.key", directory / CA_CERTIFICATE
        )
        _write(files.key, _pem_of_key(key), mode=0o600)
        _write(files.certificate, certificate.public_bytes(Encoding.PEM), mode=0o644)
        if directory.resolve() != self._directory.resolve():
            _write(files.ca, self._certificate.public_bytes(Encoding.PEM), mode=0o644)
        return files


def _name_of_host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not re.fullmatch(r"(\*\.)?[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*", host):
        raise CertificateError(
            f"{host!r} is neither an IP address nor the name of a host; give it without a port"
        )
    return x509.DNSName(host)


def _key_usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_ca,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes, *, mode: int) -> None:
    """Replace a file at once. It never has a wider mode than it gets."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        file.write(content)
    os.replace(temporary, path)
