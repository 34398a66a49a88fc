"""The broker with one of its rules taken out, for the schedules that need it.

Each rule is a context in which every broker of a simulation runs without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from hightide_broker.core.events import StopRequested
from hightide_broker.core.fetch_session import FollowerPosition
from hightide_broker.hosting import replica_lifecycle
from hightide_broker.hosting.control import ControlHandler
from hightide_broker.hosting.strays import HeldReplica
from hightide_broker.replication import fetchers, isr_store
from hightide_broker.replication.isr_store import IsrStore
from hightide_runtime.zookeeper.session import Operation


@contextmanager
def _instead(where: Any, name: str, weakened: Any) -> Iterator[None]:
    """Have another function in a module or a class for a while."""
    real = getattr(where, name)
    setattr(where, name, weakened)
    try:
        yield
    finally:
        setattr(where, name, real)


@contextmanager
def _checked_markers() -> Iterator[None]:
    """A leader's ISR write checks that the marker of its topic's id stands."""
    groups = isr_store._groups

    def without_markers(changes: Iterable[Any]) -> list[list[Operation]]:
        return [group[1:] for group in groups(changes)]

    async def nobody(self: IsrStore, doubtful: Any) -> set[Any]:
        return set()

    with (
        _marker_versions(),
        _instead(isr_store, "_groups", without_markers),
        _instead(IsrStore, "_gone", nobody),
    ):
        yield


@contextmanager
def _marker_versions() -> Iterator[None]:
    """It checks the marker's version, which grows when partitions are removed."""

    async def learn_nothing(self: IsrStore, replicas: Any) -> None: ...

    with _instead(IsrStore, "_learn_markers", learn_nothing):
        yield


@contextmanager
def _old_logs_put_aside() -> Iterator[None]:
    """A log of a removed partition is put aside when its number is used again (first leader epoch)."""

    def never(*_: Any) -> bool:
        return False

    with (
        _instead(replica_lifecycle, "_is_older", never),
        _instead(replica_lifecycle, "_is_of_a_removed_partition", never),
    ):
        yield


@contextmanager
def _careful_strays() -> Iterator[None]:
    """What ZooKeeper said about a stray holds only while nothing was decided about it since."""

    async def let_go(self: ControlHandler, held: HeldReplica) -> bool:
        replica = self._replicas.get(held.key)
        if replica is not None:
            decision = replica.state.decision
            self._lifecycle.feed(
                replica, StopRequested(decision.controller_epoch, decision.leader_epoch, delete=True)
            )
        await self._lifecycle.put_aside(held.key)
        return True

    with _instead(ControlHandler, "let_go", let_go):
        yield


@contextmanager
def _told_partition_epochs() -> Iterator[None]:
    """A follower tells with its positions which partition epoch it has heard of."""

    def untold(leader_epoch: int, fetch_offset: int, log_start_offset: int, _: int) -> FollowerPosition:
        return FollowerPosition(leader_epoch, fetch_offset, log_start_offset)

    with _instead(fetchers, "FollowerPosition", untold):
        yield


WITHOUT: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "checked_markers": _checked_markers,
    "marker_versions": _marker_versions,
    "old_logs_put_aside": _old_logs_put_aside,
    "careful_strays": _careful_strays,
    "told_partition_epochs": _told_partition_epochs,
}
"""Rule of the broker's shell → brokers without it."""
