"""Attacks that took over a whole cluster, on a server whose callers show certificates: each is refused with
its reason and a line in the audit log, reaches no servicer, and a client beside it does not notice."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc
from grpc_status import rpc_status
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_control_service_pb2_grpc as control_grpc
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import controller_service_pb2_grpc as controller_grpc
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide.v1 import replica_service_pb2_grpc as replica_grpc
from hightide_local.certificates import CertificateAuthority, CertificateFiles
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import StartupError
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.serving.server import Server, Service, serve
from hightide_runtime.tls.files import ClientAuth, ServerTls, TlsFiles

LOOPBACK = HostPort("127.0.0.1", 0)
CALL_S = 30.0
EPOCH_MAX = 2**31 - 1
REPLICA, CONTROL, CONTROLLER = (
    "hightide.v1.ReplicaService",
    "hightide.v1.BrokerControlService",
    "hightide.v1.ControllerService",
)


class Attack(NamedTuple):
    """One request, and who may make it."""

    method: str
    request: Message
    answer: type[Message]
    owner: str

    async def by(self, channel: grpc.aio.Channel) -> Message:
        """Make it."""
        call: Any = channel.unary_unary(self.method, None, self.answer.FromString)
        answer: Message = await call(self.request.SerializeToString(), timeout=CALL_S)
        return answer


STAMP = control_pb2.ControllerStamp(controller_id=1, controller_epoch=EPOCH_MAX, broker_epoch=7)
ATTACKS = {
    "fetch as replica 2, which has nothing": Attack(
        f"/{REPLICA}/ReplicaFetch",
        replica_pb2.ReplicaFetchRequest(replica_id=2, broker_epoch=7),
        replica_pb2.ReplicaFetchResponse,
        "broker/2",
    ),
    "ask for epochs as replica 2": Attack(
        f"/{REPLICA}/EndOffsetForLeaderEpoch",
        replica_pb2.EndOffsetForLeaderEpochRequest(replica_id=2),
        replica_pb2.EndOffsetForLeaderEpochResponse,
        "broker/2",
    ),
    "compare as replica 2": Attack(
        f"/{REPLICA}/DigestBatches",
        replica_pb2.DigestBatchesRequest(replica_id=2),
        replica_pb2.DigestBatchesResponse,
        "broker/2",
    ),
    "delete a replica under an invented epoch": Attack(
        f"/{CONTROL}/StopReplica",
        control_pb2.StopReplicaRequest(
            stamp=STAMP, partitions=[control_pb2.StopReplicaPartition(topic="orders", delete=True)]
        ),
        control_pb2.StopReplicaResponse,
        "controller/1",
    ),
    "decide who leads": Attack(
        f"/{CONTROL}/LeaderAndISR",
        control_pb2.LeaderAndISRRequest(stamp=STAMP),
        control_pb2.LeaderAndISRResponse,
        "controller/1",
    ),
    "depose all controllers by the largest epoch": Attack(
        f"/{CONTROL}/UpdateMetadata",
        control_pb2.UpdateMetadataRequest(stamp=STAMP, full=True),
        control_pb2.UpdateMetadataResponse,
        "controller/1",
    ),
    "shut broker 2 down": Attack(
        f"/{CONTROLLER}/ControlledShutdown",
        controller_pb2.ControlledShutdownRequest(broker_id=2, broker_epoch=7),
        controller_pb2.ControlledShutdownResponse,
        "broker/2",
    ),
    "report the replicas of broker 2 as failed": Attack(
        f"/{CONTROLLER}/ReportFailedReplicas",
        controller_pb2.ReportFailedReplicasRequest(broker_id=2),
        controller_pb2.ReportFailedReplicasResponse,
        "broker/2",
    ),
}
STRANGERS = ("client/mallory", "broker/1", "controller/2", "coordinator/2")


class Servicers:
    """All services of a cluster in one process. They do what they are asked, and note it down."""

    def __init__(self) -> None:
        self.obeyed: list[str] = []

    def __getattr__(self, name: str) -> Callable[[Message, Any], Awaitable[Message]]:
        answers: dict[str, type[Message]] = {"DescribeCluster": controller_pb2.DescribeClusterResponse}
        answers |= {each.method.rpartition("/")[2]: each.answer for each in ATTACKS.values()}

        async def obey(request: Message, context: Any) -> Message:
            self.obeyed.append(name)
            return answers[name]()

        return obey

    def services(self) -> list[Service]:
        return [
            Service(REPLICA, self, replica_grpc.add_ReplicaServiceServicer_to_server),
            Service(CONTROL, self, control_grpc.add_BrokerControlServiceServicer_to_server),
            Service(CONTROLLER, self, controller_grpc.add_ControllerServiceServicer_to_server),
        ]


class Cluster:
    """A server with two listeners and a certificate, and the CA that issues others."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = CertificateAuthority.create(directory / "ca")
        self._other = CertificateAuthority.open(directory / "ca")
        # Another cluster of the same CA: a trust domain of its own.
        self._other.cluster = "other"
        self.servicers = Servicers()
        self.server: Server

    def issued(self, identity: str) -> TlsFiles:
        return self._files(self._authority, identity)

    def issued_for_another_cluster(self, identity: str) -> TlsFiles:
        return self._files(self._other, identity)

    def _files(self, authority: CertificateAuthority, identity: str) -> TlsFiles:
        files: CertificateFiles = authority.issue(
            identity, ["127.0.0.1", "127.0.0.2"], self._directory / authority.cluster
        )
        return TlsFiles(files.certificate, files.key, files.ca)

    @asynccontextmanager
    async def served(self, client_auth: ClientAuth, external: ClientAuth) -> AsyncIterator[None]:
        tls = ServerTls(self.issued("broker/1"), client_auth, external)
        self.server = await serve(
            LOOPBACK, self.servicers.services(), external=HostPort("127.0.0.2", 0), tls=tls
        )
        try:
            yield
        finally:
            await self.server.stop(0)

    def inside(self, files: TlsFiles) -> grpc.aio.Channel:
        return open_channel(self.server.address, credentials=credentials_of(files))

    def outside(self, files: TlsFiles) -> grpc.aio.Channel:
        assert self.server.external_address is not None
        return open_channel(self.server.external_address, credentials=credentials_of(files))


def credentials_of(files: TlsFiles) -> grpc.ChannelCredentials:
    read = [path.read_bytes() for path in (files.ca, files.key, files.certificate)]
    return grpc.ssl_channel_credentials(*read)


def with_cluster(
    directory: Path,
    test: Callable[[Cluster], Awaitable[None]],
    client_auth: ClientAuth = ClientAuth.REQUIRED,
    external: ClientAuth = ClientAuth.REQUIRED,
) -> None:
    async def run() -> None:
        cluster = Cluster(directory)
        async with cluster.served(client_auth, external):
            await test(cluster)

    asyncio.run(run())


async def refusal_of(call: Awaitable[Any]) -> tuple[str, error_details_pb2.ErrorInfo]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    status = rpc_status.from_call(refused.value)
    assert status is not None, refused.value
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert info.reason == "NOT_AUTHORIZED"
    return refused.value.details() or "", info


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(each.getMessage()) for each in caplog.records if each.name == "hightide.audit"]


async def describe(channel: grpc.aio.Channel) -> None:
    """What any client may ask."""
    await controller_grpc.ControllerServiceStub(channel).DescribeCluster(
        controller_pb2.DescribeClusterRequest(), timeout=CALL_S
    )


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("stranger", STRANGERS)
def test_nobody_speaks_for_another_process(
    attack: Attack, stranger: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(cluster: Cluster) -> None:
        async with (
            cluster.inside(cluster.issued(stranger)) as attacking,
            cluster.outside(cluster.issued("client/alice")) as normal,
        ):
            await describe(normal)
            sentence, info = await refusal_of(attack.by(attacking))
            assert info.metadata["caller"] == stranger
            assert sentence.startswith(f"{stranger} may not call {attack.method}")
            await describe(normal)
        assert cluster.servicers.obeyed == ["DescribeCluster"] * 2

    with_cluster(tmp_path, test)
    (line,) = audited(caplog)
    assert (line["who"], line["method"], line["allowed"]) == (stranger, attack.method, False)


def test_an_id_of_one_role_is_not_that_of_another(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        for attack in ATTACKS.values():
            number = attack.owner.partition("/")[2]
            for role in {"client", "broker", "controller", "coordinator"} - {attack.owner.partition("/")[0]}:
                async with cluster.inside(cluster.issued(f"{role}/{number}")) as channel:
                    sentence, _ = await refusal_of(attack.by(channel))
                assert f"{role}/{number} may not call {attack.method}: it is for " in sentence
        assert cluster.servicers.obeyed == []

    with_cluster(tmp_path, test)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_the_process_itself_may(attack: Attack, tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        async with cluster.inside(cluster.issued(attack.owner)) as channel:
            await attack.by(channel)
        assert cluster.servicers.obeyed == [attack.method.rpartition("/")[2]]

    with_cluster(tmp_path, test)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_not_even_the_process_itself_may_outside(
    attack: Attack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(cluster: Cluster) -> None:
        async with cluster.outside(cluster.issued(attack.owner)) as channel:
            sentence, info = await refusal_of(attack.by(channel))
        assert "the internal listener alone serves it" in sentence
        assert info.metadata["listener"] == "external"
        assert cluster.servicers.obeyed == []

    with_cluster(tmp_path, test)
    (line,) = audited(caplog)
    assert (line["who"], line["listener"], line["allowed"]) == (attack.owner, "external", False)


def test_a_process_of_another_cluster_of_the_same_ca_is_nobody_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(cluster: Cluster) -> None:
        async with cluster.inside(cluster.issued_for_another_cluster("broker/2")) as channel:
            for attack in ATTACKS.values():
                sentence, info = await refusal_of(attack.by(channel))
                assert "it is of the cluster 'other', and this is 'hightide'" in sentence
                assert info.metadata["caller"] == "anonymous"
        assert cluster.servicers.obeyed == []

    with_cluster(tmp_path, test)
    assert len(audited(caplog)) == len(ATTACKS)


def test_a_service_may_not_do_what_only_clients_may(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        async with cluster.inside(cluster.issued("coordinator/1")) as channel:
            sentence, _ = await refusal_of(describe(channel))
        assert sentence.endswith("it is for client")

    with_cluster(tmp_path, test)


def test_strangers_outside_find_neither_reflection_nor_channelz(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        async with cluster.outside(cluster.issued("client/mallory")) as channel:
            asked = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(timeout=CALL_S)
            assert await asked.code() is grpc.StatusCode.UNIMPLEMENTED
            channelz = channelz_pb2_grpc.ChannelzStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await channelz.GetServers(channelz_pb2.GetServersRequest(), timeout=CALL_S)
            assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED

    with_cluster(tmp_path, test)


def test_connections_that_follow_each_other_do_not_share_an_identity(tmp_path: Path) -> None:
    """The owner's calls before and in between open nothing for the others."""
    attack = ATTACKS["fetch as replica 2, which has nothing"]

    async def test(cluster: Cluster) -> None:
        owner, stranger = cluster.issued("broker/2"), cluster.issued("broker/1")
        for _ in range(3):
            async with cluster.inside(owner) as channel:
                await attack.by(channel)
            async with cluster.inside(stranger) as channel:
                await refusal_of(attack.by(channel))

    with_cluster(tmp_path, test)


def test_where_clients_need_no_certificate_the_external_listener_still_serves_nothing_internal(
    tmp_path: Path,
) -> None:
    async def test(cluster: Cluster) -> None:
        async with cluster.outside(cluster.issued("client/alice")) as channel:
            await describe(channel)
            for attack in ATTACKS.values():
                await refusal_of(attack.by(channel))
        assert cluster.servicers.obeyed == ["DescribeCluster"]

    with_cluster(tmp_path, test, external=ClientAuth.NONE)


def test_a_process_whose_own_certificate_names_no_cluster_does_not_start(tmp_path: Path) -> None:
    async def run() -> None:
        authority = CertificateAuthority.create(tmp_path / "ca")
        # No name of a cluster may have capital letters.
        authority.cluster = "HIGHTIDE"
        files = authority.issue("broker/1", ["127.0.0.1"], tmp_path)
        tls = ServerTls(TlsFiles(files.certificate, files.key, files.ca))
        with pytest.raises(StartupError, match=r"broker-1\.crt does not say .* spiffe://HIGHTIDE/broker/1"):
            await serve(LOOPBACK, [], tls=tls)

    asyncio.run(run())
