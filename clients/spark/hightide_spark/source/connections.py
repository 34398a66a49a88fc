"""The connections of this process: one admin client for each cluster, and one range
reader for each cluster and size of fetches.

Spark makes data sources on the driver, pickles them, and reads in forked workers that also serve later
batches. So a connection belongs to the process and is opened when it is first needed. Clients are imported
then, too: the process in which the driver makes a reader often ends without one. No reader or writer has one
as an attribute, since a connection cannot be pickled.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from hightide_spark.core.cluster_options import Cluster
from hightide_spark.core.source_options import FETCH_BYTES
from hightide_spark.loaded_modules import freeze_modules

if TYPE_CHECKING:
    from hightide import Admin, RangeReader

_CLUSTERS_MAX: Final = 4


class _Client(Protocol):
    def close(self) -> None: ...


K = TypeVar("K")
T = TypeVar("T", bound=_Client)


class _Kept(Generic[K, T]):
    """The clients of one kind by what they were made for. If there are more than _CLUSTERS_MAX, the least
    recently used one is closed."""

    def __init__(self, make: Callable[[K], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._clients: OrderedDict[K, T] = OrderedDict()

    def get(self, key: K) -> T:
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._make(key)
            self._clients.move_to_end(key)
            surplus = [
                self._clients.popitem(last=False)[1] for _ in range(len(self._clients) - _CLUSTERS_MAX)
            ]
            client = self._clients[key]
        for each in surplus:
            each.close()
        return client


def _admin(cluster: Cluster) -> "Admin":
    from hightide import Admin

    freeze_modules()
    return Admin(**cluster.arguments())


def _range_reader(wanted: tuple[Cluster, int]) -> "RangeReader":
    from hightide import RangeReader

    freeze_modules()
    cluster, fetch_max_bytes = wanted
    return RangeReader(**cluster.arguments(), fetch_max_bytes=fetch_max_bytes)


_ADMINS: Final = _Kept(_admin)
_RANGE_READERS: Final = _Kept(_range_reader)


def admin_of(cluster: Cluster) -> "Admin":
    """The admin client of this process for this cluster. Any thread may call it."""
    return _ADMINS.get(cluster)


def range_reader_of(cluster: Cluster, fetch_max_bytes: int = FETCH_BYTES) -> "RangeReader":
    """The range reader of this process for this cluster, whose fetches have this size. Any thread may call
    it."""
    return _RANGE_READERS.get((cluster, fetch_max_bytes))
