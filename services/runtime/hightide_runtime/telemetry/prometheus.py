"""The endpoint at which Prometheus scrapes a process: `GET /metrics`, over plain HTTP, on threads of its own.

It serves few connections at once, each for a short time. A slow or silent client delays only itself, and no
scrape waits on the event loop.
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
"""How long one read from a connection may take, or one write to it."""
CONNECTION_S: Final = 15.0
"""How long a connection may last: who sends a byte now and then would keep its place for hours."""
PATH: Final = "/metrics"
_log = logging.getLogger(__name__)


class PrometheusEndpoint:
    """Listens from its construction until `close`."""

    def __init__(
        self, listen: HostPort, registry: CollectorRegistry, *, connection_s: float = CONNECTION_S
    ) -> None:
        """Raises StartupError."""
        self._registry = registry
        # The reader hands what it collects over by a queue: two scrapes at once would take each other's.
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
        """Listen no more. What is being answered is cut off with the process."""
        self._server.shutdown()
        self._server.server_close()

    def _scrape(self, accept: str) -> tuple[bytes, str]:
        """The metrics in the format that is asked for, and its content type."""
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
        """As in the base class of HTTPServer, which itself would ask DNS for a name that is not needed."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer it in a thread, if there is a place."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The thread."""
        end = threading.Timer(self.connection_s, _break_off, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that goes away is nothing to tell an operator of; all else is."""
        if isinstance(sys.exception(), OSError):
            _log.debug("a scrape was broken off", exc_info=True)
        else:
            _log.exception("a scrape failed")


def _break_off(connection: socket.socket) -> None:
    """Let whatever waits for it go on, and find its end."""
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
        """Log nothing: a line every few seconds would help no one."""


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _why_not_bound(listen: HostPort, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {listen.port} of {listen.host} is in use by another process; stop it, or say with "
            "--prometheus-listen where else the metrics are scraped"
        )
    if error.errno == errno.EACCES:
        return (
            f"port {listen.port} may not be used by this user; choose one above 1023 with --prometheus-listen"
        )
    return (
        f"cannot listen on {listen} for Prometheus: {error.strerror or error}; is the host of "
        "--prometheus-listen an address of this machine?"
    )
