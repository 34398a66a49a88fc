"""Clients without a SPIFFE URI, on a server with TLS: those with a bearer token at the external listener, and
those with a certificate of a CA that names its owner by the subject."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from enterprise_ca import EnterpriseCa
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc
from grpc_status import rpc_status
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import controller_service_pb2_grpc as controller_grpc
from hightide.v1 import coordinator_service_pb2_grpc as coordinator_grpc
from hightide_local.certificates import CertificateAuthority
from hightide_runtime.access.client_identities import ClientIdentities, TokenSettings
from hightide_runtime.access.principals import current_caller
from hightide_runtime.access.subject_mapping import SubjectMapping
from hightide_runtime.access.tokens import LEEWAY_S, TOKEN_BYTES_MAX
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import StartupError
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.serving.server import Server, Service, serve
from hightide_runtime.tls.files import ClientAuth, ServerTls, TlsFiles
from token_issuer import AUDIENCE, ISSUER, TokenIssuer, write_key_set

LOOPBACK, OUTSIDE = HostPort("127.0.0.1", 0), HostPort("127.0.0.2", 0)
CALL_S = 30.0
CONTROLLER, COORDINATOR = "hightide.v1.ControllerService", "hightide.v1.CoordinatorService"
FIRST = TokenIssuer("first")
APPS = SubjectMapping.parse("RULE:CN=([a-z.]+),OU=apps,O=Acme\\\\, Inc\\./$1/")


class Servicer:
    """Notes who calls it."""

    def __init__(self) -> None:
        self.callers: list[str] = []
        self.streams = 0

    async def DescribeCluster(self, request: Any, context: Any) -> controller_pb2.DescribeClusterResponse:  # noqa: N802
        self.callers.append(str(current_caller()))
        return controller_pb2.DescribeClusterResponse()

    async def RegisterConsumer(self, requests: Any, context: Any) -> None:  # noqa: N802
        self.callers.append(str(current_caller()))
        self.streams += 1
        try:
            await context.write(b"")
            await asyncio.Event().wait()
        finally:
            self.streams -= 1

    def __getattr__(self, name: str) -> Any:
        async def never(request: Any, context: Any) -> Any:
            raise AssertionError(f"{name} is called")

        return never

    def services(self) -> list[Service]:
        return [
            Service(CONTROLLER, self, controller_grpc.add_ControllerServiceServicer_to_server),
            Service(
                COORDINATOR,
                self,
                coordinator_grpc.add_CoordinatorServiceServicer_to_server,
                without_deadline=frozenset({"RegisterConsumer"}),
            ),
        ]


class Rig:
    """A server with two listeners, its CA, and the keys of tokens."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = CertificateAuthority.create(directory / "ca")
        self.enterprise = EnterpriseCa()
        self.keys = write_key_set(directory / "keys", FIRST)
        self.servicer = Servicer()
        files = self.authority.issue("controller/1", [LOOPBACK.host, OUTSIDE.host], directory)
        self.trusted = directory / "trusted.crt"
        self.trusted.write_bytes(files.ca.read_bytes() + self.enterprise.certificate)
        self.files = TlsFiles(files.certificate, files.key, self.trusted)
        self.server: Server

    @asynccontextmanager
    async def served(self, external: ClientAuth, clients: ClientIdentities) -> AsyncIterator[None]:
        tls = ServerTls(self.files, ClientAuth.REQUIRED, external)
        self.server = await serve(
            LOOPBACK, self.servicer.services(), external=OUTSIDE, external_introspection=True, tls=tls,
            clients=clients,
        )  # fmt: skip
        try:
            await self.server.set_serving(True)
            yield
        finally:
            await self.server.stop(0)

    @property
    def tokens(self) -> ClientIdentities:
        return ClientIdentities(tokens=TokenSettings(self.keys, ISSUER, AUDIENCE))

    def outside(self, files: tuple[Path, Path] | None = None) -> grpc.aio.Channel:
        assert self.server.external_address is not None
        certificate, key = (None, None) if files is None else (each.read_bytes() for each in files)
        credentials = grpc.ssl_channel_credentials(self.trusted.read_bytes(), key, certificate)
        return open_channel(self.server.external_address, credentials=credentials)


async def describe(channel: grpc.aio.Channel, token: str | None = None) -> None:
    metadata = () if token is None else (("authorization", f"Bearer {token}"),)
    await controller_grpc.ControllerServiceStub(channel).DescribeCluster(
        controller_pb2.DescribeClusterRequest(), timeout=CALL_S, metadata=metadata
    )


async def refusal_of(call: Awaitable[Any]) -> tuple[grpc.StatusCode, str, str]:
    """Status, reason and sentence."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    status = rpc_status.from_call(refused.value)
    assert status is not None, refused.value
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return refused.value.code(), info.reason, refused.value.details() or ""


async def outcome_of(call: Awaitable[Any]) -> str | None:
    """The sentence of a refusal, or None."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.details()
    return None


def with_tokens(directory: Path, test: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        rig = Rig(directory)
        async with rig.served(ClientAuth.NONE, rig.tokens):
            await test(rig)

    asyncio.run(run())


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(each.getMessage()) for each in caplog.records if each.name == "hightide.audit"]


# -- tokens --------------------------------------------------------------------------------------------------


def test_a_caller_with_a_token_is_the_client_whom_it_names(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        async with rig.outside() as channel:
            await describe(channel, FIRST.token())
            await describe(channel, FIRST.token("bob"))
        assert rig.servicer.callers == ["client/alice", "client/bob"]

    with_tokens(tmp_path, test)


def test_a_caller_without_a_valid_token_is_refused_with_the_reason_and_a_line_that_has_no_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expired = FIRST.token(lasts_s=-LEEWAY_S - 1)

    async def test(rig: Rig) -> None:
        async with rig.outside() as mallory, rig.outside() as normal:
            for token, why in (
                (None, "the call has none; send it as"),
                (expired, "is refused: it expired at"),
            ):
                status, reason, sentence = await refusal_of(describe(mallory, token))
                assert (status, reason) == (grpc.StatusCode.UNAUTHENTICATED, "NOT_AUTHENTICATED")
                assert why in sentence
                await describe(normal, FIRST.token())
        assert rig.servicer.callers == ["client/alice"] * 2

    with_tokens(tmp_path, test)
    first = audited(caplog)[0]
    assert (first["who"], first["allowed"], first["listener"]) == ("anonymous", False, "external")
    assert "the call has none" in first["why"]
    assert expired not in caplog.text


def test_a_token_lets_nobody_do_what_only_processes_may(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        async with rig.outside() as channel:
            stub = controller_grpc.ControllerServiceStub(channel)
            call = stub.ControlledShutdown(
                controller_pb2.ControlledShutdownRequest(broker_id=1),
                timeout=CALL_S,
                metadata=(("authorization", f"Bearer {FIRST.token('1')}"),),
            )
            status, reason, _ = await refusal_of(call)
            assert (status, reason) == (grpc.StatusCode.PERMISSION_DENIED, "NOT_AUTHORIZED")
        assert rig.servicer.callers == []

    with_tokens(tmp_path, test)


def test_health_and_what_introspection_serves_need_no_token(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        async with rig.outside() as channel:
            reply = await health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=CALL_S
            )
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
            stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
            assert [each async for each in stub.ServerReflectionInfo(iter(()), timeout=CALL_S)] == []

    with_tokens(tmp_path, test)


def test_a_large_token_is_accepted_and_one_of_a_megabyte_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    large = FIRST.token(filler="a" * (TOKEN_BYTES_MAX * 5 // 7))
    assert TOKEN_BYTES_MAX * 0.95 < len(large) <= TOKEN_BYTES_MAX

    async def test(rig: Rig) -> None:
        async with rig.outside() as channel, rig.outside() as normal:
            for _ in range(20):
                await describe(channel, large)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await describe(channel, "a" * 2**20)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            await describe(channel, large)
            await describe(normal, FIRST.token())
        assert rig.servicer.callers == ["client/alice"] * 22

    with_tokens(tmp_path, test)


def test_keys_are_replaced_while_the_server_runs(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        second = TokenIssuer("second")
        async with rig.outside() as channel:
            await describe(channel, FIRST.token())
            write_key_set(rig.keys, second)
            async with asyncio.timeout(CALL_S):  # The file is looked at once a second.
                while (refused := await outcome_of(describe(channel, second.token("bob")))) is not None:
                    assert "'second' is unknown" in refused
            _, reason, sentence = await refusal_of(describe(channel, FIRST.token()))
            assert (reason, "its key id (kid) 'first' is unknown" in sentence) == ("NOT_AUTHENTICATED", True)

    with_tokens(tmp_path, test)


def test_a_stream_ends_when_its_token_expires(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(rig: Rig) -> None:
        async with rig.outside() as channel:
            method: Any = channel.stream_stream(f"/{COORDINATOR}/RegisterConsumer", None, None)
            lasting = method(metadata=(("authorization", f"Bearer {FIRST.token('bob')}"),))
            assert await lasting.read() == b""
            expiring = method(metadata=(("authorization", f"Bearer {FIRST.token(lasts_s=2 - LEEWAY_S)}"),))
            assert await expiring.read() == b""
            assert rig.servicer.streams == 2
            async with asyncio.timeout(CALL_S):  # It has no deadline, and would last for ever.
                status, reason, sentence = await refusal_of(expiring.read())
            assert (status, reason) == (grpc.StatusCode.UNAUTHENTICATED, "NOT_AUTHENTICATED")
            assert "has expired meanwhile; call again with a valid one" in sentence
            assert rig.servicer.streams == 1
            assert not lasting.done()

    with_tokens(tmp_path, test)
    (line,) = audited(caplog)
    assert (line["who"], line["method"]) == ("client/alice", f"/{COORDINATOR}/RegisterConsumer")


def test_on_loopback_tokens_work_without_tls(tmp_path: Path) -> None:
    async def run() -> None:
        rig = Rig(tmp_path)
        server = await serve(LOOPBACK, rig.servicer.services(), external=LOOPBACK, clients=rig.tokens)
        try:
            assert server.external_address is not None
            async with (
                open_channel(server.address) as inside,
                open_channel(server.external_address) as outside,
            ):
                await describe(inside)
                await describe(outside, FIRST.token())
                assert (await refusal_of(describe(outside)))[1] == "NOT_AUTHENTICATED"
        finally:
            await server.stop(0)
        assert rig.servicer.callers == ["anonymous", "client/alice"]

    asyncio.run(run())


def test_a_server_does_not_start_without_the_keys_of_its_tokens(tmp_path: Path) -> None:
    tokens = TokenSettings(tmp_path / "none", ISSUER, AUDIENCE)
    with pytest.raises(StartupError, match=r"--token-keys: .*none cannot be read"):
        asyncio.run(serve(LOOPBACK, [], clients=ClientIdentities(tokens=tokens)))


# -- subjects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "uris", "outcome"),
    [
        ("CN=alice,OU=apps,O=Acme\\, Inc.", (), "client/alice"),
        ("CN=alice,OU=apps,O=Acme\\, Inc.", ("https://acme.example/alice",), "client/alice"),
        ("CN=bob", ("spiffe://hightide/client/alice",), "client/alice"),
        ("CN=alice,OU=guests,O=Acme\\, Inc.", (), "no rule of --subject-mapping matches its subject 'CN=ali"),
        # What looks like attributes is the value of one.
        ("CN=alice\\,OU=apps\\,O=Acme\\\\\\, Inc.", (), "no rule of --subject-mapping matches its subject"),
        ("CN=alice,OU=apps,O=Acme\\, Inc.", ("spiffe://other/client/x",), "it is of the cluster 'other'"),
        (
            "CN=alice,OU=apps,O=Acme\\, Inc.",
            ("spiffe://hightide/client/x", "spiffe://hightide/client/y"),
            "it has spiffe://hightide/client/x, spiffe://hightide/client/y and needs one URI",
        ),
    ],
)  # fmt: skip
def test_a_caller_with_a_certificate_is_whom_its_uri_names_or_else_its_subject(
    subject: str, uris: tuple[str, ...], outcome: str, tmp_path: Path
) -> None:
    async def run() -> None:
        rig = Rig(tmp_path)
        files = rig.enterprise.issue(tmp_path, subject, *uris)
        async with (
            rig.served(ClientAuth.REQUIRED, ClientIdentities(subjects=APPS)),
            rig.outside(files) as channel,
        ):
            if outcome.startswith("client/"):
                await describe(channel)
                assert rig.servicer.callers == [outcome]
            else:
                status, reason, sentence = await refusal_of(describe(channel))
                assert (status, reason) == (grpc.StatusCode.PERMISSION_DENIED, "NOT_AUTHORIZED")
                assert f"the caller's certificate names nobody of this cluster: {outcome}" in sentence

    asyncio.run(run())
