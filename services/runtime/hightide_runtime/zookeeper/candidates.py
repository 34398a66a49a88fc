"""Which processes may be elected: each controller and each coordinator, whether active or standing by.

An election needs no such list, since whoever wants to be elected tries. Operators do: a standby that nobody
can name is one that nobody can look after before it is needed. Nothing is decided by what stands here.
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
"""How many of each kind are told of: more than anybody runs."""


class Candidate:
    """This process among the candidates. One for each controller and coordinator process."""

    def __init__(self, session: ZooKeeperSession, parent: str, znode: CandidateZnode) -> None:
        """`parent`: `znodes.CONTROLLER_CANDIDATES` or `znodes.COORDINATOR_CANDIDATES`."""
        self._session = session
        self._parent = parent
        self._znode = znode

    async def stand(self) -> None:
        """Be there, for as long as the session is. Called at the start and each time the session is connected
        again; done already is no error. Raises ConnectionLost, SessionExpired."""
        path = CandidateZnode.path(self._parent, self._znode.id, self._session.session_id)
        # Made with the cluster, but a hand may have taken it away since.
        await self._session.ensure_path(self._parent)
        try:
            await self._session.create(path, self._znode.encode(), ephemeral=True)
        except NodeExists:
            return


async def read_candidates(session: ZooKeeperSession, parent: str) -> tuple[CandidateZnode, ...]:
    """All of one kind, by id. Of several at one address the last to come is told, since a process that died
    leaves its znode behind for a while. Raises ConnectionLost, SessionExpired."""
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
