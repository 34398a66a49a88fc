"""kazoo's connection, with four changes: short attempts to connect, watches on whole trees, a check of the
cluster, and credentials before everything else.

kazoo gives one attempt to connect the whole session timeout. A ZooKeeper that is just starting can accept a
connection and never answer on it. Waiting for it as long as the session lives lets the session expire,
although the next attempt would have found ZooKeeper ready.

kazoo knows watches that fire once and belong to one path. An event of a watch on a tree (AddTreeWatch) names
a path that no caller registered, so kazoo would drop it.

kazoo lets requests into a new session as soon as there is one. So kazoo's own thread checks whether the
session is with the cluster of this process (`cluster_identity`). On any other thread, a request could come
before the check. For the same reason that thread shows the credentials, on each new connection: kazoo
itself reports the session before it has shown them.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, NoAuthError, NoNodeError
from kazoo.protocol.connection import AUTH_XID, ConnectionHandler
from kazoo.protocol.serialization import Connect, GetData, Watch
from kazoo.retry import KazooRetry

from hightide_runtime.zookeeper.cluster_identity import ClusterMembership
from hightide_runtime.zookeeper.errors import InconsistentClusterId
from hightide_runtime.zookeeper.protocol import Authenticate
from hightide_runtime.zookeeper.security import ZooKeeperSecurity
from hightide_runtime.zookeeper.tls_socket import ConnectingHandler, tls_failure

_log = logging.getLogger(__name__)

_SHORTEST_S, _LONGEST_S = 0.5, 2.0
_TURNED_AWAY_LOG_S = 2.0
_GIVE_CREDENTIALS = "start it with the credentials of the cluster (--zookeeper-credentials-file)"
_STARTING_OR_BEHIND = (
    "it is starting, or it is behind what this process has seen (transaction {zxid:#x}), since it is another "
    "one, was wiped, or was restored from a backup; in the last case start this process again"
)


def impatient_client(
    hosts: str,
    session_timeout_ms: int,
    security: ZooKeeperSecurity,
    retry: KazooRetry,
    log: Any,
    on_watch: Callable[[str], None],
    on_other_cluster: Callable[[InconsistentClusterId], None],
) -> Any:
    """A KazooClient that gives an attempt to connect a quarter of the session timeout, at most 2 s.

    On kazoo's connection thread, `on_watch` is called with the path of every event of any watch, and
    `on_other_cluster` once, when there will be no session any more: see `_Connection.membership`. Raises
    ValueError if `hosts` is invalid.
    """
    attempt_s = min(max(session_timeout_ms / 4000, _SHORTEST_S), _LONGEST_S)
    client = KazooClient(
        hosts,
        timeout=session_timeout_ms / 1000,
        handler=ConnectingHandler(attempt_s, security.tls),
        connection_retry=retry,
        logger=log,
    )
    client._connection = _Connection(
        client, attempt_s, security, client._conn_retry.copy(), log, on_watch, on_other_cluster
    )
    return client


class _OtherCluster(AuthFailedError):  # type: ignore[misc]
    """After this kind of error, and no other, kazoo gives up for good."""


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """Limits how long the answer to the request for a session may take, gets the events of all watches, and
    has no session with another cluster than that of `membership`."""

    def __init__(
        self,
        client: Any,
        attempt_s: float,
        security: ZooKeeperSecurity,
        retry: KazooRetry,
        log: Any,
        on_watch: Callable[[str], None],
        on_other_cluster: Callable[[InconsistentClusterId], None],
    ) -> None:
        super().__init__(client, retry, logger=log)
        self._attempt_s = attempt_s
        self._security = security
        self._on_watch = on_watch
        self._on_other_cluster = on_other_cluster
        self._address = ""
        self._turned_away_since_s: float | None = None
        #: Why the last attempt to connect failed, where a setting may be the reason; empty after one that
        #: did not.
        self.failure = ""
        #: The timeout that ZooKeeper granted when the session was last taken up; 0 before that.
        self.granted_timeout_ms = 0
        #: Every new session is compared with it; None while the process belongs to no cluster yet.
        self.membership: ClusterMembership | None = None
        #: The last session that was known to be with that cluster. It can be taken up again only there.
        self.member_session_id = 0

    def _read_watch_event(self, buffer: Any, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        self._on_watch(watch.path)
        super()._read_watch_event(buffer, offset)

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        self._address = f"{host}:{port}"
        try:
            found = super()._connect(host, hostip, port)
        except Exception as error:
            if failure := tls_failure(error):
                self.failure = f"{self._address}: {failure}"
                self._note_turned_away(failure)
            raise
        self.failure = ""
        self._turned_away_since_s = None
        return found

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        timeout = min(timeout, self._attempt_s)
        if not isinstance(request, Connect):
            return super()._invoke(timeout, request, xid)
        try:
            answer = super()._invoke(timeout, request, xid)
        except ConnectionDropped as error:
            if not tls_failure(error):
                self.failure = f"{self._address} closes the connection" + (
                    "" if self._security.tls else ": if its port is for TLS, give --zookeeper-tls-ca"
                )
                self._note_turned_away(_STARTING_OR_BEHIND.format(zxid=self.client.last_zxid))
            raise
        granted, _ = answer
        # kazoo keeps only two thirds of it, under no name.
        self.granted_timeout_ms = max(granted.time_out, 0)
        if granted.time_out > 0:
            self._authenticate()
            self._check_session(granted.session_id)
        return answer

    def _authenticate(self) -> None:
        """Show the credentials, before the session is reported and anything is asked. Wrong ones are no error
        of ZooKeeper: it only refuses what they may not do."""
        for credential in self._security.credentials:
            self._submit(Authenticate(credential.text), self._attempt_s, AUTH_XID)
            header, _, _ = self._read_header(self._attempt_s)
            if header.xid != AUTH_XID or header.err:
                self.failure = f"{self._address} does not take credentials of the scheme digest"
                raise ConnectionDropped(f"{self.failure}: error {header.err}, xid {header.xid}")

    def _check_session(self, session_id: int) -> None:
        """Check the cluster before kazoo reports the session. A server that makes one has applied everything
        that the ensemble had committed before, so an id that is missing here is missing everywhere."""
        membership = self.membership
        if membership is None or session_id == self.member_session_id:
            return
        try:
            membership.check(self._content_of(membership.path), self._address)
        except InconsistentClusterId as error:
            self._on_other_cluster(error)
            raise _OtherCluster from error
        self.member_session_id = session_id

    def _content_of(self, path: str) -> bytes | None:
        request = GetData(path, None)
        self._xid += 1
        self._submit(request, self._attempt_s, self._xid)
        header, buffer, offset = self._read_header(self._attempt_s)
        if header.err == NoNodeError.code:
            return None
        if header.err == NoAuthError.code:
            self.failure = f"{self._address} does not let this process read {path}; {_GIVE_CREDENTIALS}"
            self._note_turned_away(self.failure)
        if header.err or header.xid != self._xid:
            raise ConnectionDropped(f"{path} cannot be read: error {header.err}, xid {header.xid}")
        content: bytes | None = request.deserialize(buffer, offset)[0]
        return content or b""

    def _note_turned_away(self, reason: str) -> None:
        """Report a server that gives no session, and keep asking. A server that starts closes the connection
        for a moment; one that is behind this process does so until it has caught up."""
        now_s = time.monotonic()
        if self._turned_away_since_s is None:
            self._turned_away_since_s = now_s
        elif now_s - self._turned_away_since_s > _TURNED_AWAY_LOG_S:
            self._turned_away_since_s = now_s
            _log.warning("ZooKeeper at %s gives no session: %s", self._address, reason)
