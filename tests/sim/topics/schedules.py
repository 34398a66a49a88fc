"""Written schedules about topics, moves and namesakes: for each mend, the story that needs it.

Each is a function of a cluster that has started, with a topic of one partition on brokers 1, 2, 3, led by 1,
and one record in it. The same orders are given with the mend on (all is well) and off (an invariant breaks).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from hightide_runtime.znodes.cluster_znodes import TopicZnode
from sim.messages import ZOOKEEPER, Envelope
from sim.topics.broker import LAG_TIME_MAX_MS
from sim.topics.messages import Answered, Asked, Key
from sim.topics.world import CONTROLLERS, Cluster

TOPIC: Final = "tide"
FIRST_ID: Final = "a1" * 16
SECOND_ID: Final = "b2" * 16
FLUSHED_AFTER_MS: Final = 60_000
LOSES_WHAT_IS_UNSYNCED: Final = 2
"""The seed of such a power cut."""
Schedule = Callable[[Cluster], None]


def begin(world: Cluster) -> None:
    """What every schedule begins with."""
    world.start()
    create(world, FIRST_ID, ((1, 2, 3),))
    assert world.produce_to(TOPIC) is not None
    world.settle()
    state = world.state(TOPIC, 0)
    assert state is not None
    assert (state.leader, state.isr) == (1, (1, 2, 3))


def create(world: Cluster, topic_id: str, assignment: tuple[tuple[int, ...], ...]) -> None:
    """A client creates the topic."""
    world.ask(ev.CreateTopicRequested(0, TOPIC, topic_id, 0, 0, assignment), ef.AnswerCreateTopic)
    world.settle()
    assert world.topic(TOPIC).topic_id.hex() == topic_id


def delete(world: Cluster) -> None:
    """A client deletes the topic."""
    world.ask(rq.DeleteTopicRequested(0, TOPIC), ef.AnswerTopic)
    world.settle()
    assert TOPIC not in world.topics()


def move(world: Cluster, *target: int) -> None:
    """A client moves the partition."""
    moves = (rq.Move(TopicPartition(TOPIC, 0), target),)
    world.ask(rq.ReassignmentsRequested(0, moves), ef.AnswerPartitions)


def heal(world: Cluster) -> None:
    """Faults end; all must be well after a while."""
    world.settle()
    world.heal()
    world.converge()
    world.checkers.check_healed()
    world.fail_over()
    world.checkers.check_healed()
    for partition in range(len(world.topic(TOPIC).partitions)):
        assert world.produce_to(TOPIC, partition) is not None
    world.converge(2)
    world.checkers.check_healed()


def writes_of(world: Cluster, node_id: int) -> list[Envelope]:
    """The multis of a process that are under way."""
    return [e for e in world.pending if e.source == node_id and _asks(e, "multi")]


def _asks(envelope: Envelope, what: str) -> bool:
    return isinstance(envelope.body, Asked) and envelope.body.what == what


def a_leader_shrinks_its_isr_while_its_topic_is_deleted_and_created_anew(world: Cluster) -> None:
    """KIP-516: both leaderAndISR znodes begin with version 0, so that the version alone stops nobody."""
    world.hold(1, 3)
    key = (bytes.fromhex(FIRST_ID), 0)
    assert world.produce(1, key) is not None
    world.settle()
    for controller_id in CONTROLLERS:
        world.cut(controller_id, 1)  # It is not told that its topic is gone.
    world.advance(LAG_TIME_MAX_MS + 1)
    world.settle_until(lambda: bool(writes_of(world, 1)))
    world.hold(1, ZOOKEEPER)
    delete(world)
    create(world, SECOND_ID, ((2, 3, 1),))
    world.release(1, ZOOKEEPER)
    world.settle()
    heal(world)


def a_partition_is_removed_and_added_again_before_a_broker_hears_of_it(world: Cluster) -> None:
    """V3 H: the number is the same, and so is the topic id; the broker's log is another partition's."""
    grow(world, ((1, 2, 3),))
    assert world.produce_to(TOPIC, 1) is not None
    world.settle()
    for controller_id in CONTROLLERS:
        world.cut(controller_id, 3)
    world.ask(rq.RemovePartitionsRequested(0, TOPIC, 1), ef.AnswerTopic)
    world.settle()
    grow(world, ((3, 1, 2),))
    for envelope in [e for e in world.pending if e.source in CONTROLLERS and e.target == 3]:
        world.lose(envelope)  # StopReplica: what is decided now takes its place.
    for controller_id in CONTROLLERS:
        world.mend_link(controller_id, 3)
    world.converge(2)
    assert world.produce_to(TOPIC, 1) is not None
    heal(world)


def a_leader_shrinks_its_isr_while_its_partition_is_removed_and_added_again(world: Cluster) -> None:
    """The topic is the same, so its marker stands; the new leaderAndISR begins with version 0 again."""
    grow(world, ((1, 2, 3),))
    key = (bytes.fromhex(FIRST_ID), 1)
    assert world.produce(1, key) is not None
    world.settle()
    world.hold(1, 3)
    assert world.produce(1, key) is not None
    world.settle()
    for controller_id in CONTROLLERS:
        world.cut(controller_id, 1)
    world.advance(LAG_TIME_MAX_MS + 1)
    world.settle_until(lambda: bool(writes_of(world, 1)))
    world.hold(1, ZOOKEEPER)
    world.ask(rq.RemovePartitionsRequested(0, TOPIC, 1), ef.AnswerTopic)
    world.settle()
    grow(world, ((2, 3, 1),))
    world.release(1, ZOOKEEPER)
    world.settle()
    heal(world)


def grow(world: Cluster, assignment: tuple[tuple[int, ...], ...]) -> None:
    """A client adds partitions."""
    count = len(world.topic(TOPIC).partitions) + len(assignment)
    world.ask(rq.AddPartitionsRequested(0, TOPIC, count, assignment), ef.AnswerTopic)
    world.settle()
    assert len(world.topic(TOPIC).partitions) == count


def a_move_is_taken_back_while_the_leader_writes_its_isr(world: Cluster) -> None:
    """The leader finds the controller's version, knows nothing of AR, and lets in whom nobody assigned."""
    world.hold(1, 4)  # 4 is slow to catch up.
    move(world, 1, 2, 4)
    world.settle()
    world.release(1, 4)
    world.settle_until(lambda: bool(writes_of(world, 1)))  # 4 has everything, and the leader asks for it.
    world.hold(1, ZOOKEEPER)
    for controller_id in CONTROLLERS:
        world.hold(controller_id, 1)
    world.ask(rq.CancelReassignmentsRequested(0), ef.AnswerPartitions)
    world.settle()
    assert world.topic(TOPIC).partitions == ((1, 2, 3),)
    world.release(1, ZOOKEEPER)
    world.settle()
    heal(world)


def a_replica_is_moved_back_before_it_hears_that_it_left(world: Cluster) -> None:
    """It goes on fetching, the leader takes it in, and then comes the StopReplica that was under way."""
    for controller_id in CONTROLLERS:
        world.hold(controller_id, 3)
    move(world, 1, 2)
    world.settle()
    assert world.topic(TOPIC).partitions == ((1, 2),)
    move(world, 1, 2, 3)
    world.converge(3)
    for controller_id in CONTROLLERS:
        world.release(controller_id, 3)
    world.settle()
    heal(world)


def what_zookeeper_said_of_a_stray_arrives_after_it_was_assigned_again(world: Cluster) -> None:
    """The broker asked while it was not in AR; by the time it hears the answer it is, and in sync."""
    for controller_id in CONTROLLERS:
        world.cut(controller_id, 3)  # It does not hear that it shall stop.
    move(world, 1, 2)
    world.settle()
    assert world.topic(TOPIC).partitions == ((1, 2),)
    key: Key = (bytes.fromhex(FIRST_ID), 0)
    world.hosts[3].strays.suspect([key])
    world.touched(3)
    world.advance(LAG_TIME_MAX_MS + 1)
    world.settle_until(lambda: bool(answers_about_the_topic(world, 3)))
    (answer,) = answers_about_the_topic(world, 3)
    world.delay(answer, give_up=False)
    move(world, 1, 2, 3)
    for controller_id in CONTROLLERS:
        world.mend_link(controller_id, 3)
    world.converge(4)
    state = world.state(TOPIC, 0)
    assert state is not None
    assert 3 in state.isr
    world.let_arrive(answer)
    world.settle()
    heal(world)


def answers_about_the_topic(world: Cluster, node_id: int) -> list[Envelope]:
    """What ZooKeeper answers to a broker that reads the topic znode."""
    path = TopicZnode.path(TOPIC)
    found = []
    for envelope in world.pending:
        body: Any = envelope.body
        if envelope.target == node_id and isinstance(body, Answered) and isinstance(body.value, dict):
            found += [envelope] if path in body.value else []
    return found


def a_leader_counts_on_a_member_that_left_after_a_power_cut(world: Cluster) -> None:
    """KIP-966: it has not heard that the other one is in the ISR no more. That one has all again, but whoever
    elects knows it by what it had when it left: with the leader's power the record is gone, though another
    machine has it."""
    world.ask(rq.AlterTopicConfigRequested(0, TOPIC, {"min.insync.replicas": "2"}), ef.AnswerTopic)
    world.advance(FLUSHED_AFTER_MS)  # The first record is on every disk.
    world.settle()
    world.crash(3)
    world.expire(3)
    world.settle()
    for controller_id in CONTROLLERS:
        world.cut(controller_id, 1)
    world.lose_power(2, LOSES_WHAT_IS_UNSYNCED)
    world.hold(2, 1)
    world.restart(2)
    world.settle()
    state = world.state(TOPIC, 0)
    assert state is not None
    assert (state.leader, state.isr, [log.log_end_offset for log in state.recovered]) == (1, (1,), [1])
    key: Key = (bytes.fromhex(FIRST_ID), 0)
    assert world.produce(1, key) is not None
    world.release(2, 1)
    world.settle_until(lambda: len(world.hosts[2].logs.log(key).log) == 2)
    world.settle()
    world.lose_power(1, LOSES_WHAT_IS_UNSYNCED)
    assert len(world.hosts[1].logs.log(key).log) == 1
    world.expire(1)
    world.restart(1)
    heal(world)


HOST_MENDS: Final[dict[str, tuple[Schedule, str]]] = {
    "checked_markers": (a_leader_shrinks_its_isr_while_its_topic_is_deleted_and_created_anew, "Znodes"),
    "marker_versions": (a_leader_shrinks_its_isr_while_its_partition_is_removed_and_added_again, "Znodes"),
    "old_logs_put_aside": (
        a_partition_is_removed_and_added_again_before_a_broker_hears_of_it,
        "ForeignRecord",
    ),
    "careful_strays": (
        what_zookeeper_said_of_a_stray_arrives_after_it_was_assigned_again,
        "AssignedReplica",
    ),
    "told_partition_epochs": (a_leader_counts_on_a_member_that_left_after_a_power_cut, "Acknowledged"),
}
"""Rule of the broker's shell → the schedule that needs it, and the checker that says so."""

DEPARTURES: Final = (
    (a_move_is_taken_back_while_the_leader_writes_its_isr, "HighWatermark"),
    (a_replica_is_moved_back_before_it_hears_that_it_left, "AssignedReplica"),
)
"""The schedules that need `departures_end_epochs` of the controller core."""
