import ipaddress
import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from hightide_local.certificates import CertificateAuthority, CertificateFiles, describe_certificate
from hightide_local.errors import CertificateError


def certificate_of(files: CertificateFiles) -> x509.Certificate:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes())


def names_of(files: CertificateFiles) -> x509.SubjectAlternativeName:
    return certificate_of(files).extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def handshake(server: CertificateFiles, client: CertificateFiles, host: str) -> None:
    """Complete a handshake in which both sides verify. Raises what the client sees."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server.certificate, server.key)
    serving.load_verify_locations(server.ca)
    serving.verify_mode = ssl.CERT_REQUIRED
    asking = ssl.create_default_context(cafile=str(client.ca))
    asking.load_cert_chain(client.certificate, client.key)
    here, there = socket.socketpair()

    def serve() -> None:
        with there, suppress(OSError), serving.wrap_socket(there, server_side=True) as connection:
            connection.sendall(b"welcome")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        here.settimeout(60)
        with here, asking.wrap_socket(here, server_hostname=host) as connection:
            assert connection.recv(7) == b"welcome"
    finally:
        thread.join()


def test_a_certificate_names_its_identity_as_a_uri_and_its_hosts(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path / "ca", cluster="payments")
    files = authority.issue("broker/1", ["broker-1.example", "127.0.0.1", "::1"], tmp_path / "certificates")
    names = names_of(files)
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["spiffe://payments/broker/1"]
    assert names.get_values_for_type(x509.DNSName) == ["broker-1.example"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
    ]
    assert certificate_of(files).subject.rfc4514_string() == "CN=broker/1"


def test_both_sides_trust_certificates_of_one_ca_by_address_and_by_name(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path)
    broker = authority.issue("broker/1", ["localhost", "127.0.0.1"], tmp_path)
    alice = authority.issue("client/alice", [], tmp_path)
    handshake(broker, alice, "localhost")
    handshake(broker, alice, "127.0.0.1")


def test_a_host_that_is_not_in_the_certificate_is_not_trusted(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path)
    broker = authority.issue("broker/1", ["localhost"], tmp_path)
    alice = authority.issue("client/alice", [], tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'broker-1.example'"):
        handshake(broker, alice, "broker-1.example")


def test_the_certificate_of_another_ca_is_not_trusted(tmp_path: Path) -> None:
    broker = CertificateAuthority.create(tmp_path / "one").issue("broker/1", ["localhost"], tmp_path / "one")
    alice = CertificateAuthority.create(tmp_path / "two").issue("client/alice", [], tmp_path / "two")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(broker, alice, "localhost")


def test_the_certificate_of_a_client_is_none_of_a_server(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path)
    alice = authority.issue("client/alice", ["localhost"], tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(alice, alice, "localhost")


def test_a_ca_that_was_opened_issues_what_the_one_that_was_made_issues(tmp_path: Path) -> None:
    broker = CertificateAuthority.create(tmp_path / "ca", cluster="payments").issue(
        "broker/1", ["localhost"], tmp_path / "broker"
    )
    opened = CertificateAuthority.open(tmp_path / "ca")
    assert opened.cluster == "payments"
    alice = opened.issue("client/alice", [], tmp_path / "alice")
    assert alice.ca.read_bytes() == broker.ca.read_bytes()
    handshake(broker, alice, "localhost")


def test_keys_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path)
    files = authority.issue("broker/1", ["localhost"], tmp_path)
    assert {path.name: path.stat().st_mode & 0o777 for path in (files.key, tmp_path / "ca.key")} == {
        "broker-1.key": 0o600,
        "ca.key": 0o600,
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "broker-1.crt",
        "broker-1.key",
        "ca.crt",
        "ca.key",
    ]


def test_files_of_a_name_are_replaced_by_a_new_certificate_with_a_new_key(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path)
    first = authority.issue("broker/1", ["localhost"], tmp_path, name="server")
    assert first.certificate.name == "server.crt"
    before = first.certificate.read_bytes(), first.key.read_bytes()
    assert authority.issue("broker/1", ["localhost"], tmp_path, name="server") == first
    assert first.certificate.read_bytes() != before[0]
    assert first.key.read_bytes() != before[1]


def test_a_certificate_ends_after_its_days_and_no_later_than_its_ca(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path)
    week = certificate_of(authority.issue("client/a", [], tmp_path, days=7)).not_valid_after_utc
    assert timedelta(days=6, hours=1) < week - datetime.now(UTC) <= timedelta(days=7)
    expired = certificate_of(authority.issue("client/b", [], tmp_path, days=-1))
    assert expired.not_valid_before_utc < expired.not_valid_after_utc < datetime.now(UTC)
    ca = x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes())
    endless = certificate_of(authority.issue("client/c", [], tmp_path, days=100_000))
    assert endless.not_valid_after_utc == ca.not_valid_after_utc


def test_a_certificate_is_described_as_it_was_issued(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path, cluster="payments")
    described = describe_certificate(authority.issue("broker/1", ["kite", "10.0.0.1"], tmp_path).certificate)
    assert described.identity == "spiffe://payments/broker/1"
    assert described.hosts == ("kite", "10.0.0.1")
    assert described.issuer == "CN=payments CA"
    assert described.is_valid
    assert not describe_certificate(authority.issue("client/a", [], tmp_path, days=-1).certificate).is_valid
    with pytest.raises(CertificateError, match=r"ca\.key has no certificate in PEM form"):
        describe_certificate(tmp_path / "ca.key")
    with pytest.raises(CertificateError, match=r"none\.crt cannot be read: No such file"):
        describe_certificate(tmp_path / "none.crt")


def test_a_ca_is_never_replaced(tmp_path: Path) -> None:
    CertificateAuthority.create(tmp_path)
    with pytest.raises(CertificateError, match=r"ca\.crt is there already"):
        CertificateAuthority.create(tmp_path)


def test_a_directory_without_a_ca_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=r"ca\.crt: No such file .* `hightide certs ca"):
        CertificateAuthority.open(tmp_path)


def test_a_ca_whose_files_do_not_belong_together_is_refused(tmp_path: Path) -> None:
    CertificateAuthority.create(tmp_path / "one")
    CertificateAuthority.create(tmp_path / "two")
    (tmp_path / "one" / "ca.key").write_bytes((tmp_path / "two" / "ca.key").read_bytes())
    with pytest.raises(CertificateError, match=r"ca\.key is not the key of"):
        CertificateAuthority.open(tmp_path / "one")
    (tmp_path / "two" / "ca.crt").write_text("no certificate")
    with pytest.raises(CertificateError, match="are not what `hightide certs ca` writes"):
        CertificateAuthority.open(tmp_path / "two")


@pytest.mark.parametrize(
    "identity", ["", "broker", "broker/0", "broker/one", "sdk/1", "client/", "client/a/b", "client/a b"]
)
def test_an_identity_that_no_process_can_have_is_refused(tmp_path: Path, identity: str) -> None:
    authority = CertificateAuthority.create(tmp_path)
    with pytest.raises(CertificateError, match="is no identity; use broker/ID"):
        authority.issue(identity, ["localhost"], tmp_path)


def test_hosts_and_names_that_cannot_be_are_refused(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path)
    with pytest.raises(CertificateError, match="give it without a port"):
        authority.issue("broker/1", ["localhost:7000"], tmp_path)
    with pytest.raises(CertificateError, match="needs the hosts"):
        authority.issue("broker/1", [], tmp_path)
    with pytest.raises(CertificateError, match="cannot be the name of the files"):
        authority.issue("client/alice", [], tmp_path, name="../alice")
    with pytest.raises(CertificateError, match="cannot be the name of the files"):
        authority.issue("client/alice", [], tmp_path, name="ca")
    with pytest.raises(CertificateError, match="is no name of a cluster"):
        CertificateAuthority.create(tmp_path / "other", cluster="My Cluster")
