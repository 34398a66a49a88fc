"""kazoo's connection, made impatient and given an ear for watches on whole trees.

kazoo gives one attempt to connect the whole session timeout.
A ZooKeeper that is just starting can accept a connection and never answer on it. Waiting for it so long as
the session lives lets the session expire, though the next attempt would have found ZooKeeper ready.

kazoo knows watches that fire once and belong to one path. What a watch on a tree (AddTreeWatch) tells names a
path that nobody registered, so kazoo would drop it.
"""

from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect, Watch
from kazoo.retry import KazooRetry

_SHORTEST_S, _LONGEST_S = 0.5, 2.0


def impatient_client(
    hosts: str, session_timeout_ms: int, retry: KazooRetry, log: Any, on_watch: Callable[[str], None]
) -> Any:
    """A KazooClient that gives an attempt to connect a quarter of the session timeout, at most 2 s.

    `on_watch` is called on kazoo's connection thread with the path of everything that any watch tells.
    Raises ValueError where `hosts` makes no sense.
    """
    attempt_s = min(max(session_timeout_ms / 4000, _SHORTEST_S), _LONGEST_S)
    client = KazooClient(
        hosts,
        timeout=session_timeout_ms / 1000,
        handler=_ImpatientHandler(attempt_s),
        connection_retry=retry,
        logger=log,
    )
    client._connection = _Connection(client, attempt_s, client._conn_retry.copy(), log, on_watch)
    return client


class _ImpatientHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Limits how long a TCP connection may take."""

    def __init__(self, attempt_s: float) -> None:
        super().__init__()
        self._attempt_s = attempt_s

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        """Called by kazoo for each attempt."""
        options["timeout"] = min(options.get("timeout", self._attempt_s), self._attempt_s)
        return super().create_connection(*arguments, **options)


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """Limits how long the answer to the request for a session may take, and hears all watches."""

    def __init__(
        self, client: Any, attempt_s: float, retry: KazooRetry, log: Any, on_watch: Callable[[str], None]
    ) -> None:
        super().__init__(client, retry, logger=log)
        self._attempt_s = attempt_s
        self._on_watch = on_watch
        #: What ZooKeeper agreed to when the session was last taken up; 0 before that.
        self.granted_timeout_ms = 0

    def _read_watch_event(self, buffer: Any, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        self._on_watch(watch.path)
        super()._read_watch_event(buffer, offset)

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(min(timeout, self._attempt_s), request, xid)
        if isinstance(request, Connect):
            # kazoo keeps only two thirds of it, under no name.
            self.granted_timeout_ms = max(answer[0].time_out, 0)
        return answer
