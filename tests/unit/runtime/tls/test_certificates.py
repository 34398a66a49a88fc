import logging
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from hightide_local.certificates import CertificateAuthority
from hightide_runtime.errors import StartupError
from hightide_runtime.tls.certificates import CertificateRefused, ReloadedCertificates, read_certificates
from hightide_runtime.tls.files import TlsFiles

HOSTS = ["localhost", "127.0.0.1"]


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority.create(tmp_path)


def issued(authority: CertificateAuthority, directory: Path, *, days: int = 825) -> TlsFiles:
    """A new certificate of broker 1, in the files of the last one."""
    files = authority.issue("broker/1", HOSTS, directory, days)
    return TlsFiles(files.certificate, files.key, files.ca)


def test_files_that_fit_are_read_as_they_are(authority: CertificateAuthority, tmp_path: Path) -> None:
    files = issued(authority, tmp_path)
    read = read_certificates(files, HOSTS)
    assert (read.certificate, read.key, read.ca) == (
        files.certificate.read_bytes(),
        files.key.read_bytes(),
        files.ca.read_bytes(),
    )


def test_a_file_that_is_not_there_or_holds_something_else_is_named(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    files = issued(authority, tmp_path)
    for path, content in ((files.certificate, "private key"), (files.key, "private key"), (files.ca, "")):
        before = path.read_bytes()
        path.unlink()
        with pytest.raises(CertificateRefused, match=rf"{path.name} cannot be read: No such file"):
            read_certificates(files)
        path.write_text(content)
        with pytest.raises(CertificateRefused, match=rf"{path.name} has no (certificate|private key) in PEM"):
            read_certificates(files)
        path.write_bytes(before)
    read_certificates(files)


def test_a_damaged_certificate_and_a_damaged_ca_are_named(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    files = issued(authority, tmp_path)
    whole = files.ca.read_bytes()
    files.ca.write_bytes(whole[:200] + b"\n-----END CERTIFICATE-----\n")
    with pytest.raises(CertificateRefused, match=r"ca\.crt is damaged"):
        read_certificates(files)
    files.ca.write_bytes(whole)
    files.certificate.write_bytes(whole[:200] + b"\n-----END CERTIFICATE-----\n")
    with pytest.raises(CertificateRefused, match=r"broker-1\.crt and .*broker-1\.key cannot be read"):
        read_certificates(files)


def test_a_key_of_another_certificate_is_refused(authority: CertificateAuthority, tmp_path: Path) -> None:
    files = issued(authority, tmp_path)
    other = authority.issue("broker/2", HOSTS, tmp_path)
    with pytest.raises(CertificateRefused, match=r"broker-2\.key is not the key of .*broker-1\.crt"):
        read_certificates(TlsFiles(files.certificate, other.key, files.ca))


def test_a_key_with_a_password_is_refused_instead_of_asking_a_terminal_for_it(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    files = issued(authority, tmp_path)
    key = load_pem_private_key(files.key.read_bytes(), None)
    files.key.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    with pytest.raises(CertificateRefused, match=r"broker-1\.key is encrypted; store it without a password"):
        read_certificates(files)


def test_an_expired_certificate_is_refused(authority: CertificateAuthority, tmp_path: Path) -> None:
    with pytest.raises(CertificateRefused, match=r"broker-1\.crt has expired; issue a new one"):
        read_certificates(issued(authority, tmp_path, days=-1))


def test_a_certificate_of_another_ca_is_refused(authority: CertificateAuthority, tmp_path: Path) -> None:
    files = issued(authority, tmp_path)
    CertificateAuthority.create(tmp_path / "other")
    other_ca = tmp_path / "other" / "ca.crt"
    with pytest.raises(CertificateRefused, match=r"broker-1\.crt is not signed by a CA of .*other/ca\.crt"):
        read_certificates(TlsFiles(files.certificate, files.key, other_ca))
    # Of several CAs in the file, any will do: this is how a CA is replaced by another.
    other_ca.write_bytes(other_ca.read_bytes() + files.ca.read_bytes())
    read_certificates(TlsFiles(files.certificate, files.key, other_ca))


def test_a_certificate_that_does_not_name_the_host_that_others_call_is_refused(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    files = issued(authority, tmp_path)
    for host in ("kite", "10.0.0.1"):
        with pytest.raises(
            CertificateRefused, match=rf"broker-1\.crt does not name the host {host}, by which"
        ):
            read_certificates(files, ["localhost", host])


def test_the_certificate_of_a_client_is_no_certificate_of_a_service(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    alice = authority.issue("client/alice", ["localhost"], tmp_path)
    with pytest.raises(CertificateRefused, match="issue one for server and client authentication"):
        read_certificates(TlsFiles(alice.certificate, alice.key, alice.ca))


def test_a_process_does_not_start_with_files_that_peers_would_refuse(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    with pytest.raises(StartupError, match="has expired"):
        ReloadedCertificates(issued(authority, tmp_path, days=-1))


def test_new_files_are_used_from_the_next_connection_and_unchanged_ones_are_not_read_again(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    files = issued(authority, tmp_path)
    certificates = ReloadedCertificates(files)
    first = certificates.current()
    assert certificates.current() is first
    issued(authority, tmp_path)
    second = certificates.current()
    assert second.certificate == files.certificate.read_bytes() != first.certificate
    assert certificates.current() is second


def test_while_files_are_replaced_one_after_another_the_old_ones_stay_in_use(
    authority: CertificateAuthority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = issued(authority, tmp_path / "used")
    coming = issued(authority, tmp_path / "coming")
    certificates = ReloadedCertificates(files)
    first = certificates.current()
    os.replace(coming.key, files.key)
    with caplog.at_level(logging.WARNING):
        assert certificates.current() is first
        assert certificates.current() is first
    assert len(caplog.records) == 1, "it is told once, not with each connection"
    assert "broker-1.key is not the key of" in caplog.text
    os.replace(coming.certificate, files.certificate)
    assert certificates.current().certificate == files.certificate.read_bytes() != first.certificate


def test_a_new_certificate_that_peers_would_refuse_is_not_used(
    authority: CertificateAuthority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = ReloadedCertificates(issued(authority, tmp_path), ["localhost"])
    first = certificates.current()
    authority.issue("broker/1", ["kite"], tmp_path)
    with caplog.at_level(logging.WARNING):
        assert certificates.current() is first
    assert "does not name the host localhost" in caplog.text
    issued(authority, tmp_path)
    assert certificates.current() is not first


def test_files_that_are_taken_away_leave_a_running_process_as_it_was(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    files = issued(authority, tmp_path)
    certificates = ReloadedCertificates(files)
    first = certificates.current()
    files.certificate.unlink()
    assert certificates.current() is first
