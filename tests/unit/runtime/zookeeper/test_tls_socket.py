"""A TLS connection in kazoo's loop: what has arrived is found, and nothing else counts."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hightide_local.certificates import CertificateAuthority
from hightide_runtime.zookeeper.tls_socket import ConnectingHandler, TlsSocket, ZooKeeperTls

SOON_S = 60.0


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[TlsSocket, ssl.SSLSocket, ConnectingHandler]]:
    """This end as kazoo has it, the server's end, and what kazoo waits with."""
    files = CertificateAuthority.create(tmp_path / "ca").issue("zookeeper/1", ["127.0.0.1"], tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    handler = ConnectingHandler(SOON_S, ZooKeeperTls(files.ca))
    accepted: list[ssl.SSLSocket] = []
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def accept() -> None:
            accepted.append(context.wrap_socket(listener.accept()[0], server_side=True))

        server = threading.Thread(target=accept)
        server.start()
        connection = handler.create_connection(
            address=listener.getsockname(), hostname="127.0.0.1", timeout=SOON_S
        )
        server.join(SOON_S)
        connection.setblocking(False)
        stack.callback(connection.close)
        stack.enter_context(accepted[0])
        yield connection, accepted[0], handler


def received(connection: TlsSocket, handler: ConnectingHandler, count: int) -> bytes:
    assert handler.select([connection], [], [], SOON_S)[0] == [connection]
    return connection.recv(count)


def test_the_second_of_two_answers_in_one_record_is_ready_too(
    pair: tuple[TlsSocket, ssl.SSLSocket, ConnectingHandler],
) -> None:
    """select on the bare socket would wait: all has been read from it."""
    connection, server, handler = pair
    server.sendall(b"onetwo")
    assert received(connection, handler, 3) == b"one"
    assert handler.select([connection], [], [], SOON_S)[0] == [connection]
    assert connection.pending() == 3
    assert connection.recv(3) == b"two"


def test_a_session_ticket_is_no_answer(
    pair: tuple[TlsSocket, ssl.SSLSocket, ConnectingHandler],
) -> None:
    """TLS 1.3 servers send tickets after the handshake: bytes have arrived, and there is nothing to read."""
    connection, _, handler = pair
    assert handler.select([connection], [], [], 0.0)[0] == []
    assert connection.pending() == 0
    with pytest.raises(ssl.SSLWantReadError):
        connection.recv(4)


def test_another_socket_wakes_the_wait_for_a_silent_server(
    pair: tuple[TlsSocket, ssl.SSLSocket, ConnectingHandler],
) -> None:
    """kazoo's own thread is woken so when there is a request to send."""
    connection, _, handler = pair
    mine, other = socket.socketpair()
    with mine, other:
        other.send(b"!")
        assert handler.select([connection, mine], [], [], SOON_S)[0] == [mine]


def test_what_came_before_the_end_is_read_and_then_the_end(
    pair: tuple[TlsSocket, ssl.SSLSocket, ConnectingHandler],
) -> None:
    connection, server, handler = pair
    server.sendall(b"last")
    server.shutdown(socket.SHUT_RDWR)
    assert received(connection, handler, 4) == b"last"
    assert handler.select([connection], [], [], SOON_S)[0] == [connection]
    assert connection.recv(4) == b""
