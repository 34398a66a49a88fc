"""TLS of clients: what is refused is named, by whom and why, and renewed certificates are used without a
restart."""

import asyncio
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hightide.aio
import pytest
from cryptography.hazmat.primitives import serialization
from hightide import Admin, Consumer, Producer, RangeReader
from hightide.calls.call import MessageCall, Method
from hightide.calls.credentials import Credentials
from hightide.calls.tls_files import TlsFiles
from hightide.errors import (
    AddressUnreachableError,
    BrokersUnavailableError,
    InvalidArgumentError,
    TlsFault,
    TlsHandshakeError,
    TlsRefusedError,
)
from hightide.transport.channels import ChannelPool
from hightide.transport.tls_diagnosis import diagnose
from hightide.transport.transport import AioTransport, Transport
from hightide.v1.broker_service_pb2 import GetMetadataRequest, GetMetadataResponse
from hightide_local.histories.waiting import aio_wait_until, wait_until
from tls_server import Authority, Place
from unit.sdk.transport.unconnected_channel import UnconnectedChannel

PATIENCE_S = 30.0
CONNECTIONS_OF_A_LOOK = 3
"""One that checks the server, and two to read its certificate."""


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.close()


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "hightide", "hightide")


@pytest.fixture
def other_ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "other", "other")


def arguments(files: TlsFiles | None) -> dict[str, Any]:
    if files is None:
        return {}
    return {"tls_ca": files.ca, "tls_certificate": files.certificate, "tls_key": files.key}


def replace_files(old: TlsFiles, new: TlsFiles) -> None:
    """Renew files of a client where they are."""
    for at, content in ((old.ca, new.ca), (old.key, new.key), (old.certificate, new.certificate)):
        if content != at:
            shutil.copy(content or "", at or "")


def metadata_call(address: str) -> MessageCall[GetMetadataResponse]:
    return MessageCall(address, Method.GET_METADATA, 10_000, GetMetadataRequest(), GetMetadataResponse)


def refusal(address: str, files: TlsFiles | None) -> TlsRefusedError:
    """What an admin client says; its budget is far longer than the test may take."""
    with (
        Admin(address, timeout_ms=600_000, **arguments(files)) as admin,
        pytest.raises(TlsRefusedError) as raised,
    ):
        admin.describe_topics(["t"])
    return raised.value


def failure_of(transport: Transport, address: str) -> TlsHandshakeError:
    """How calls fail, once the reason was found."""
    failures: list[TlsHandshakeError] = []

    def is_explained() -> bool:
        with pytest.raises(AddressUnreachableError) as raised:
            transport.run(metadata_call(address))
        if isinstance(raised.value, TlsHandshakeError):
            failures.append(raised.value)
        return bool(failures)

    wait_until("the reason is found", is_explained, PATIENCE_S)
    return failures[-1]


# -- connecting ----------------------------------------------------------------------------------------------


def test_a_client_with_a_certificate_is_answered(place: Place, ca: Authority) -> None:
    place.serve(ca.broker())
    transport = Transport(credentials=Credentials(ca.client()))
    assert transport.run(metadata_call(place.address)) == GetMetadataResponse()
    transport.close()


def test_a_key_and_its_certificate_may_be_in_one_file(place: Place, ca: Authority, tmp_path: Path) -> None:
    """The PEM keystores of Kafka are."""
    alice, both = ca.client(), tmp_path / "alice.pem"
    both.write_bytes(Path(alice.key or "").read_bytes() + Path(alice.certificate or "").read_bytes())
    place.serve(ca.broker())
    transport = Transport(credentials=Credentials(TlsFiles(alice.ca, str(both), str(both))))
    assert transport.run(metadata_call(place.address)) == GetMetadataResponse()
    transport.close()


def test_on_a_loop_too_a_client_with_a_certificate_is_answered(place: Place, ca: Authority) -> None:
    async def act() -> None:
        transport = AioTransport(credentials=Credentials(ca.client()))
        assert await transport.run(metadata_call(place.address)) == GetMetadataResponse()
        await transport.close()

    place.serve(ca.broker())
    asyncio.run(act())


def test_a_ca_alone_is_enough_where_servers_do_not_ask_for_a_certificate(place: Place, ca: Authority) -> None:
    place.serve(ca.broker(), asks_clients=False)
    transport = Transport(credentials=Credentials(ca.trusted()))
    assert transport.run(metadata_call(place.address)) == GetMetadataResponse()
    transport.close()


# -- what is refused -----------------------------------------------------------------------------------------


def test_a_server_of_another_ca_is_refused(place: Place, ca: Authority, other_ca: Authority) -> None:
    place.serve(other_ca.broker(), asks_clients=False)
    text = str(refusal(place.address, ca.trusted()))
    assert text == (
        f"{place.address}: the certificate of the server (for broker/1, localhost, 127.0.0.1; "
        f"issued by other CA) is refused: no CA in {ca.file} has signed it. "
        "Give the CA of this cluster as tls_ca"
    )


def test_a_server_whose_certificate_has_expired_is_refused(place: Place, ca: Authority) -> None:
    place.serve(ca.broker(days=-2), asks_clients=False)
    text = str(refusal(place.address, ca.trusted()))
    assert f"{place.address}: the certificate of the server (for broker/1, " in text
    assert "is refused: it has expired on 20" in text
    assert text.endswith("Give the server a new one")


def test_a_server_with_a_certificate_for_another_host_is_refused(place: Place, ca: Authority) -> None:
    place.serve(ca.broker(hosts=["broker-7"]))
    text = str(refusal(place.address, ca.client()))
    assert text.startswith(f"{place.address}: the certificate of the server (for broker/1, broker-7; ")
    assert "it is not for 127.0.0.1" in text


def test_a_client_without_a_certificate_learns_that_it_needs_one(place: Place, ca: Authority) -> None:
    place.serve(ca.broker())
    text = str(refusal(place.address, ca.trusted()))
    assert f"{place.address} asks for a certificate of this client" in text
    assert text.endswith("Give tls_certificate and tls_key")


def test_a_client_with_a_certificate_of_another_ca_learns_that(
    place: Place, ca: Authority, other_ca: Authority
) -> None:
    place.serve(ca.broker())
    mallory = other_ca.client("mallory", trusts=ca.file)
    text = str(refusal(place.address, mallory))
    assert f"refuses the certificate of this client, {mallory.certificate} (for client/mallory; " in text
    assert f"no CA in {ca.file} has signed it" in text


def test_a_client_whose_certificate_has_expired_learns_that(place: Place, ca: Authority) -> None:
    place.serve(ca.broker())
    alice = ca.client(days=-2)
    text = str(refusal(place.address, alice))
    assert f"refuses the certificate of this client, {alice.certificate} (for client/alice; " in text
    assert "it has expired on 20" in text
    assert text.endswith("Give this client a new one")


def test_a_client_that_the_server_alone_distrusts_learns_what_it_cannot_see(
    place: Place, ca: Authority, other_ca: Authority
) -> None:
    """The server shows a certificate of one CA, and trusts another one."""
    place.serve(ca.broker(trusts=other_ca.file))
    text = str(refusal(place.address, ca.client()))
    assert "By the CA of this client it is valid" in text


def test_a_client_with_tls_at_a_plaintext_port_learns_that(place: Place, ca: Authority) -> None:
    place.serve(None)
    text = str(refusal(place.address, ca.client()))
    assert text.startswith(f"{place.address} does not use TLS, and this client does")


@pytest.mark.parametrize("asks_clients", [False, True])
def test_a_client_with_plaintext_at_a_tls_port_learns_that(
    place: Place, ca: Authority, asks_clients: bool
) -> None:
    place.serve(ca.broker(), asks_clients=asks_clients)
    text = str(refusal(place.address, None))
    assert text.startswith(f"{place.address} uses TLS, and this client does not. Give tls_ca")


def test_the_alert_of_a_server_that_sends_one_is_told(ca: Authority, other_ca: Authority) -> None:
    """gRPC sends none; proxies do."""
    server, alice = ca.broker(), ca.client()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate or "", server.key)
    context.load_verify_locations(other_ca.file)
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def refuse() -> None:
            connection, _ = listener.accept()
            with connection, pytest.raises(ssl.SSLError):
                context.wrap_socket(connection, server_side=True)

        refusing = threading.Thread(target=refuse)
        refusing.start()
        finding = diagnose(address, alice, PATIENCE_S)
        refusing.join()
    assert finding is not None
    assert finding.fault is TlsFault.CLIENT_CERTIFICATE
    assert "it says: unknown ca" in finding.text


def test_where_tls_is_not_the_reason_none_is_told(place: Place, ca: Authority) -> None:
    alice = ca.client()
    assert diagnose(place.address, alice, PATIENCE_S) is None, "nobody listens"
    assert diagnose(place.address, None, PATIENCE_S) is None, "nobody listens"
    place.serve(ca.broker())
    assert diagnose(place.address, alice, PATIENCE_S) is None, "all is well"
    place.serve(None)
    assert diagnose(place.address, None, PATIENCE_S) is None, "all is well"


def test_a_host_that_is_no_name_has_no_finding(ca: Authority) -> None:
    assert diagnose(".:9092", ca.client(), PATIENCE_S) is None


def test_a_server_that_is_refused_is_not_shown_the_certificate_of_the_client(
    ca: Authority, other_ca: Authority
) -> None:
    """It could be anybody, and a certificate names its owner."""
    impostor = other_ca.broker()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(impostor.certificate or "", impostor.key)
    context.load_verify_locations(ca.file)
    context.verify_mode = ssl.CERT_OPTIONAL
    shown: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def look() -> None:
            while True:
                connection, _ = listener.accept()
                try:
                    with context.wrap_socket(connection, server_side=True) as secured:
                        shown.append(secured.getpeercert())
                except ssl.SSLError:
                    shown.append(None)
                except OSError:
                    return
                if len(shown) == CONNECTIONS_OF_A_LOOK:
                    return

        looking = threading.Thread(target=look)
        looking.start()
        finding = diagnose(address, ca.client(), PATIENCE_S)
        looking.join()
    assert finding is not None
    assert "issued by other CA" in finding.text
    assert not any(shown)


def test_a_port_that_stays_silent_is_not_waited_for(ca: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert diagnose(address, ca.client(), 0.1) is None
        assert diagnose(address, None, 0.1) is None


# -- every client --------------------------------------------------------------------------------------------

Use = Callable[[str, dict[str, Any]], None]


def send(address: str, tls: dict[str, Any]) -> None:
    with Producer(address, max_block_ms=600_000, **tls) as producer:
        producer.send("t", b"x")


def poll(address: str, tls: dict[str, Any]) -> None:
    with Consumer(address, topics="t", unavailable_timeout_ms=600_000, **tls) as consumer:
        consumer.poll(600)


def poll_in_a_group(address: str, tls: dict[str, Any]) -> None:
    with Consumer(address, topics="t", group="g", unavailable_timeout_ms=600_000, **tls) as consumer:
        consumer.poll(600)


def read_a_range(address: str, tls: dict[str, Any]) -> None:
    with RangeReader(address, unavailable_timeout_ms=600_000, **tls) as reader:
        list(reader.read("t", b"i" * 16, 0, 0, 1))


def describe(address: str, tls: dict[str, Any]) -> None:
    with Admin(address, timeout_ms=600_000, **tls) as admin:
        admin.describe_topics(["t"])


def on_a_loop(use: Callable[[str, dict[str, Any]], Any]) -> Use:
    return lambda address, tls: asyncio.run(use(address, tls))


async def aio_send(address: str, tls: dict[str, Any]) -> None:
    async with hightide.aio.Producer(address, max_block_ms=600_000, **tls) as producer:
        await producer.send("t", b"x")


async def aio_poll(address: str, tls: dict[str, Any]) -> None:
    async with hightide.aio.Consumer(address, topics="t", unavailable_timeout_ms=600_000, **tls) as consumer:
        await consumer.poll(600)


async def aio_describe(address: str, tls: dict[str, Any]) -> None:
    async with hightide.aio.Admin(address, timeout_ms=600_000, **tls) as admin:
        await admin.describe_topics(["t"])


USES = {
    "producer": send,
    "consumer": poll,
    "member of a group": poll_in_a_group,
    "range reader": read_a_range,
    "admin": describe,
    "aio producer": on_a_loop(aio_send),
    "aio consumer": on_a_loop(aio_poll),
    "aio admin": on_a_loop(aio_describe),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_every_client_fails_at_once_where_nobody_ever_answered_and_the_reason_is_tls(
    place: Place, ca: Authority, use: Use
) -> None:
    """Their budgets are ten minutes, and the test has less."""
    place.serve(ca.broker())
    with pytest.raises(TlsRefusedError) as raised:
        use(place.address, {"tls_ca": ca.file})
    assert not raised.value.retriable
    assert raised.value.addresses == (place.address,)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_every_client_refuses_files_that_cannot_be_used_when_it_is_made(tmp_path: Path, use: Use) -> None:
    with pytest.raises(InvalidArgumentError, match=r"tls_ca .*/nowhere.crt cannot be read: No such file"):
        use("127.0.0.1:1", {"tls_ca": tmp_path / "nowhere.crt"})


def test_one_broker_that_refuses_does_not_end_a_client_that_has_others(
    place: Place, ca: Authority, other_ca: Authority
) -> None:
    refusing = Place()
    place.serve(ca.broker())
    refusing.serve(other_ca.broker())
    alice = ca.client()
    with Admin([refusing.address, place.address], **arguments(alice)) as admin:
        assert admin.coordinators() == ()
    refusing.close()


# -- files that cannot be used -------------------------------------------------------------------------------


def test_files_that_do_not_belong_together_are_refused_by_name(ca: Authority, tmp_path: Path) -> None:
    alice, bob = ca.client(), ca.client("bob")
    mixed = TlsFiles(alice.ca, alice.certificate, bob.key)
    with pytest.raises(InvalidArgumentError, match=f"tls_key {bob.key} does not belong to tls_certificate"):
        Transport(credentials=Credentials(mixed))
    with pytest.raises(InvalidArgumentError, match=f"tls_ca {bob.key} holds no certificate in PEM form"):
        Transport(credentials=Credentials(TlsFiles(bob.key or "")))
    with pytest.raises(InvalidArgumentError, match="are not a certificate and its key in PEM form"):
        Transport(credentials=Credentials(TlsFiles(alice.ca, alice.key, alice.key)))
    with pytest.raises(InvalidArgumentError, match="cannot be read: Is a directory"):
        Transport(credentials=Credentials(TlsFiles(str(tmp_path))))
    with pytest.raises(InvalidArgumentError, match="more than 1048576 bytes"):
        Transport(credentials=Credentials(TlsFiles("/dev/zero")))


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(ca: Authority) -> None:
    alice = ca.client()
    key_file = Path(alice.key or "")
    key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    )
    with pytest.raises(InvalidArgumentError, match=f"tls_key {key_file} is encrypted"):
        Transport(credentials=Credentials(alice))


# -- renewal -------------------------------------------------------------------------------------------------


def test_a_client_outlives_a_change_of_the_ca(place: Place, ca: Authority, other_ca: Authority) -> None:
    """The broker has its new certificate before the client has the new CA."""
    alice = ca.client()
    place.serve(ca.broker())
    transport = Transport(credentials=Credentials(alice))
    transport.run(metadata_call(place.address))
    place.serve(other_ca.broker())
    failure = failure_of(transport, place.address)
    assert failure.fault is TlsFault.SERVER_CERTIFICATE
    assert failure.retriable
    assert not failure.is_final
    replace_files(alice, other_ca.client())
    assert transport.run(metadata_call(place.address)) == GetMetadataResponse()
    transport.close()


def test_on_a_loop_too_a_client_outlives_a_change_of_the_ca_that_signs_clients(
    place: Place, ca: Authority, other_ca: Authority
) -> None:
    """The broker trusts the new CA before the client has a certificate of it."""

    async def act() -> None:
        transport = AioTransport(credentials=Credentials(alice))
        await transport.run(metadata_call(place.address))
        await asyncio.to_thread(place.serve, ca.broker(trusts=other_ca.file))
        failures: list[AddressUnreachableError] = []

        async def is_explained() -> bool:
            with pytest.raises(AddressUnreachableError) as raised:
                await transport.run(metadata_call(place.address))
            failures.append(raised.value)
            return isinstance(raised.value, TlsHandshakeError)

        await aio_wait_until("the reason is found", is_explained, PATIENCE_S)
        assert "refuses the certificate of this client" in str(failures[-1])
        assert failures[-1].retriable
        replace_files(alice, other_ca.client(trusts=ca.file))
        assert await transport.run(metadata_call(place.address)) == GetMetadataResponse()
        await transport.close()

    alice = ca.client()
    place.serve(ca.broker())
    asyncio.run(act())


def test_files_that_are_found_half_renewed_are_read_again(place: Place, ca: Authority) -> None:
    alice = ca.client()
    place.serve(ca.broker())
    transport = Transport(credentials=Credentials(alice))
    renewed = ca.client("renewed")
    shutil.copy(renewed.certificate or "", alice.certificate or "")
    with pytest.raises(TlsHandshakeError, match="does not belong to") as raised:
        transport.run(metadata_call(place.address))
    assert raised.value.fault is TlsFault.FILES
    assert not raised.value.is_final, "even before the first answer"
    shutil.copy(renewed.key or "", alice.key or "")
    assert transport.run(metadata_call(place.address)) == GetMetadataResponse()
    transport.close()


def test_a_range_reader_too_reads_files_again_that_it_finds_half_renewed(ca: Authority) -> None:
    """It tries for as long as it may, and says in the end what kept it from trying."""
    alice = ca.client()
    with RangeReader("127.0.0.1:1", unavailable_timeout_ms=200, **arguments(alice)) as reader:
        shutil.copy(ca.client("renewed").key or "", alice.key or "")
        with pytest.raises(BrokersUnavailableError, match="does not belong to tls_certificate"):
            list(reader.read("t", b"i" * 16, 0, 0, 1))


def test_a_channel_on_which_a_call_failed_takes_no_more_calls_while_others_are_under_way() -> None:
    """Else a client that always has a call under way would keep the certificate that the server refuses."""
    pool = ChannelPool(UnconnectedChannel, keeps_failed=False)
    parked = pool.begin("b:1", Method.FETCH)
    failed = pool.begin("b:1", Method.GET_METADATA)
    assert failed is parked
    failed.is_unreachable = True
    pool.end(failed)
    fresh = pool.begin("b:1", Method.GET_METADATA)
    assert fresh is not parked
    assert pool.begin("b:1", Method.GET_METADATA) is fresh, "one is enough"
    assert parked.channel is not None, "the parked call goes on"
    pool.end(parked)
    assert parked.channel is None, "nothing keeps the old connection"


def test_a_pool_that_closes_ends_the_channels_that_were_replaced_too() -> None:
    pool = ChannelPool(UnconnectedChannel, keeps_failed=False)
    parked = pool.begin("b:1", Method.FETCH)
    parked.is_unreachable = True
    pool.begin("b:1", Method.GET_METADATA)
    assert len(pool.close()) == 2
