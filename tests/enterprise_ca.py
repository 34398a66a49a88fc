"""A CA that knows nothing of SPIFFE: its certificates name their owners by the subject."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class EnterpriseCa:
    """A CA; `certificate` in PEM."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Enterprise CA")])
        self.certificate = self._signed(self._name, self._key, (), is_ca=True)

    def issue(self, directory: Path, subject: str, *uris: str) -> tuple[Path, Path]:
        """The files of a certificate and its key. The subject is written as RFC 4514 has it."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, private = directory / "enterprise.crt", directory / "enterprise.key"
        certificate.write_bytes(self._signed(x509.Name.from_rfc4514_string(subject), key, uris, is_ca=False))
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, private

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, uris: tuple[str, ...], *, is_ca: bool
    ) -> bytes:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if uris:
            names = [x509.UniformResourceIdentifier(uri) for uri in uris]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
