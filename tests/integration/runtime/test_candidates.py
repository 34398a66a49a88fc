"""Who may be elected, as operators are told of it, over a real ZooKeeper."""

import asyncio

from hightide_runtime.znodes.cluster_znodes import CONTROLLER_CANDIDATES, CandidateZnode
from hightide_runtime.zookeeper.candidates import Candidate, read_candidates
from integration.coordinator.coordinator_rig import connected


def test_a_process_stands_once_in_each_session_also_where_an_operator_took_the_place_away(
    zookeeper_hosts: str,
) -> None:
    async def run() -> None:
        mine = CandidateZnode(2, "127.0.0.1", 9091)
        async with connected(zookeeper_hosts) as operator, connected(zookeeper_hosts) as session:
            await operator.delete(CONTROLLER_CANDIDATES)
            candidate = Candidate(session, CONTROLLER_CANDIDATES, mine)
            await candidate.stand()
            await candidate.stand()
            assert await read_candidates(operator, CONTROLLER_CANDIDATES) == (mine,)
            assert len(await operator.children(CONTROLLER_CANDIDATES)) == 1

    asyncio.run(run())
