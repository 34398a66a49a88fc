"""The row of one large consumer group: all members join, one leaves, one is killed."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from typing import ClassVar, Final

from hightide_bench.loads.load_worker import LoadFailedError, LoadWorker
from hightide_bench.measuring.processor_time import process_seconds
from hightide_bench.peers.clusters.peer_cluster import PeerCluster
from hightide_bench.peers.rows.group_cover import GroupCover, MemberId
from hightide_bench.peers.rows.row import Entrant, Figure, Figures, Row, Stage

MEMBERS: Final = 200
PARTITIONS_READ: Final = 400
#: The last process has one member: it is the one that is killed.
_PROCESSES: Final = (MEMBERS // 2, MEMBERS // 2 - 1, 1)
_FIRST: Final[MemberId] = (0, 0)
_LAST: Final[MemberId] = (2, 0)
_STEADY_S: Final = 1.5
_LOOK_S: Final = 0.2
_STEP_S: Final = 90.0


class Groups(Row):
    """200 members of one group share 400 partitions. Each time is until every partition has one reader again,
    and every member a partition."""

    name: str = "groups"
    title: str = f"a group of {MEMBERS} members"
    figures: tuple[Figure, ...] = (
        Figure("join_ms", "all join ms", "lower"),
        Figure("leave_ms", "one leaves ms", "lower"),
        Figure("killed_ms", "one is killed ms", "lower"),
        Figure("join_cpu_s", "CPU s of all services, all join", "lower"),
    )
    warms_up: ClassVar[bool] = False

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        """Make the topic. Each measurement has a group of its own."""
        with stage.topic(self.name, PARTITIONS_READ) as topic:

            def measure(entrant: Entrant) -> Figures:
                group = f"{topic}-{time.monotonic_ns()}"
                with ExitStack() as stack:
                    workers = [
                        stack.enter_context(
                            stage.worker(entrant, "group_load", topic=topic, group=group, members=members)
                        )
                        for members in _PROCESSES
                    ]
                    for worker in workers:
                        worker.wait_until_ready()
                    figures = GroupRun(stage.clusters[entrant.system], workers).run()
                    for worker in workers:
                        worker.stop()
                return figures

            yield measure


class GroupRun:
    """One measurement of one system. `cover` is what the members have said."""

    def __init__(self, cluster: PeerCluster, workers: Sequence[LoadWorker]) -> None:
        self._cluster, self._workers = cluster, list(workers)
        self.cover = GroupCover(PARTITIONS_READ, MEMBERS)

    def run(self) -> Figures:
        """Let all join, one leave, and one be killed."""
        pids = self._cluster.all_pids()
        used_s = sum(map(process_seconds, pids))
        began_s = time.monotonic()
        self.order_all("join")
        joined_ms = self._whole_after_ms(began_s, set(), "all had joined")
        join_cpu_s = sum(map(process_seconds, pids)) - used_s
        began_s = time.monotonic()
        self._order(0, "leave")
        left_ms = self._whole_after_ms(began_s, {_FIRST}, "one had left")
        began_s = time.monotonic()
        os.kill(self._workers.pop().pid, signal.SIGKILL)
        killed_ms = self._whole_after_ms(began_s, {_FIRST, _LAST}, "one was killed")
        return {
            "join_ms": joined_ms,
            "leave_ms": left_ms,
            "killed_ms": killed_ms,
            "join_cpu_s": join_cpu_s,
        }

    def _whole_after_ms(self, began_s: float, gone: Set[MemberId], what: str) -> float:
        """Wait until the group is whole and has been for a while. Return when it became so."""
        while time.monotonic() - began_s < _STEP_S:
            time.sleep(_LOOK_S)
            self.order_all("tell")
            since_s = self.cover.whole_since_s(gone)
            if since_s is not None and since_s > began_s and time.monotonic() - since_s > _STEADY_S:
                return (since_s - began_s) * 1000
        raise LoadFailedError(f"not every partition had one reader within {_STEP_S:.0f} s after {what}")

    def order_all(self, what: str) -> None:
        """Give all processes an order."""
        for process in range(len(self._workers)):
            self._order(process, what)

    def _order(self, process: int, what: str) -> None:
        # Each answer has what happened since the one before, whatever the order was.
        self.cover.take(process, self._workers[process].ask(what)["events"])


ROWS: Final[tuple[Row, ...]] = (Groups(),)
