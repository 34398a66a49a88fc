"""The registrations of brokers: who is alive, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hightide_runtime.znodes.cluster_znodes import BROKER_IDS, BrokerZnode
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.zookeeper.session import ZooKeeperSession

__all__ = ["Registration", "read_registrations"]


@dataclass(frozen=True, slots=True)
class Registration:
    """One registration. `czxid` tells it from earlier and later ones of the same broker."""

    broker_id: int
    czxid: int
    znode: BrokerZnode


async def read_registrations(
    session: ZooKeeperSession,
    complain: Callable[[str, str], None],
    settled: Callable[[str], None],
    *,
    watch: bool,
) -> list[Registration]:
    """All registrations that can be decoded. Called by controllers and coordinators when brokers come or go.
    `complain` gets the path and the fault of each other one, and `settled` the path of each that is well.
    With `watch`, an event follows when one comes or goes. Raises ConnectionLost, SessionExpired."""
    ids: dict[str, int] = {}
    for name in await session.children(BROKER_IDS, watch=watch):
        try:
            broker_id = BrokerZnode.broker_id_of(name)
        except ZnodeGarbage as error:
            complain(f"{BROKER_IDS}/{name[:260]}", error.reason)
            continue
        ids[BrokerZnode.path(broker_id)] = broker_id
    registrations = []
    for path, found in (await session.multi_read(ids)).items():
        try:
            znode = BrokerZnode.decode(found.data)
        except ZnodeGarbage as error:
            complain(path, error.reason)
            continue
        settled(path)
        registrations.append(Registration(ids[path], found.czxid, znode))
    return registrations
