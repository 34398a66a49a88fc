"""A controller stands still in the middle of its work, is replaced, and wakes up: it changes nothing more.

It stops itself at a point of its own code (crashing_controller.py), so that when it goes on the write, or
the StopReplica, that it was about to send is still to come. Its successor has carried the work on from
ZooKeeper by then, and the world has moved further: the replica, or the name, is in use again.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S, FaultDrill
from hightide_local.histories.waiting import wait_until
from hightide_runtime.znodes.cluster_znodes import ControllerZnode
from integration.controller.crashing_controller import CRASH_PLAN, plan_crash
from integration.controller.session_theft import end_session_of
from integration.controller.zookeeper_operator import ZooKeeperOperator

pytestmark = pytest.mark.cluster

PROGRAM = (sys.executable, str(Path(__file__).with_name("crashing_controller.py")))
MOVES = "/admin/partitions_reassigned"


class Bed:
    """A cluster whose controllers fall asleep where they are told to."""

    def __init__(self, operator: ZooKeeperOperator, plan: Path) -> None:
        self.operator, self.cluster, self._plan = operator, operator.cluster, plan
        self.woken: list[str] = []

    @contextlib.contextmanager
    def controller_sleeps(self, point: str) -> Iterator[None]:
        """Inside of it something is asked for, which the active controller begins, up to this point.
        Afterwards the other one is active, and the sleeper sleeps on until `wake`."""
        self.cluster.active_controller(HEALED_S)
        plan_crash(self._plan, f"{point} SIGSTOP")
        try:
            yield
            # Not as soon as the plan is gone: one that is stopped in between stops itself when it goes on.
            (sleeper,) = wait_until(f"a controller falls asleep {point}", self._asleep, HEALED_S)
        finally:
            self._plan.unlink(missing_ok=True)
        self.cluster.pause(sleeper)
        end_session_of(self.cluster.zookeeper, ControllerZnode.path())
        assert self.cluster.active_controller(HEALED_S) != sleeper
        self.woken = [sleeper]

    def _asleep(self) -> list[str]:
        return [
            name
            for name, pid in self.cluster.running().items()
            if name.startswith("controller-") and psutil.Process(pid).status() == psutil.STATUS_STOPPED
        ]

    def wake(self) -> None:
        """Let the sleeper go on, and wait until it knows that another one is active."""
        (sleeper,) = self.woken
        active = self.cluster.active_controller(HEALED_S)
        line = f"controller {active.rpartition('-')[2]} at "
        before = self.operator.log_lines(line)[sleeper]
        self.cluster.resume(sleeper)
        wait_until("it stands by", lambda: self.operator.log_lines(line)[sleeper] > before, HEALED_S)
        assert self.cluster.active_controller(HEALED_S) == active

    def tree(self, path: str) -> dict[str, tuple[bytes, int]]:
        """All znodes from here on, with their versions."""
        content, stat = self.operator.zookeeper.get(path)
        found = {path: (content, stat.version)}
        for child in self.operator.zookeeper.get_children(path):
            found |= self.tree(f"{path}/{child}")
        return found


@pytest.fixture(scope="module")
def shared_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    directory = tmp_path_factory.mktemp("bed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CRASH_PLAN, str(directory / "plan"))
        with LocalCluster(
            directory / "cluster",
            brokers=4,
            # A sleeper's session is ended; nobody else loses one for being slow.
            session_timeout_ms=30_000,
            controller_program=PROGRAM,
        ) as cluster:
            operator = ZooKeeperOperator(cluster)
            yield Bed(operator, directory / "plan")
            operator.close()


@pytest.fixture
def bed(shared_bed: Bed) -> Iterator[Bed]:
    """The cluster, whole again after a test that failed halfway."""
    yield shared_bed
    shared_bed.operator.make_whole()


def named(text: str, point: str) -> str:
    return f"{text}-{point.lower().replace(' ', '-')}"


def move(bed: Bed, drill: FaultDrill, replicas: bytes) -> None:
    for partition in drill.partitions:
        bed.operator.put(f"{MOVES}/{drill.topic}/{partition.partition}", replicas)


def wait_until_moved(bed: Bed, drill: FaultDrill, replicas: tuple[int, ...]) -> None:
    wait_until("AR is RAR", lambda: all(p.replicas == replicas for p in drill.describe()), HEALED_S)
    bed.operator.wait_until_nothing_is_asked_for()
    drill.wait_for_isr(3)


@pytest.mark.parametrize(
    "point",
    [
        "before StoreWrites 1",
        "before StoreWrites 2",
        "before SendStopReplica 1",
    ],
)
def test_one_that_wakes_up_after_a_move_stops_no_replica_that_has_come_back(bed: Bed, point: str) -> None:
    """The move from broker 1 to 4 is over, and so is the one back: broker 1 holds a replica again."""
    with FaultDrill(bed.cluster, named("moved", point)) as drill:
        with bed.controller_sleeps(point):
            move(bed, drill, b"[4,2,3]")
        wait_until_moved(bed, drill, (4, 2, 3))
        move(bed, drill, b"[1,2,3]")
        wait_until_moved(bed, drill, (1, 2, 3))
        topic_id = bed.operator.topic_id(drill.topic)
        wait_until(
            "4 deletes its replica", lambda: sorted(bed.operator.holders(topic_id)) == [1, 2, 3], HEALED_S
        )
        before = bed.tree("/brokers/topics"), bed.tree("/admin")
        bed.wake()
        drill.wait_for_progress()
        assert (bed.tree("/brokers/topics"), bed.tree("/admin")) == before
        assert sorted(bed.operator.holders(topic_id)) == [1, 2, 3]


def test_one_that_wakes_up_in_the_middle_of_a_move_leaves_it_to_its_successor(bed: Bed) -> None:
    with FaultDrill(bed.cluster, "moving") as drill:
        bed.cluster.pause("broker-4")
        with bed.controller_sleeps("before StoreCommitted 1"):
            move(bed, drill, b"[4,2,3]")
        # As far as broker 4 was alive: to one whose session has ended nothing begins to move.
        wait_until("it has begun", lambda: any(4 in p.replicas for p in drill.describe()), HEALED_S)
        before = bed.tree("/admin")
        bed.wake()
        drill.wait_for_progress()
        assert bed.tree("/admin") == before
        bed.cluster.resume("broker-4")
        wait_until_moved(bed, drill, (4, 2, 3))
        drill.wait_for_progress()


@pytest.mark.parametrize(
    "point",
    [
        "before StoreWrites 2",
        "before SendStopReplica 1",
        "before SendUpdateMetadata 1",
    ],
)
def test_one_that_wakes_up_after_a_deletion_spares_the_next_topic_of_the_name(bed: Bed, point: str) -> None:
    name = named("namesake", point)
    bed.operator.admin.create_topic(name, assignment=[[1, 2, 3], [2, 3, 4]])
    bed.operator.produce(name, 10, 2)
    old = bed.operator.topic_id(name)
    with bed.controller_sleeps(point):
        bed.operator.put(f"/admin/delete_topics/{name}")
    wait_until("it is gone", lambda: not bed.operator.exists(name), HEALED_S)
    bed.operator.wait_until_nothing_is_asked_for()
    bed.operator.put(f"/brokers/topics/{name}", b'{"0": [1, 2, 3], "1": [2, 3, 4]}')
    bed.operator.wait_until_led(name, 2)
    assert bed.operator.ends(name, 2) == [0, 0]
    bed.operator.produce(name, 7, 2)
    before = bed.tree("/brokers"), bed.tree("/admin")
    bed.wake()
    bed.operator.produce(name, 1, 2)
    assert bed.operator.ends(name, 2) == [8, 8]
    assert (bed.tree("/brokers"), bed.tree("/admin")) == before
    wait_until("no broker keeps the old data", lambda: bed.operator.holders(old) == {}, HEALED_S)
    assert sorted(bed.operator.holders(bed.operator.topic_id(name))) == [1, 2, 3, 4]
