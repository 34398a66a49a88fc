"""The certificates of a local cluster with TLS: its CA, those of its processes, and one for clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hightide.calls.tls_files import CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE

from hightide_local.processes.embedded_zookeeper import ZooKeeperServerTls
from hightide_local.processes.ports import HOST

if TYPE_CHECKING:
    from hightide_local.certificates import CertificateFiles

TLS_VARIABLES: Final = (CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE)
_HOSTS: Final = (HOST, "localhost", "::1")
_CLIENT: Final = "client/local"


class ClusterCertificates:
    """The certificates in a directory. `LocalCluster` makes one if it has TLS."""

    def __init__(self, directory: Path) -> None:
        """Make a CA in the directory, unless an earlier cluster made one. Raises CertificateError."""
        # Late: it takes a while to import, and few clusters have TLS.
        from hightide_local.certificates import CertificateAuthority, CertificateFiles

        self._directory = directory
        is_there = (directory / "ca.key").exists()
        self._authority = (
            CertificateAuthority.open(directory) if is_there else CertificateAuthority.create(directory)
        )
        path = directory / _CLIENT.replace("/", "-")
        self.client = CertificateFiles(
            path.with_suffix(".crt"), path.with_suffix(".key"), directory / "ca.crt"
        )
        """The certificate with which this program, `hightide` and tests call the cluster."""
        if not self.client.certificate.exists():
            self.issue(_CLIENT)

    @property
    def client_environment(self) -> dict[str, str]:
        """The environment variables by which the SDK and `hightide` use the certificate for clients."""
        paths = (self.client.ca, self.client.certificate, self.client.key)
        return dict(zip(TLS_VARIABLES, map(str, paths), strict=True))

    def issue(self, identity: str) -> CertificateFiles:
        """Issue a certificate for an identity such as "client/alice", for this machine. It replaces an
        earlier one. Raises CertificateError."""
        return self._authority.issue(identity, _HOSTS, self._directory)

    def renew_for(self, process: str) -> None:
        """Issue the certificates that a process called `broker-1` needs, and clients beside it. Called before
        each start of it, so that none expires in a directory that is used for years."""
        self.issue(process.replace("-", "/"))
        self.issue(_CLIENT)

    def of_zookeeper(self) -> ZooKeeperServerTls:
        """The TLS of the cluster's ZooKeeper, with a new certificate."""
        return ZooKeeperServerTls(self.issue("zookeeper/1"))

    def flags_of(self, process: str) -> tuple[str, ...]:
        """The flags by which a process called `broker-1` uses its certificate."""
        path = self._directory / process
        ca = self._directory / "ca.crt"
        return (
            *("--tls-certificate", f"{path}.crt", "--tls-key", f"{path}.key"),
            *("--tls-ca", str(ca), "--zookeeper-tls-ca", str(ca)),
        )
