"""What the processes of a group's members answer to orders."""

from typing import Any, cast

from hightide_bench.loads.load_worker import LoadWorker
from hightide_bench.peers.clusters.peer_cluster import PeerCluster
from hightide_bench.peers.rows.groups import MEMBERS, PARTITIONS_READ, GroupRun

SHARE = PARTITIONS_READ // MEMBERS


class QuickMembers:
    """A process whose members all have their partitions before it answers the order to join."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers

    def ask(self, order: str) -> dict[str, Any]:
        shares = enumerate(self._numbers) if order == "join" else ()
        return {
            "events": [
                (1.0, number, [member * SHARE + each for each in range(SHARE)]) for number, member in shares
            ]
        }


def test_members_that_have_partitions_before_the_last_one_has_started_count() -> None:
    """They were waited for until they got other partitions, if they ever did, or for 90 s."""
    half = MEMBERS // 2
    workers = [QuickMembers(range(half)), QuickMembers(range(half, MEMBERS))]
    run = GroupRun(cast(PeerCluster, None), cast(list[LoadWorker], workers))
    run.order_all("join")
    run.order_all("tell")
    assert run.cover.whole_since_s(set()) == 1.0
