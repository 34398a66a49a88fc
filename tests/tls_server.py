"""A server for tests of clients' TLS, and the CAs that issue certificates for it and for them."""

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from hightide.calls.tls_files import TlsFiles
from hightide.v1.broker_service_pb2 import GetMetadataResponse
from hightide_local.certificates import CertificateAuthority
from relay import Relay

LOOPBACK = ("localhost", "127.0.0.1")


# gRPC's core (1.78) may end the process when a server stops that has just accepted a connection.
_serving_to_the_end: list[grpc.Server] = []


class Place:
    """An address that stays the test's own while servers come and go.

    The servers themselves listen elsewhere, and never stop: a relay stands for them here.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self._at = ("127.0.0.1", self._socket.getsockname()[1])
        self.address = f"127.0.0.1:{self._at[1]}"
        self._relay: Relay | None = None

    def serve(self, tls: TlsFiles | None, *, asks_clients: bool = True) -> None:
        """Answer GetMetadata here from now on, instead of the server before."""
        self.stop()
        server = grpc.server(ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers((Answers(),))
        if tls is None:
            port = server.add_insecure_port("127.0.0.1:0")
        else:
            pairs = [(Path(tls.key or "").read_bytes(), Path(tls.certificate or "").read_bytes())]
            ca = Path(tls.ca).read_bytes()
            credentials = grpc.ssl_server_credentials(pairs, ca, require_client_auth=asks_clients)
            port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        _serving_to_the_end.append(server)
        self._relay = Relay(self._at, ("127.0.0.1", port))

    def stop(self) -> None:
        """Refuse connections, and end those that are open."""
        if self._relay is not None:
            self._relay.close()
            self._relay = None

    def close(self) -> None:
        self.stop()
        self._socket.close()


class Answers(grpc.GenericRpcHandler):
    """Knows of no topic and of no broker."""

    def service(self, handler_call_details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda _, __: GetMetadataResponse().SerializeToString())


class Authority:
    """A CA, and the directory into which it issues."""

    def __init__(self, directory: Path, cluster: str) -> None:
        self._issuing = CertificateAuthority.create(directory / "ca", cluster)
        self._files = directory
        self.file = directory / "ca" / "ca.crt"

    def broker(
        self, *, hosts: Sequence[str] = LOOPBACK, days: int = 1, trusts: Path | None = None
    ) -> TlsFiles:
        """The files of broker 1; `trusts` is the CA of the clients."""
        files = self._issuing.issue("broker/1", hosts, self._files, days)
        return TlsFiles(str(trusts or self.file), str(files.certificate), str(files.key))

    def client(self, name: str = "alice", *, days: int = 1, trusts: Path | None = None) -> TlsFiles:
        """The files of a client; the same name replaces them. `trusts` is the CA of the servers."""
        files = self._issuing.issue(f"client/{name}", (), self._files, days)
        return TlsFiles(str(trusts or self.file), str(files.certificate), str(files.key))

    def trusted(self) -> TlsFiles:
        """The files of a client without a certificate."""
        return TlsFiles(str(self.file))
