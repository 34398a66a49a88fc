"""A TLS connection to ZooKeeper, in a form that kazoo's loop can wait for.

kazoo waits for its socket with select, and then reads a whole response. With TLS that is wrong in two ways.
A record may hold several responses: the later ones are decrypted already, so select does not report them,
and they wait until ZooKeeper sends something else. And select reports what is no response, such as a new
session ticket: kazoo would wait for the response, and send nothing meanwhile. So `TlsSocket` reads ahead.

kazoo's own TLS also trusts every authority that the machine trusts, and does not compare the host.
"""

import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

from hightide_runtime.errors import StartupError

__all__ = ["ConnectingHandler", "TlsSocket", "ZooKeeperTls", "tls_failure"]

_CHUNK_BYTES: Final = 65_536
_NOTHING_YET: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """The files, in PEM, for TLS with ZooKeeper. They are read for each connection, so they may be replaced
    while the process runs."""

    ca: Path
    """The authorities that may have signed the certificates of ZooKeeper servers; no others are trusted."""
    certificate: Path | None = None
    """What the process shows to servers that ask for a certificate."""
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """For one connection: TLS 1.2 or later, with the server's name compared. Raises OSError, of which
        ssl.SSLError is a kind."""
        context = ssl.create_default_context(cafile=self.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context

    def check(self) -> None:
        """Raise StartupError if the files cannot be used."""
        for path in (self.ca, self.certificate, self.key):
            try:
                if path is not None:
                    path.read_bytes()
            except OSError as error:
                raise StartupError(
                    f"{path}, for TLS with ZooKeeper, cannot be read: {error.strerror}"
                ) from error
        try:
            self.context()
        except OSError as error:
            files = ", ".join(str(path) for path in (self.ca, self.certificate, self.key) if path)
            raise StartupError(
                f"TLS with ZooKeeper cannot use {files}: {error.strerror or error}; give PEM files, and the "
                "key of this certificate"
            ) from error


class _UnreadableFile(ssl.SSLError):
    """A file was there when the process started, and cannot be read now."""


class TlsSocket:
    """A connected socket after its handshake, with what kazoo calls of a socket."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection
        self._ahead = bytearray()
        self._end: OSError | None = None
        self._is_over = False

    def fileno(self) -> int:
        """For select."""
        return self._connection.fileno()

    def setblocking(self, blocking: bool) -> None:
        """Called by kazoo with False, once."""
        self._connection.setblocking(blocking)

    def pending(self) -> int:
        """How much `recv` returns without waiting; positive also when it returns or raises the end."""
        return len(self._ahead) or int(self._is_over)

    def read_ahead(self) -> bool:
        """Decrypt what has arrived. Whether there is something to `recv`. Never waits."""
        while not self._is_over and len(self._ahead) < _CHUNK_BYTES:
            try:
                chunk = self._connection.recv(_CHUNK_BYTES)
            except _NOTHING_YET:
                break
            except OSError as error:
                self._end = error
                self._is_over = True
            else:
                self._ahead += chunk
                self._is_over = not chunk
        return self.pending() > 0

    def recv(self, count: int) -> bytes:
        """Bytes; none at the end. Raises OSError, and ssl.SSLWantReadError where nothing has arrived."""
        if not self._ahead and not self.read_ahead():
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "nothing has arrived")
        if not self._ahead and self._end is not None:
            raise self._end
        found = bytes(self._ahead[:count])
        del self._ahead[:count]
        return found

    def send(self, data: Any) -> int:
        """Send some of it; how much. Raises OSError, and ssl.SSLWantWriteError where it cannot now."""
        return self._connection.send(data)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class ConnectingHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Opens the connections of a kazoo client, each within `attempt_s`, and waits for them."""

    def __init__(self, attempt_s: float, tls: ZooKeeperTls | None) -> None:
        super().__init__()
        self._attempt_s = attempt_s
        self._tls = tls
        #: Why the last handshake failed; empty where none did.
        self.failure = ""

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        """Called by kazoo for each attempt."""
        timeout_s = min(options.get("timeout", self._attempt_s), self._attempt_s)
        if self._tls is None:
            return super().create_connection(*arguments, **{**options, "timeout": timeout_s})
        context = self._context(self._tls)
        plain = socket.create_connection(options["address"], timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return TlsSocket(context.wrap_socket(plain, server_hostname=options["hostname"]))
        except BaseException as error:
            plain.close()
            self.failure = tls_failure(error)
            raise

    @staticmethod
    def _context(tls: ZooKeeperTls) -> ssl.SSLContext:
        try:
            return tls.context()
        except ssl.SSLError:
            raise
        except OSError as error:
            raise _UnreadableFile(f"its files cannot be read: {error}") from error

    def select(
        self, reads: Sequence[Any], writes: Sequence[Any], errors: Sequence[Any], timeout: float | None = None
    ) -> Any:
        """Called by kazoo to wait; as select.select."""
        secure = [each for each in reads if isinstance(each, TlsSocket)]
        if not secure:
            return super().select(reads, writes, errors, timeout)
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while True:
            is_ahead = any(each.read_ahead() for each in secure)
            left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            found, writable, broken = super().select(reads, writes, errors, 0 if is_ahead else left_s)
            readable = [each for each in found if not isinstance(each, TlsSocket)]
            readable += [each for each in secure if each.read_ahead()]
            if readable or writable or broken or (not found and not is_ahead):
                return readable, writable, broken


def tls_failure(error: BaseException) -> str:
    """Why an attempt to connect by TLS failed, with the next step, if TLS is the reason; empty if not."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, ssl.SSLError):
        seen = seen.__cause__ or seen.__context__
    if seen is None:
        return ""
    if isinstance(seen, _UnreadableFile):
        return str(seen)
    if isinstance(seen, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not accepted: {seen.verify_message}; give the CA that signed it with "
            "--zookeeper-tls-ca, and its host as the certificate names it with --zookeeper"
        )
    reason = (seen.reason or str(seen)).replace("_", " ").lower()
    if "alert" in reason:
        return (
            f"it refuses the certificate of this process, or wants one ({reason}); give one that it trusts "
            "with --zookeeper-tls-certificate and --zookeeper-tls-key"
        )
    return f"there is no TLS with it ({reason}); give its port for TLS with --zookeeper"
