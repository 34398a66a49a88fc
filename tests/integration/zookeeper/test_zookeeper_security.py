"""ZooKeeper with TLS and ACLs: who may connect, who may change what, and what a process says that may not."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from hightide_cli.doctor.zookeeper_probe import ZooKeeperProbeError, look_at
from hightide_local.certificates import CertificateAuthority, CertificateFiles
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_local.processes.ports import HOST
from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.cluster_znodes import ControllerEpochZnode, LeaderAndIsrZnode
from hightide_runtime.zookeeper.access_check import open_session
from hightide_runtime.zookeeper.acls import ALL, OPEN_ACL, AclEntry, is_open
from hightide_runtime.zookeeper.security import ZnodeAcl, ZooKeeperSecurity
from hightide_runtime.zookeeper.session import (
    Create,
    SessionState,
    ZooKeeperSession,
    ZooKeeperUnreachable,
)
from hightide_runtime.zookeeper.tls_socket import ZooKeeperTls
from integration.faults.test_zookeeper_outage import expire
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

Result = TypeVar("Result")
Stranger = Callable[[KazooClient], object]

PATIENCE_S = 60.0
LEADER = LeaderAndIsrZnode.path("t", 0)
EPOCH = ControllerEpochZnode.path()
DELETION = "/admin/delete_topics/t"


@dataclass
class Secure:
    """A ZooKeeper with a port for TLS, and what processes of two clusters have."""

    server: EmbeddedZooKeeper
    authority: CertificateAuthority
    root: Path

    def files(self, name: str, hosts: tuple[str, ...] = (HOST,)) -> CertificateFiles:
        return self.authority.issue("broker/1", hosts, self.root / name)

    def credentials(self, text: str = "hightide:of this cluster") -> Path:
        path = self.root / f"credentials-{abs(hash(text))}"
        path.write_text(text)
        path.chmod(0o600)
        return path

    def with_acls(self, text: str = "hightide:of this cluster") -> ZooKeeperSecurity:
        return ZooKeeperSecurity.of(None, self.credentials(text), ZnodeAcl.CREATOR)

    def tls(self, name: str = "broker") -> ZooKeeperTls:
        files = self.files(name)
        return ZooKeeperTls(files.ca, files.certificate, files.key)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    root = tmp_path_factory.mktemp("secure")
    authority = CertificateAuthority.create(root / "ca")
    certificate = authority.issue("zookeeper/1", [HOST], root / "zookeeper-certificate")
    with EmbeddedZooKeeper(root / "zookeeper", tick_time_ms=200, certificate=certificate) as server:
        yield Secure(server, authority, root)


@pytest.fixture
def chroot(secure: Secure, request: pytest.FixtureRequest) -> str:
    """A place for this test alone, at the plaintext port."""
    return f"{secure.server.address}/{abs(hash(request.node.name))}"


async def opened(
    hosts: str, security: ZooKeeperSecurity, connect_timeout_ms: int = 30_000
) -> ZooKeeperSession:
    return await open_session(
        hosts, security, session_timeout_ms=8_000, connect_timeout_ms=connect_timeout_ms
    )


def within(
    hosts: str, security: ZooKeeperSecurity, test: Callable[[ZooKeeperSession], Awaitable[Result]]
) -> Result:
    async def run() -> Result:
        session = await opened(hosts, security)
        try:
            return await test(session)
        finally:
            await session.close()

    return asyncio.run(run())


def refusal(hosts: str, security: ZooKeeperSecurity, connect_timeout_ms: int = 30_000) -> str:
    """The sentence with which a process ends."""

    async def run() -> None:
        await (await opened(hosts, security, connect_timeout_ms)).close()

    with pytest.raises((StartupError, ZooKeeperUnreachable)) as raised:
        asyncio.run(run())
    return str(raised.value)


async def until_session(session: ZooKeeperSession, condition: Callable[[], bool]) -> None:
    """Wait for news of the session until it is as wanted."""
    while not condition():
        await asyncio.wait_for(session.events.get(), PATIENCE_S)


def failure(hosts: str, security: ZooKeeperSecurity) -> str:
    """The sentence of a process that tried to connect for long enough to know why it cannot."""
    for timeout_ms in (1_500, 6_000, 24_000, 96_000):
        said = refusal(hosts, security, timeout_ms)
        assert said.startswith(f"no ZooKeeper answers at {hosts} within {timeout_ms} ms; ")
        if "start it, or give its address" not in said:
            break
    return said


@contextmanager
def stranger(hosts: str) -> Iterator[KazooClient]:
    server, slash, name = hosts.partition("/")
    client = KazooClient(server, timeout=10.0)
    client.start(PATIENCE_S)
    # Only now, since kazoo looks at the chroot when it starts, and that may be refused, too.
    client.chroot = slash + name
    try:
        yield client
    finally:
        client.stop()
        client.close()


async def a_cluster(session: ZooKeeperSession) -> None:
    """What processes create, in each way: parents, a znode by itself, one in a multi, an ephemeral one."""
    await session.ensure_cluster_id()
    await session.create(EPOCH, b"1")
    await session.multi([Create("/brokers/topics/t", b""), Create("/brokers/topics/t/0", b"")])
    await session.multi([Create(LEADER, b"leader"), Create(DELETION, b"")])
    await session.create("/brokers/ids/1", b"", ephemeral=True)


# -- who may change what


ATTACKS: dict[str, Stranger] = {
    "set the leader": lambda client: client.set(LEADER, b"stranger"),
    "read the leader": lambda client: client.get(LEADER),
    "delete the leader": lambda client: client.delete(LEADER),
    "open the leader's ACL": lambda client: client.set_acls(LEADER, OPEN_ACL_UNSAFE),
    "read the leader's ACL": lambda client: client.get_acls(LEADER),
    "set the controller epoch": lambda client: client.set(EPOCH, b"2147483647"),
    "delete the controller epoch": lambda client: client.delete(EPOCH),
    "become controller": lambda client: client.create("/controller", b"", ephemeral=True),
    "unregister a broker": lambda client: client.delete("/brokers/ids/1"),
    "register a broker": lambda client: client.create("/brokers/ids/9", b""),
    "have a topic deleted": lambda client: client.create("/admin/delete_topics/other", b""),
    "take back a deletion": lambda client: client.delete(DELETION),
    "list the topics": lambda client: client.get_children("/brokers/topics"),
}


def test_a_stranger_can_neither_change_nor_read_what_a_cluster_with_acls_has(
    secure: Secure, chroot: str
) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await a_cluster(session)

        def attacks() -> dict[str, bool]:
            refused = {}
            with stranger(chroot) as client:
                for name, attack in ATTACKS.items():
                    try:
                        attack(client)
                        refused[name] = False
                    except NoAuthError:
                        refused[name] = True
            return refused

        assert await asyncio.to_thread(attacks) == dict.fromkeys(ATTACKS, True)
        assert (await session.get(LEADER)).data == b"leader"

    within(chroot, secure.with_acls(), test)


def test_another_process_of_the_cluster_may_change_all_of_it(secure: Secure, chroot: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await a_cluster(session)
        other = await opened(chroot, secure.with_acls())
        try:
            assert await other.set(LEADER, b"other", 0) == 1
            await other.delete("/brokers/ids/1")
            await other.delete(DELETION)
        finally:
            await other.close()

    within(chroot, secure.with_acls(), test)


def test_an_open_znode_says_which_credentials_its_creator_has(secure: Secure, chroot: str) -> None:
    """`hightide zk secure` sees by it whom it would lock out."""
    security = ZooKeeperSecurity.of(None, secure.credentials(), ZnodeAcl.OPEN)

    async def test(session: ZooKeeperSession) -> None:
        await a_cluster(session)
        (identity,) = security.identities
        for path in ("/brokers/ids/1", LEADER):
            found = (await session.get_access(path)).acl
            assert is_open(found)
            assert AclEntry(ALL, identity) in found

    within(chroot, security, test)


def test_without_credentials_znodes_are_open_as_ever(secure: Secure, chroot: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await a_cluster(session)
        assert (await session.get_access(LEADER)).acl == OPEN_ACL

    within(chroot, ZooKeeperSecurity(), test)


def test_while_credentials_are_replaced_processes_with_both_and_with_the_old_ones_work_together(
    secure: Secure, chroot: str
) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await a_cluster(session)
        both = await opened(chroot, secure.with_acls("hightide:of this cluster\nhightide:new\n"))
        try:
            assert await both.set(LEADER, b"both", 0) == 1
            await both.create("/admin/delete_topics/new", b"")
            await session.delete("/admin/delete_topics/new")
        finally:
            await both.close()

    within(chroot, secure.with_acls(), test)


# -- what is refused at the start


def test_a_process_that_wants_acls_refuses_a_cluster_that_is_open(secure: Secure, chroot: str) -> None:
    within(chroot, ZooKeeperSecurity(), a_cluster)
    said = refusal(chroot, secure.with_acls())
    assert said.startswith("anyone may change /, /admin, /admin/delete_topics and ")
    assert secure.server.address in said
    assert "hightide zk secure --execute" in said


def test_one_open_parent_is_enough_to_refuse_and_is_named(secure: Secure, chroot: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await a_cluster(session)
        await session.set_acl("/brokers/topics", OPEN_ACL)

    within(chroot, secure.with_acls(), test)
    assert refusal(chroot, secure.with_acls()).startswith("anyone may change /brokers/topics in ZooKeeper")


def test_a_process_with_wrong_credentials_ends_at_once_and_says_so(secure: Secure, chroot: str) -> None:
    within(chroot, secure.with_acls(), a_cluster)
    wrong = secure.with_acls("hightide:mistyped")
    said = refusal(chroot, wrong)
    assert f"the credentials of hightide in {wrong.credentials_file} are not those of the cluster" in said
    assert "mistyped" not in said


def test_a_process_without_credentials_is_told_to_give_them(secure: Secure, chroot: str) -> None:
    within(chroot, secure.with_acls(), a_cluster)
    said = refusal(chroot, ZooKeeperSecurity())
    assert "which has an ACL; give the credentials of the cluster with --zookeeper-credentials-file" in said


# -- sessions


def test_a_session_that_was_replaced_shows_its_credentials_again(secure: Secure, chroot: str) -> None:
    async def test(session: ZooKeeperSession) -> None:
        await a_cluster(session)
        before = session.session_id
        await asyncio.to_thread(expire, session, secure.server.address)
        await until_session(
            session, lambda: session.state is SessionState.CONNECTED and session.session_id != before
        )
        assert await session.set(LEADER, b"again", 0) == 1

    within(chroot, secure.with_acls(), test)


def test_a_session_that_goes_on_by_tls_after_a_restart_of_zookeeper_shows_its_credentials_again(
    secure: Secure, chroot: str
) -> None:
    hosts = f"{secure.server.tls_address}/{chroot.partition('/')[2]}"
    security = ZooKeeperSecurity.of(secure.tls(), secure.credentials(), ZnodeAcl.CREATOR)

    async def test(session: ZooKeeperSession) -> None:
        await a_cluster(session)
        secure.server.kill()
        await until_session(session, lambda: session.state is not SessionState.CONNECTED)
        await asyncio.to_thread(secure.server.start)
        await until_session(session, lambda: session.state is SessionState.CONNECTED)
        assert await session.set(LEADER, b"again", 0) == 1

    within(hosts, security, test)


def test_requests_by_tls_are_all_answered_however_many_are_under_way(secure: Secure, chroot: str) -> None:
    """Answers that come in one TLS record are decrypted together, and select tells only of the first."""
    hosts = f"{secure.server.tls_address}/{chroot.partition('/')[2]}"

    async def test(session: ZooKeeperSession) -> None:
        await session.ensure_path("/pipelined")
        for _ in range(20):
            await asyncio.wait_for(
                asyncio.gather(*(session.get("/pipelined") for _ in range(200))), PATIENCE_S
            )
        large = os.urandom(300_000)
        await session.create("/large", large)
        assert (await session.get("/large")).data == large

    within(hosts, ZooKeeperSecurity(secure.tls()), test)


# -- certificates that do not fit


def test_a_server_of_another_ca_is_not_trusted_and_the_reason_is_told(secure: Secure) -> None:
    other = CertificateAuthority.create(secure.root / "other-ca").issue(
        "zookeeper/1", [HOST], secure.root / "other"
    )
    said = failure(secure.server.tls_address, ZooKeeperSecurity(ZooKeeperTls(other.ca)))
    assert "its certificate is not accepted: " in said
    assert "--zookeeper-tls-ca" in said


def test_a_server_under_a_name_that_its_certificate_lacks_is_not_trusted(secure: Secure) -> None:
    port = secure.server.tls_address.rpartition(":")[2]
    said = failure(f"localhost:{port}", ZooKeeperSecurity(secure.tls()))
    assert "'localhost'" in said


def test_a_process_without_a_certificate_is_told_that_zookeeper_wants_one(secure: Secure) -> None:
    without = ZooKeeperTls(secure.tls().ca)
    said = failure(secure.server.tls_address, ZooKeeperSecurity(without))
    assert "it refuses the certificate of this process, or wants one" in said
    assert "--zookeeper-tls-certificate" in said


def test_a_plaintext_process_at_the_port_for_tls_is_told_the_setting(secure: Secure) -> None:
    said = failure(secure.server.tls_address, ZooKeeperSecurity())
    assert "closes the connection: if its port is for TLS, give --zookeeper-tls-ca" in said


def test_tls_at_a_plaintext_port_is_told_as_that(secure: Secure) -> None:
    said = failure(secure.server.address, ZooKeeperSecurity(secure.tls()))
    assert "there is no TLS with it" in said
    assert "give its port for TLS with --zookeeper" in said


def test_tls_1_1_is_not_spoken(secure: Secure) -> None:
    context = secure.tls().context()
    assert context.minimum_version.name == "TLSv1_2"
    assert context.check_hostname


# -- what `hightide doctor` sees


def test_a_doctor_looks_at_a_server_by_tls_as_by_plaintext(secure: Secure) -> None:
    by_tls = look_at(secure.server.tls_address, PATIENCE_S, secure.tls())
    plain = look_at(secure.server.address, PATIENCE_S)
    assert by_tls.mode == plain.mode == "standalone"
    assert by_tls.version == plain.version is not None
    assert (by_tls.session_timeout_min_ms, by_tls.session_timeout_max_ms) == (
        plain.session_timeout_min_ms,
        plain.session_timeout_max_ms,
    )


def test_a_doctor_without_tls_names_the_option_for_it(secure: Secure) -> None:
    with pytest.raises(ZooKeeperProbeError, match=r"or it wants TLS \(--zookeeper-tls-ca\)"):
        look_at(secure.server.tls_address, PATIENCE_S)


def test_a_doctor_with_the_wrong_ca_or_without_a_certificate_is_told_so(secure: Secure) -> None:
    other = CertificateAuthority.create(secure.root / "third-ca").issue(
        "zookeeper/1", [HOST], secure.root / "third"
    )
    with pytest.raises(ZooKeeperProbeError, match="its certificate is not accepted"):
        look_at(secure.server.tls_address, PATIENCE_S, ZooKeeperTls(other.ca))
    with pytest.raises(ZooKeeperProbeError, match=r"refuses the certificate .*, or wants one"):
        look_at(secure.server.tls_address, PATIENCE_S, ZooKeeperTls(secure.tls().ca))
