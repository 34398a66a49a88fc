"""The list of processes that may be elected: each controller and each coordinator, active or standby.

An election needs no such list, because every process that wants to be elected tries. Operators need it, to
look after a standby before it is needed. Coordinators spread their shards by it, and would spread them
unevenly if it were wrong.
"""

from __future__ import annotations

import logging
from typing import Final

from hightide_runtime.znodes.cluster_znodes import CandidateZnode
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.zookeeper.session import NodeExists, ZooKeeperSession

__all__ = ["CANDIDATES_MAX", "Candidate", "read_candidates"]

_log = logging.getLogger(__name__)

CANDIDATES_MAX: Final = 1_000
"""How many of each kind are listed: more than any cluster has."""


class Candidate:
    """This process in the list. One for each controller and coordinator process."""

    def __init__(self, session: ZooKeeperSession, parent: str, znode: CandidateZnode) -> None:
        """`parent`: `znodes.CONTROLLER_CANDIDATES` or `znodes.COORDINATOR_CANDIDATES`."""
        self._session = session
        self._parent = parent
        self._znode = znode

    async def stand(self) -> None:
        """Add this process to the list, for as long as its session lasts. Called at the start and each time
        the session is connected again; repeating it is no error. Raises ConnectionLost, SessionExpired."""
        path = CandidateZnode.path(self._parent, self._znode.id, self._session.session_id)
        # Created with the cluster, but an operator may have deleted it since.
        await self._session.ensure_path(self._parent)
        try:
            await self._session.create(path, self._znode.encode(), ephemeral=True)
        except NodeExists:
            return


async def read_candidates(session: ZooKeeperSession, parent: str) -> tuple[CandidateZnode, ...]:
    """All processes of one kind, by id. Of several at one address the last one counts, because a process that
    died leaves its znode for a while. Raises ConnectionLost, SessionExpired."""
    names = (await session.multi_children([parent])).get(parent, [])
    found = await session.multi_read(f"{parent}/{name}" for name in names[:CANDIDATES_MAX])
    by_address: dict[tuple[str, int], CandidateZnode] = {}
    for path, znode in sorted(found.items(), key=lambda each: each[1].czxid):
        try:
            candidate = CandidateZnode.decode(znode.data)
        except ZnodeGarbage as error:
            _log.warning("%s is left out: %s", path, error.reason)
            continue
        by_address[candidate.host, candidate.port] = candidate
    return tuple(sorted(by_address.values(), key=lambda each: (each.id, each.host, each.port)))
