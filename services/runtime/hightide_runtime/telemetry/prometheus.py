"""The endpoint for Prometheus: `GET /metrics` over plain HTTP, on its own threads.

It serves few connections at a time, each for a limited time. A slow or silent client delays only itself, and
no scrape uses the event loop.
"""

import contextlib
import errno
import http.server
import ipaddress
import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import StartupError

__all__ = ["PrometheusEndpoint"]

CONNECTIONS_MAX: Final = 4
PATIENCE_S: Final = 5.0
"""The time limit of one read from a connection, or one write to it."""
CONNECTION_S: Final = 15.0
"""The time limit of a connection. Without it a client that sends single bytes could keep its place for
hours."""
PATH: Final = "/metrics"
_log = logging.getLogger(__name__)


class PrometheusEndpoint:
    """The HTTP server. It listens from its construction until `close`."""

    def __init__(
        self, listen: HostPort, registry: CollectorRegistry, *, connection_s: float = CONNECTION_S
    ) -> None:
        """Raises StartupError."""
        self._registry = registry
        # The reader passes metrics on by a queue, from which two parallel scrapes would take each other's.
        self._one_at_a_time = threading.Lock()
        try:
            family, _, _, _, socket_address = socket.getaddrinfo(
                listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._server = _Server(family, socket_address, self._scrape, connection_s)
        except OSError as error:
            raise StartupError(_why_not_bound(listen, error)) from None
        self.address = HostPort(listen.host, self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="prometheus", daemon=True).start()
        _log.info("Prometheus finds the metrics at http://%s%s", self.address, PATH)
        if not _is_loopback(str(socket_address[0])):
            _log.warning("whoever reaches %s may read the metrics: there is no password", self.address)

    def close(self) -> None:
        """Stop listening. The end of the process breaks off the scrapes that are under way."""
        self._server.shutdown()
        self._server.server_close()

    def _scrape(self, accept: str) -> tuple[bytes, str]:
        """The metrics in the format that the header Accept names, and its content type."""
        encode, content_type = choose_encoder(accept)
        with self._one_at_a_time:
            return encode(self._registry), content_type


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self, family: int, address: Any, scrape: Callable[[str], tuple[bytes, str]], connection_s: float
    ) -> None:
        self.address_family = family
        self.scrape = scrape
        self.connection_s = connection_s
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(address[:2], _Handler)

    def server_bind(self) -> None:
        """Bind as the base class of HTTPServer does. HTTPServer itself would also ask DNS for a name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a new thread, if there are fewer than CONNECTIONS_MAX; else close it."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request, with a limit on its time. Runs in its thread."""
        end = threading.Timer(self.connection_s, _break_off, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error. A client that disconnects is no news for operators, any other error is."""
        if isinstance(sys.exception(), OSError):
            _log.debug("a scrape was broken off", exc_info=True)
        else:
            _log.exception("a scrape failed")


def _break_off(connection: socket.socket) -> None:
    """Shut a connection down, so that reads and writes of it end."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        """Answer a scrape."""
        if self.path.partition("?")[0] != PATH:
            self._answer(HTTPStatus.NOT_FOUND, f"the metrics are at {PATH}\n".encode(), "text/plain")
            return
        body, content_type = self.server.scrape(self.headers.get("Accept") or "")
        self._answer(HTTPStatus.OK, body, content_type)

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Log nothing, since each scrape would add a line."""


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _why_not_bound(listen: HostPort, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {listen.port} of {listen.host} is in use by another process; stop it, or give "
            "--prometheus-listen another port"
        )
    if error.errno == errno.EACCES:
        return (
            f"port {listen.port} may not be used by this user; choose one above 1023 with --prometheus-listen"
        )
    return (
        f"cannot listen on {listen} for Prometheus: {error.strerror or error}; is the host of "
        "--prometheus-listen an address of this machine?"
    )
