"""V3's letters A, B, D, F and H on real processes, the active controller killed at every point on the way.

What it had begun must be carried on by the other controller, from what is in ZooKeeper alone: the same test
holds for a controller that dies before it wrote anything down, between the write and the RPCs, and after
them. Each test runs under load (see `FaultDrill`): nothing acknowledged is lost, no client sees an error,
replicas end byte-identical.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide import Producer
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S, FaultDrill
from hightide_local.histories.waiting import wait_until
from integration.controller.crashing_controller import CRASH_PLAN, plan_crash
from integration.controller.zookeeper_operator import ZooKeeperOperator

pytestmark = pytest.mark.cluster

PROGRAM = (sys.executable, str(Path(__file__).with_name("crashing_controller.py")))


class Stage(ZooKeeperOperator):
    """A cluster of four brokers and two controllers that die where they are told to."""

    def __init__(self, cluster: LocalCluster, plan: Path) -> None:
        super().__init__(cluster)
        self._plan = plan

    @contextlib.contextmanager
    def controller_dies(self, point: str) -> Iterator[None]:
        """Whatever happens inside, the active controller dies at this point of it, and comes back later."""
        self.cluster.active_controller(HEALED_S)
        plan_crash(self._plan, point)
        try:
            yield
            wait_until(f"a controller dies {point}", lambda: not self._plan.exists(), HEALED_S)
        finally:
            self._plan.unlink(missing_ok=True)
        wait_until("it is gone", lambda: self.dead_controllers(), HEALED_S)
        for name in self.dead_controllers():
            self.cluster.restart(name, wait=False)
        self.cluster.active_controller(HEALED_S)

    def dead_controllers(self) -> list[str]:
        running = self.cluster.running()
        return [name for name in self.cluster.names if name.startswith("controller") and name not in running]


@pytest.fixture(scope="module")
def shared_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("letters")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CRASH_PLAN, str(directory / "crash-plan"))
        with LocalCluster(
            directory / "cluster",
            brokers=4,
            # Deaths are noticed before that, and no session ends because somebody was slow.
            session_timeout_ms=30_000,
            controller_program=PROGRAM,
        ) as cluster:
            stage = Stage(cluster, directory / "crash-plan")
            yield stage
            stage.close()


@pytest.fixture
def stage(shared_stage: Stage) -> Iterator[Stage]:
    """The cluster, whole again after a test that failed halfway."""
    yield shared_stage
    shared_stage.make_whole()


def named(text: str, point: str) -> str:
    return f"{text}-{point.lower().replace(' ', '-')}"


@pytest.mark.parametrize(
    "point",
    ["before StoreLeaderAndIsr 1", "before StoreCommitted 1", "before SendLeaderAndIsr 1"],
)
def test_a_broker_dies_and_then_the_controller(stage: Stage, point: str) -> None:
    """Letter A, and D for what it leaves half done."""
    with FaultDrill(stage.cluster, named("a", point)) as drill:
        leader = drill.leader()
        with stage.controller_dies(point):
            drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        drill.wait_for_progress()
        drill.restart(leader)
        drill.wait_for_isr(3)


@pytest.mark.parametrize(
    "point",
    ["before StoreTopic 1", "before TopicStored 1", "before StoreCommitted 1", "after SendLeaderAndIsr 1"],
)
def test_b_a_topic_is_created_though_the_controller_dies(stage: Stage, point: str) -> None:
    name = named("b-create", point)
    with stage.controller_dies(point):
        stage.admin.create_topic(
            name, partitions=6, replication_factor=3, configs={"retention.ms": "3600000"}
        )
    (topic,) = stage.admin.describe_topics([name])
    assert len(topic.partitions) == 6
    wait_until(
        "all partitions are led and in sync",
        lambda: all(
            p.leader is not None and len(p.isr) == 3
            for p in stage.admin.describe_topics([name])[0].partitions
        ),
        HEALED_S,
    )


@pytest.mark.parametrize(
    "point",
    [
        "before StoreWrites 1",
        "before StoreCommitted 1",
        "before StoreWrites 2",
        "before StoreCommitted 2",
        "before SendStopReplica 1",
        "after SendStopReplica 1",
    ],
)
def test_b_a_topic_is_deleted_and_its_name_given_away_though_the_controller_dies(
    stage: Stage, point: str
) -> None:
    name = named("b-delete", point)
    stage.admin.create_topic(name, partitions=4, replication_factor=3)
    old = stage.admin.describe_topics([name])[0].topic_id
    with Producer(stage.cluster.bootstrap) as producer:
        for number in range(400):
            producer.send(name, b"of the old topic %d" % number, partition=number % 4)
    assert stage.holders(old)
    with stage.controller_dies(point):
        stage.admin.delete_topic(name)
    stage.admin.create_topic(name, partitions=4, replication_factor=3)
    with Producer(stage.cluster.bootstrap) as producer:
        producer.send(name, b"of the new topic", partition=0).result(30)
    assert stage.ends(name, 4) == [1, 0, 0, 0]
    wait_until("no broker keeps the old data", lambda: stage.holders(old) == {}, HEALED_S)
    stage.wait_until_nothing_is_asked_for()


MOVE_POINTS = [
    "before StoreWrites 1",
    "before StoreCommitted 1",
    "before SendLeaderAndIsr 1",
    "after SendLeaderAndIsr 1",
    "before StatesRead 1",
    "before StoreWrites 2",
    "before StoreCommitted 2",
    "before SendStopReplica 1",
    "after SendStopReplica 1",
]


@pytest.mark.parametrize("point", MOVE_POINTS)
def test_f_partitions_move_though_the_controller_dies(stage: Stage, point: str) -> None:
    with FaultDrill(stage.cluster, named("f", point)) as drill:
        moves = {each: [4, 2, 3] for each in drill.partitions}
        with stage.controller_dies(point):
            stage.admin.reassign_partitions(moves)
            stage.wait_until_nothing_is_asked_for()
        wait_until("AR is RAR", lambda: all(p.replicas == (4, 2, 3) for p in drill.describe()), HEALED_S)
        drill.wait_for_isr(3)
        drill.wait_for_progress()
        topic_id = stage.admin.describe_topics([drill.topic])[0].topic_id
        wait_until("broker 1 deletes its replica", lambda: 1 not in stage.holders(topic_id), HEALED_S)


@pytest.mark.parametrize(
    "point", ["before StoreWrites 1", "before StoreCommitted 1", "before SendStopReplica 1"]
)
def test_f_moves_are_taken_back_though_the_controller_dies(stage: Stage, point: str) -> None:
    with FaultDrill(stage.cluster, named("f-cancel", point)) as drill:
        stage.cluster.pause("broker-4")
        stage.admin.reassign_partitions({each: [4, 2, 3] for each in drill.partitions})
        assert len(stage.admin.list_reassignments().reassignments) == 3
        with stage.controller_dies(point):
            stage.admin.cancel_reassignments(drill.partitions)
        stage.cluster.resume("broker-4")
        wait_until(
            "AR is what it was",
            lambda: all(sorted(p.replicas) == [1, 2, 3] for p in drill.describe()),
            HEALED_S,
        )
        stage.wait_until_nothing_is_asked_for()
        drill.wait_for_isr(3)
        topic_id = stage.admin.describe_topics([drill.topic])[0].topic_id
        wait_until("broker 4 deletes its replica", lambda: 4 not in stage.holders(topic_id), HEALED_S)


def test_f_a_dead_old_replica_does_not_block_a_move(stage: Stage) -> None:
    with FaultDrill(stage.cluster, "f-dead-original") as drill:
        drill.kill(1)
        drill.wait_for_other_leaders(1)
        stage.admin.reassign_partitions({each: [4, 2, 3] for each in drill.partitions})
        stage.wait_until_nothing_is_asked_for()
        drill.wait_for_isr(3)
        drill.restart(1)
        topic_id = stage.admin.describe_topics([drill.topic])[0].topic_id
        wait_until("broker 1 finds out when it starts", lambda: 1 not in stage.holders(topic_id), HEALED_S)


@pytest.mark.parametrize(
    "point", ["before StoreWrites 1", "before StoreCommitted 1", "before StoreCommitted 2"]
)
def test_h_a_topic_grows_though_the_controller_dies(stage: Stage, point: str) -> None:
    name = named("h-grow", point)
    stage.admin.create_topic(name, partitions=2, replication_factor=3)
    with stage.controller_dies(point):
        stage.admin.add_partitions(name, 5)
    assert [p.partition for p in stage.partitions(name)] == [0, 1, 2, 3, 4]
    wait_until("all are led", lambda: all(p.leader is not None for p in stage.partitions(name)), HEALED_S)
    assert stage.ends(name, 5) == [0] * 5
    with Producer(stage.cluster.bootstrap) as producer:
        for number in range(5):
            producer.send(name, b"for all of them", partition=number)


@pytest.mark.parametrize(
    "point", ["before StoreWrites 1", "before StoreCommitted 1", "before SendStopReplica 1"]
)
def test_h_a_topic_shrinks_and_grows_again_without_its_old_records(stage: Stage, point: str) -> None:
    name = named("h-shrink", point)
    stage.admin.create_topic(name, partitions=3, replication_factor=3)
    topic_id = stage.admin.describe_topics([name])[0].topic_id
    with Producer(stage.cluster.bootstrap) as producer:
        for number in range(300):
            producer.send(name, b"%d" % number, partition=number % 3)
    with stage.controller_dies(point):
        stage.admin.remove_partitions(name, 1)
    wait_until(
        "the brokers delete their replicas",
        lambda: {p for held in stage.holders(topic_id).values() for p in held} == {0},
        HEALED_S,
    )
    stage.admin.add_partitions(name, 3)
    assert stage.ends(name, 3) == [100, 0, 0]
