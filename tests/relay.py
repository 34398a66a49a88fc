"""A listener that passes connections on, so that a server can seem to stop without stopping."""

import contextlib
import socket
import threading

CHUNK_BYTES = 65_536


class Relay:
    """Listens at an address that is bound already with SO_REUSEPORT, until it is closed."""

    def __init__(self, address: tuple[str, int], to: tuple[str, int]) -> None:
        self._to = to
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._listener.bind(address)
        self._listener.listen()
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def close(self) -> None:
        """Refuse connections from here on, and end those that are open."""
        # It wakes the thread that accepts, which closing does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        for each in self._open:
            with contextlib.suppress(OSError):  # the other end may be gone
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # `close` has woken this thread
                return
            server = socket.create_connection(self._to)
            self._open += (client, server)
            for source, target in ((client, server), (server, client)):
                thread = threading.Thread(target=_pass_on, args=(source, target))
                thread.start()
                self._threads.append(thread)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Pass on all that comes, and then its end. Either end may break off."""
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
