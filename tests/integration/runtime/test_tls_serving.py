"""Servers and channels with TLS: who gets in, what is refused, and certificates that change meanwhile."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hightide_local.certificates import CertificateAuthority
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import StartupError
from hightide_runtime.serving.channels import channel_opener, open_channel
from hightide_runtime.serving.server import Server, serve
from hightide_runtime.tls.files import ClientAuth, ServerTls, TlsFiles

HOST = "127.0.0.1"
PATIENCE_S = 60.0


def issued(authority: CertificateAuthority, directory: Path, identity: str = "broker/1") -> TlsFiles:
    """A new certificate, in the files of the last one of this identity."""
    files = authority.issue(identity, [HOST, "localhost"], directory)
    return TlsFiles(files.certificate, files.key, files.ca)


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority.create(tmp_path)


@pytest.fixture
def files(authority: CertificateAuthority, tmp_path: Path) -> TlsFiles:
    return issued(authority, tmp_path)


@asynccontextmanager
async def serving(tls: ServerTls, external: HostPort | None = None, port: int = 0) -> AsyncIterator[Server]:
    server = await serve(HostPort(HOST, port), [], external=external, tls=tls)
    try:
        await server.set_serving(True)
        yield server
    finally:
        await server.stop(0)


async def is_served(channel: grpc.aio.Channel) -> bool:
    """One health check, with a connection if there is none."""
    stub: Any = health_pb2_grpc.HealthStub(channel)
    reply = await stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


async def is_reached(channel: grpc.aio.Channel) -> bool:
    """Whether a health check gets an answer."""
    try:
        return await is_served(channel)
    except grpc.aio.AioRpcError:
        return False


async def refusal_of(channel: grpc.aio.Channel) -> grpc.StatusCode:
    """The status of a call by a caller that must not get in."""
    async with channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await is_served(channel)
        return refused.value.code()


def without_certificate(address: HostPort, ca: Path) -> grpc.aio.Channel:
    return open_channel(address, credentials=grpc.ssl_channel_credentials(ca.read_bytes()))


def certificate_seen_at(address: HostPort) -> bytes:
    """The certificate that a new connection gets, in PEM."""
    return ssl.get_server_certificate((address.host, address.port), timeout=PATIENCE_S).encode()


def handshake(address: HostPort, files: TlsFiles, version: ssl.TLSVersion) -> str | None:
    """The version of TLS that a caller gets who speaks this one only. Raises ssl.SSLError."""
    context = ssl.create_default_context(cafile=str(files.ca))
    context.load_cert_chain(files.certificate, files.key)
    # Else OpenSSL itself refuses the old ones, before the server can.
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection((address.host, address.port), PATIENCE_S) as connection,
        context.wrap_socket(connection, server_hostname=address.host) as secured,
    ):
        return secured.version()


def test_services_call_each_other_with_their_certificates(files: TlsFiles) -> None:
    async def scenario() -> None:
        async with (
            serving(ServerTls(files, hosts=(HOST,))) as server,
            channel_opener(files)(server.address) as channel,
        ):
            assert await is_served(channel)

    asyncio.run(scenario())


def test_a_caller_without_a_certificate_is_refused_and_one_beside_it_is_served(files: TlsFiles) -> None:
    async def scenario() -> None:
        async with serving(ServerTls(files)) as server, channel_opener(files)(server.address) as channel:
            assert await is_served(channel)
            intruder = without_certificate(server.address, files.ca)
            assert await refusal_of(intruder) is grpc.StatusCode.UNAVAILABLE
            assert await is_served(channel)

    asyncio.run(scenario())


def test_a_caller_with_the_certificate_of_another_ca_is_refused(files: TlsFiles, tmp_path: Path) -> None:
    async def scenario() -> None:
        mallory = issued(CertificateAuthority.create(tmp_path / "other"), tmp_path / "other")
        credentials = grpc.ssl_channel_credentials(
            files.ca.read_bytes(), mallory.key.read_bytes(), mallory.certificate.read_bytes()
        )
        async with serving(ServerTls(files)) as server:
            intruder = open_channel(server.address, credentials=credentials)
            assert await refusal_of(intruder) is grpc.StatusCode.UNAVAILABLE

    asyncio.run(scenario())


def test_a_server_whose_certificate_does_not_name_the_host_is_not_trusted(
    authority: CertificateAuthority, files: TlsFiles, tmp_path: Path
) -> None:
    async def scenario() -> None:
        elsewhere = authority.issue("broker/2", ["kite"], tmp_path)
        tls = ServerTls(TlsFiles(elsewhere.certificate, elsewhere.key, elsewhere.ca))
        async with serving(tls) as server:
            assert await refusal_of(channel_opener(files)(server.address)) is grpc.StatusCode.UNAVAILABLE

    asyncio.run(scenario())


def test_each_listener_asks_its_own_clients_for_certificates(files: TlsFiles) -> None:
    async def scenario() -> None:
        tls = ServerTls(files, ClientAuth.REQUIRED, ClientAuth.NONE)
        async with serving(tls, external=HostPort(HOST, 0)) as server:
            assert server.external_address is not None
            async with without_certificate(server.external_address, files.ca) as channel:
                assert await is_served(channel)
            intruder = without_certificate(server.address, files.ca)
            assert await refusal_of(intruder) is grpc.StatusCode.UNAVAILABLE

    asyncio.run(scenario())


def test_plaintext_is_refused_by_a_port_with_tls(files: TlsFiles) -> None:
    async def scenario() -> None:
        async with serving(ServerTls(files, ClientAuth.NONE)) as server:
            assert await refusal_of(open_channel(server.address)) is grpc.StatusCode.UNAVAILABLE

    asyncio.run(scenario())


def test_tls_1_1_is_refused_and_1_2_is_not(files: TlsFiles) -> None:
    async def scenario() -> None:
        async with serving(ServerTls(files)) as server:
            asked = (server.address, files)
            assert await asyncio.to_thread(handshake, *asked, ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
            assert await asyncio.to_thread(handshake, *asked, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
            # gRPC hangs up without an alert. Had OpenSSL not offered it, there would be another error.
            with (
                pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"),
                pytest.raises((ssl.SSLEOFError, ConnectionResetError)),
            ):
                await asyncio.to_thread(handshake, *asked, ssl.TLSVersion.TLSv1_1)

    asyncio.run(scenario())


def test_a_certificate_that_is_replaced_is_seen_by_the_next_connection_and_ends_none(
    authority: CertificateAuthority, files: TlsFiles, tmp_path: Path
) -> None:
    async def scenario() -> None:
        tls = ServerTls(files, ClientAuth.NONE, ClientAuth.NONE)
        async with serving(tls) as server, channel_opener(files)(server.address) as channel:
            assert await is_served(channel)
            before = await asyncio.to_thread(certificate_seen_at, server.address)
            assert before == files.certificate.read_bytes()
            issued(authority, tmp_path)
            after = await asyncio.to_thread(certificate_seen_at, server.address)
            assert after == files.certificate.read_bytes() != before
            assert channel.get_state() is grpc.ChannelConnectivity.READY
            assert await is_served(channel)

    asyncio.run(scenario())


def test_a_broken_channel_to_a_peer_that_is_back_with_another_ca_is_opened_with_the_new_files(
    files: TlsFiles, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with serving(ServerTls(files)) as server:
            address = server.address
            channel = channel_opener(files)(address)
            assert await is_served(channel)
        renewed = issued(CertificateAuthority.create(tmp_path / "new"), tmp_path / "new")
        async with serving(ServerTls(renewed), port=address.port), channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await is_served(channel)
            for old, new in zip(
                (files.key, files.certificate, files.ca),
                (renewed.key, renewed.certificate, renewed.ca),
                strict=True,
            ):
                old.write_bytes(new.read_bytes())
            async with asyncio.timeout(PATIENCE_S):
                while not await is_reached(channel):
                    pass

    asyncio.run(scenario())


def test_a_server_does_not_start_with_a_certificate_that_its_callers_would_refuse(files: TlsFiles) -> None:
    async def scenario() -> None:
        with pytest.raises(StartupError, match="does not name the host kite"):
            await serve(HostPort(HOST, 0), [], tls=ServerTls(files, hosts=("kite",)))

    asyncio.run(scenario())
