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

from hightide_spark.core.cluster_options import Cluster

_CLUSTERS_MAX: Final = 4
_CLIENT_ID: Final = "spark"


class _Client(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Client)


class _ByCluster(Generic[T]):
    """The clients of one kind by cluster. If there are more than _CLUSTERS_MAX, the least recently
    used one is closed."""

    def __init__(self, make: Callable[[Cluster], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._clients: OrderedDict[Cluster, T] = OrderedDict()

    def get(self, cluster: Cluster) -> T:
        with self._lock:
            if cluster not in self._clients:
                self._clients[cluster] = self._make(cluster)
            self._clients.move_to_end(cluster)
            surplus = [
                self._clients.popitem(last=False)[1] for _ in range(len(self._clients) - _CLUSTERS_MAX)
            ]
            client = self._clients[cluster]
        for each in surplus:
            each.close()
        return client


def _admin(cluster: Cluster) -> Admin:
    return Admin(**cluster.arguments(), client_id=_CLIENT_ID)


def _range_reader(cluster: Cluster) -> RangeReader:
    return RangeReader(**cluster.arguments(), client_id=_CLIENT_ID)


_ADMINS: Final = _ByCluster(_admin)
_RANGE_READERS: Final = _ByCluster(_range_reader)


def admin_of(cluster: Cluster) -> Admin:
    """The admin client of this process for this cluster. Any thread may call it."""
    return _ADMINS.get(cluster)


def range_reader_of(cluster: Cluster) -> RangeReader:
    """The range reader of this process for this cluster. Any thread may call it."""
    return _RANGE_READERS.get(cluster)
