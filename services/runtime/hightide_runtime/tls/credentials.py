"""gRPC's credentials of certificates: of a server, which follow the files, and of one channel."""

import grpc

from hightide_runtime.tls.certificates import Certificates, ReloadedCertificates
from hightide_runtime.tls.files import ClientAuth

__all__ = ["channel_credentials", "server_credentials"]


def server_credentials(certificates: ReloadedCertificates, client_auth: ClientAuth) -> grpc.ServerCredentials:
    """The credentials of one listener. gRPC asks before each handshake whether there are new certificates,
    so a connection that is made after the files changed sees the new ones. TLS 1.2 is the least it speaks."""
    served = certificates.current()

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal served
        now = certificates.current()
        if now is served:
            return None
        served = now
        return _configuration(now)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(served),
        changed,  # type: ignore[arg-type]  # the stubs do not know that None means: as before
        require_client_authentication=client_auth is ClientAuth.REQUIRED,
    )


def channel_credentials(certificates: Certificates) -> grpc.ChannelCredentials:
    """The credentials of one channel. They stay as they are for as long as it is open."""
    return grpc.ssl_channel_credentials(certificates.ca, certificates.key, certificates.certificate)


def _configuration(certificates: Certificates) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(certificates.key, certificates.certificate)], certificates.ca
    )
