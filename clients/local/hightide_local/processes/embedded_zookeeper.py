"""Runs a real ZooKeeper as a child process, from its jars (`hightide_local.jars.zookeeper_jars`)."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hightide_local.errors import ClusterError
from hightide_local.jars.zookeeper_jars import zookeeper_class_path
from hightide_local.processes import class_archive
from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.java import SHORT_LIVED_JVM, find_java
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.ports import HOST, free_port

if TYPE_CHECKING:
    # It takes a while to import, and few clusters have TLS.
    from hightide_local.certificates import CertificateFiles

JVM_FLAGS = (*SHORT_LIVED_JVM, "-Xms64m", "-Xmx512m")
_POLL_S = 0.02
_STOP_S = 10.0
_CONFIGURATION = """\
dataDir={data}
clientPortAddress={host}
clientPort={port}
tickTime={tick_time_ms}
maxClientCnxns=0
maxSessionTimeout=120000
admin.enableServer=false
4lw.commands.whitelist=srvr,mntr
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""
# The server that speaks TLS serves both ports; it takes a fifth longer to start than the plain one.
_TLS_CONFIGURATION = """\
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location={key_store}
ssl.keyStore.type=PEM
ssl.trustStore.location={ca}
ssl.trustStore.type=PEM
ssl.clientAuth=need
"""
_TLS_PORT = """\
secureClientPortAddress={host}
secureClientPort={port}
"""
_TLS_AT_THE_SAME_PORT = """\
client.portUnification=true
authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
"""


@dataclass(frozen=True, slots=True)
class ZooKeeperServerTls:
    """TLS beside plaintext. Clients that use it need a certificate of the same CA."""

    files: CertificateFiles
    port: int | None = None
    """A port for TLS alone; None: the plaintext port takes both."""


def zookeeper_process(
    directory: Path,
    port: int,
    *,
    tick_time_ms: int = 500,
    log_path: Path | None = None,
    class_sharing: Sequence[str] | None = None,
    tls: ZooKeeperServerTls | None = None,
) -> ManagedProcess:
    """Write the configuration of a ZooKeeper and return its process, which is not started yet.

    The tick is short because a session timeout is at least two ticks. ZooKeeper does not fsync its log
    (forceSync=no), so a crash of the machine may lose the cluster's state, a crash of the process does not.
    `class_sharing` are the JVM's options for a class archive; None means those for the archive of this
    environment, if there is one. Raises ClusterError if there is no Java or no ZooKeeper.
    """
    data = directory / "data"
    data.mkdir(parents=True, exist_ok=True)
    configuration = directory / "zoo.cfg"
    content = _CONFIGURATION.format(data=data.resolve(), host=HOST, port=port, tick_time_ms=tick_time_ms)
    if tls is not None:
        key_store = _key_store(directory, tls.files)
        content += _TLS_CONFIGURATION.format(key_store=key_store, ca=tls.files.ca.resolve())
        content += _TLS_AT_THE_SAME_PORT if tls.port is None else _TLS_PORT.format(host=HOST, port=tls.port)
    configuration.write_text(content)
    java, class_path = find_java(), zookeeper_class_path()
    if class_sharing is None:
        class_sharing = class_archive.options(class_archive.archive_directory(), java, class_path)
    command = [
        str(java),
        *JVM_FLAGS,
        *class_sharing,
        "-Dzookeeper.forceSync=no",
        "-Dzookeeper.preAllocSize=4096",
        # The logger of Spark, else the one that is downloaded. A release brings its own configuration.
        "-Dorg.apache.logging.log4j.level=WARN",
        *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"),
        *("-cp", class_path),
        "org.apache.zookeeper.server.ZooKeeperServerMain",
        str(configuration),
    ]
    return ManagedProcess("zookeeper", command, os.environ, log_path or directory / "zookeeper.log")


def _key_store(directory: Path, files: CertificateFiles) -> Path:
    """The key and the certificate in one file, as ZooKeeper wants them."""
    path = directory.resolve() / "key_store.pem"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as store:
        store.write(files.key.read_bytes() + files.certificate.read_bytes())
    return path


def answers(port: int) -> bool:
    """Whether a ZooKeeper serves on the port, by its answer to the command `srvr`."""
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(b"srvr")
            reply = b""
            while chunk := connection.recv(4096):
                reply += chunk
    except OSError:
        return False
    return b"Mode:" in reply


def wait_until_answers(process: ManagedProcess, port: int, timeout_s: float) -> None:
    """Wait until ZooKeeper serves. Raises ClusterError with the end of its log if it ends, or takes too
    long."""
    deadline = time.monotonic() + timeout_s
    while not answers(port):
        if not process.is_running():
            raise ClusterError(
                f"zookeeper ended with exit code {process.exit_code} while it started; "
                f"the end of {process.log_path}:\n{process.log_tail()}"
            )
        if time.monotonic() > deadline:
            raise ClusterError(
                f"zookeeper does not answer on {HOST}:{port} after {timeout_s:g} s; "
                f"the end of {process.log_path}:\n{process.log_tail()}"
            )
        time.sleep(_POLL_S)


class EmbeddedZooKeeper:
    """One ZooKeeper server on 127.0.0.1. Use it as a with-block, or call `start` and `stop`."""

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        tick_time_ms: int = 500,
        class_sharing: Sequence[str] | None = None,
        certificate: CertificateFiles | None = None,
    ) -> None:
        """If `port` is None, a free one is chosen, which stays over restarts. With a certificate, another
        free port is for TLS. For the other arguments see `zookeeper_process`."""
        self._port = port or free_port()
        self._tls = None if certificate is None else ZooKeeperServerTls(certificate, free_port())
        self._process = zookeeper_process(
            directory, self._port, tick_time_ms=tick_time_ms, class_sharing=class_sharing, tls=self._tls
        )
        self._guard: ProcessGuard | None = None

    @property
    def address(self) -> str:
        """host:port."""
        return f"{HOST}:{self._port}"

    @property
    def tls_address(self) -> str:
        """host:port of the port for TLS."""
        assert self._tls is not None, "made without a certificate"
        return f"{HOST}:{self._tls.port}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Start it, and wait until it serves. Raises ClusterError with the end of its log if it does not."""
        if self._guard is None:
            self._guard = ProcessGuard()
        try:
            self._process.start(self._guard)
            wait_until_answers(self._process, self._port, timeout_s)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Send SIGTERM, and wait until it has ended; send SIGKILL if it does not end in time."""
        if not self._process.terminate(_STOP_S):
            self._process.kill()
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def kill(self) -> None:
        """Send SIGKILL, and wait until it has ended. `start` starts it again with its data, on the same
        port."""
        self._process.kill()

    def pause(self) -> None:
        """Send SIGSTOP: it keeps its connections and answers nothing."""
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT after `pause`."""
        self._process.send(signal.SIGCONT)

    def __enter__(self) -> Self:
        """Start it, and wait until it serves."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()
