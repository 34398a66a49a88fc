"""kazoo's connection, made impatient: it gives one attempt to connect the whole session timeout.

A ZooKeeper that is just starting can accept a connection and never answer on it. Waiting for it so long as
the session lives lets the session expire, though the next attempt would have found ZooKeeper ready.
"""

from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.retry import KazooRetry

_SHORTEST_S, _LONGEST_S = 0.5, 2.0


def impatient_client(hosts: str, session_timeout_ms: int, retry: KazooRetry, log: Any) -> Any:
    """A KazooClient that gives an attempt to connect a quarter of the session timeout, at most 2 s.

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
    client._connection = _ImpatientConnection(client, attempt_s, client._conn_retry.copy(), logger=log)
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


class _ImpatientConnection(ConnectionHandler):  # type: ignore[misc]
    """Limits how long the answer to the request for a session may take."""

    def __init__(self, client: Any, attempt_s: float, retry: KazooRetry, *, logger: Any) -> None:
        super().__init__(client, retry, logger=logger)
        self._attempt_s = attempt_s

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        return super()._invoke(min(timeout, self._attempt_s), request, xid)
