"""The connections of this process: one admin client and one range reader for each cluster.

Spark makes data sources on the driver, pickles them, and reads in forked workers that also serve later
batches. So a connection belongs to the process and is opened when it is first needed. No reader or writer has
one as an attribute, since a connection cannot be pickled.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from hightide import Admin
from hightide.range_reader import RangeReader

_CLUSTERS_MAX: Final = 4
_CLIENT_ID: Final = "spark"


class _Client(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Client)


class _ByCluster(Generic[T]):
    """The clients of one kind by bootstrap address. If there are more than _CLUSTERS_MAX, the least recently
    used one is closed."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._clients: OrderedDict[str, T] = OrderedDict()

    def get(self, bootstrap: str) -> T:
        with self._lock:
            if bootstrap not in self._clients:
                self._clients[bootstrap] = self._make(bootstrap)
            self._clients.move_to_end(bootstrap)
            surplus = [
                self._clients.popitem(last=False)[1] for _ in range(len(self._clients) - _CLUSTERS_MAX)
            ]
            client = self._clients[bootstrap]
        for each in surplus:
            each.close()
        return client


def _admin(bootstrap: str) -> Admin:
    return Admin(bootstrap, client_id=_CLIENT_ID)


def _range_reader(bootstrap: str) -> RangeReader:
    return RangeReader(bootstrap, client_id=_CLIENT_ID)


_ADMINS: Final = _ByCluster(_admin)
_RANGE_READERS: Final = _ByCluster(_range_reader)


def admin_of(bootstrap: str) -> Admin:
    """The admin client of this process for the cluster at `bootstrap`. Any thread may call it."""
    return _ADMINS.get(bootstrap)


def range_reader_of(bootstrap: str) -> RangeReader:
    """The range reader of this process for the cluster at `bootstrap`. Any thread may call it."""
    return _RANGE_READERS.get(bootstrap)
