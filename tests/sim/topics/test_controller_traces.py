"""What the controllers' spans say of whole stories, as text: names, attributes, parents, and times.

`pytest tests/sim/topics/test_controller_traces.py --rewrite` writes them anew. Look at the diff afterwards,
and keep it only if you understand it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hightide.v1 import controller_service_pb2 as pb
from hightide_controller.core import effects as ef
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from hightide_local.traces.span_files import read_spans
from hightide_runtime.telemetry.span_kinds import DELETION_STOP, DELETION_ZNODES, TOPIC_DELETION
from hightide_runtime.znodes.admin_znodes import DeleteTopicZnode, ReassignmentZnode
from hightide_runtime.znodes.cluster_znodes import LeaderAndIsrZnode
from sim.messages import ZOOKEEPER
from sim.topics.messages import Rpc
from sim.topics.schedules import TOPIC, begin, grow, writes_of
from sim.topics.traced import ACTIVE, STANDBY, TracedCluster, traced, written

Story = Callable[[TracedCluster], None]
TESTDATA: Final = Path(__file__).parent / "testdata" / "traces"
CALLER: Final = f"00-{'c' * 32}-{'d' * 16}-01"
OTHER: Final = "flow"


def dies(world: TracedCluster, broker_id: int) -> None:
    """A broker's process is killed, and the failure detector says so; its session lives on."""
    epoch = world.hosts[broker_id].broker_epoch
    world.crash(broker_id)
    world.advance(3)
    world.detect_death(broker_id, epoch)


def a_broker_is_killed(world: TracedCluster) -> None:
    dies(world, 1)


def a_session_of_a_broker_ends(world: TracedCluster) -> None:
    world.crash(1)
    world.advance(20)
    world.expire(1)


def a_broker_that_only_follows_is_killed(world: TracedCluster) -> None:
    dies(world, 4)


def a_broker_is_killed_whose_isr_the_controller_does_not_know(world: TracedCluster) -> None:
    path = LeaderAndIsrZnode.path(TOPIC, 0)
    found = world.tree.read(path)
    assert found is not None
    world.by_hand(path, found.data)  # Its version is another one now.
    dies(world, 1)


def two_brokers_are_killed_at_once(world: TracedCluster) -> None:
    dies(world, 1)
    world.settle_until(lambda: bool(writes_of(world, ACTIVE)))
    dies(world, 2)


def two_brokers_are_killed_one_after_the_other(world: TracedCluster) -> None:
    dies(world, 1)
    world.settle()
    dies(world, 2)


def a_broker_dies_while_it_is_told(world: TracedCluster) -> None:
    dies(world, 1)
    world.settle_until(lambda: any(isinstance(e.body, Rpc) and e.target == 3 for e in world.pending))
    world.crash(3)
    world.expire(3)


def a_broker_is_told_to_stop(world: TracedCluster) -> None:
    world.stop(1)


def a_controller_dies(world: TracedCluster) -> None:
    world.crash(ACTIVE)
    world.advance(20)
    world.expire(ACTIVE)


def a_controller_dies_in_the_midst_of_a_failover(world: TracedCluster) -> None:
    dies(world, 1)
    world.settle_until(lambda: bool(writes_of(world, ACTIVE)))
    world.deliver(writes_of(world, ACTIVE)[0])
    world.expire(1)
    a_controller_dies(world)


def a_controller_dies_before_it_acts_on_the_loss_of_a_broker(world: TracedCluster) -> None:
    world.crash(1)
    world.expire(1)
    a_controller_dies(world)


def a_controller_steps_down_in_the_midst_of_a_failover(world: TracedCluster) -> None:
    dies(world, 1)
    world.settle_until(lambda: bool(writes_of(world, ACTIVE)))
    world.resign()


def a_controller_is_replaced_and_zookeeper_refuses_its_failover(world: TracedCluster) -> None:
    dies(world, 1)
    world.settle_until(lambda: bool(writes_of(world, ACTIVE)))
    for node_id in (ZOOKEEPER, 2, 3, 4):
        world.hold(ACTIVE, node_id)
    world.controllers[STANDBY].peer_died()
    world.settle()
    world.release(ACTIVE, ZOOKEEPER)


def a_topic_is_created(world: TracedCluster) -> None:
    request = pb.CreateTopicRequest(topic=OTHER, partition_count=12, replication_factor=3)
    world.call_active("CreateTopic", request, CALLER)


def a_topic_is_created_that_there_is(world: TracedCluster) -> None:
    request = pb.CreateTopicRequest(topic=TOPIC, partition_count=1, replication_factor=1)
    world.call_active("CreateTopic", request, CALLER)


def a_topic_is_created_by_a_controller_that_dies(world: TracedCluster) -> None:
    a_topic_is_created(world)
    world.settle_until(lambda: bool(writes_of(world, ACTIVE)))
    world.deliver(writes_of(world, ACTIVE)[0])
    a_controller_dies(world)


def a_topic_is_deleted(world: TracedCluster) -> None:
    world.call_active("DeleteTopic", pb.DeleteTopicRequest(topic=TOPIC), CALLER)


def a_topic_is_deleted_by_hand(world: TracedCluster) -> None:
    world.by_hand(DeleteTopicZnode.path(TOPIC))


def a_topic_is_deleted_by_a_controller_that_dies(world: TracedCluster) -> None:
    a_topic_is_deleted(world)
    world.settle_until(lambda: bool(writes_of(world, ACTIVE)))
    world.deliver(writes_of(world, ACTIVE)[0])
    a_controller_dies(world)


def asked_to_move(*targets: tuple[int, ...]) -> pb.ReassignPartitionsRequest:
    return pb.ReassignPartitionsRequest(
        moves=[
            pb.PartitionMove(partition=pb.PartitionName(topic=TOPIC, partition=number), replicas=target)
            for number, target in enumerate(targets)
        ]
    )


def partitions_are_moved(world: TracedCluster) -> None:
    world.call_active("ReassignPartitions", asked_to_move((4, 2), (3, 4, 1)), CALLER)


def a_partition_is_moved_by_hand(world: TracedCluster) -> None:
    world.by_hand(ReassignmentZnode.path(TOPIC, 0), b'{"replicas":[4,3]}')


def a_move_is_taken_back(world: TracedCluster) -> None:
    world.hold(1, 4)
    partitions_are_moved(world)
    world.settle()
    world.ask(rq.CancelReassignmentsRequested(0), ef.AnswerPartitions)


def a_move_is_taken_back_by_hand(world: TracedCluster) -> None:
    world.hold(1, 4)
    partitions_are_moved(world)
    world.settle()
    world.take_away(ReassignmentZnode.path(TOPIC, 0))


def a_move_is_aimed_elsewhere(world: TracedCluster) -> None:
    world.hold(1, 4)
    partitions_are_moved(world)
    world.settle()
    world.call_active("ReassignPartitions", asked_to_move((3, 2)), CALLER)


def a_controller_dies_while_a_partition_moves(world: TracedCluster) -> None:
    world.hold(1, 4)
    partitions_are_moved(world)
    world.settle()
    a_controller_dies(world)
    world.settle()
    world.release(1, 4)


def preferred_leaders_are_elected(world: TracedCluster) -> None:
    dies(world, 2)
    world.expire(2)
    world.settle()
    world.restart(2)
    world.converge(2)
    partitions = (TopicPartition(TOPIC, 1),)
    world.ask(rq.ElectLeadersRequested(0, rq.ElectionKind.PREFERRED, partitions), ef.AnswerElections)


STORIES: Final[tuple[Story, ...]] = (
    a_broker_is_killed,
    a_session_of_a_broker_ends,
    a_broker_that_only_follows_is_killed,
    a_broker_is_killed_whose_isr_the_controller_does_not_know,
    two_brokers_are_killed_at_once,
    two_brokers_are_killed_one_after_the_other,
    a_broker_dies_while_it_is_told,
    a_broker_is_told_to_stop,
    a_controller_dies,
    a_controller_dies_in_the_midst_of_a_failover,
    a_controller_dies_before_it_acts_on_the_loss_of_a_broker,
    a_controller_steps_down_in_the_midst_of_a_failover,
    a_controller_is_replaced_and_zookeeper_refuses_its_failover,
    a_topic_is_created,
    a_topic_is_created_that_there_is,
    a_topic_is_created_by_a_controller_that_dies,
    a_topic_is_deleted,
    a_topic_is_deleted_by_hand,
    a_topic_is_deleted_by_a_controller_that_dies,
    partitions_are_moved,
    a_partition_is_moved_by_hand,
    a_move_is_taken_back,
    a_move_is_taken_back_by_hand,
    a_move_is_aimed_elsewhere,
    a_controller_dies_while_a_partition_moves,
    preferred_leaders_are_elected,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_spans_of_a_story(story: Story, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    with traced(tmp_path) as world:
        begin(world)
        grow(world, ((2, 3, 4), (1, 2, 4)))
        began_ms = world.now_ms
        story(world)
        world.settle()
        world.converge(2)
        now = written(world, began_ms)
    path = TESTDATA / f"{story.__name__}.txt"
    if pytestconfig.getoption("--rewrite", default=False):
        path.write_text(now)
        return
    assert now == path.read_text()


def test_a_deletion_that_another_controller_carries_on_is_traced_until_the_replicas_have_stopped(
    tmp_path: Path,
) -> None:
    """It reads the topic before it goes on, and the trace was over by then."""
    with traced(tmp_path) as world:
        begin(world)
        a_topic_is_deleted_by_a_controller_that_dies(world)
        world.settle()
        carried_on = {span.name for span in read_spans(tmp_path) if span.instance == str(STANDBY)}
    assert {TOPIC_DELETION, DELETION_ZNODES, DELETION_STOP} <= carried_on
