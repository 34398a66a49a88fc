"""Written schedules: for each mend of V2's text, the story that needs it.

Each is a function of a world that has started: broker 1 leads in epoch 1, AR and ISR are 1, 2, 3. The very
same orders are given with the mend on (all is well) and off (an invariant breaks).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hightide_leaders.core import events as ev
from hightide_leaders.core.effects import CloseReplica, Effects, Outcome, Write
from hightide_leaders.core.machine import step
from hightide_leaders.core.state import LeadersState
from hightide_leaders.core.values import ChangeKind, Settings, StateChange
from hightide_leaders.core.writes import Enqueue
from sim.checkers.healed import Healed
from sim.leaders.broker import KEEP_IN_SYNC_TIME_MS, PREFERRED_REPLICA_TIME_MS
from sim.leaders.checkers import LedHealed
from sim.leaders.messages import Inquiry
from sim.leaders.world import LeadersWorld, heal
from sim.leaders.zookeeper import NAME
from sim.messages import ZOOKEEPER, Envelope
from sim.world import LAG_TIME_MAX_MS

Schedule = Callable[[LeadersWorld], None]


def writes_of(world: LeadersWorld, broker_id: int) -> list[Envelope]:
    """The writes of a broker that are under way to ZooKeeper."""
    return [
        e for e in world.pending if e.source == broker_id and isinstance(e.body, Inquiry) and e.body.writes
    ]


def an_election_arrives_after_the_next_one(world: LeadersWorld) -> None:
    """2 has decided to lead in epoch 2, and its write is slow. 3 leads in epoch 2 meanwhile, commits, and
    is gone."""
    world.crash(1)
    world.expire(1)
    world.settle_until(lambda: bool(writes_of(world, 2)))
    world.hold(2, ZOOKEEPER)
    world.settle()
    world.advance(PREFERRED_REPLICA_TIME_MS)
    world.settle()
    assert world.leader == 3
    world.cut(2, 3)
    world.advance(LAG_TIME_MAX_MS + 1)
    world.settle()
    world.produce(3)
    world.settle()  # 3 is alone in sync, and has acknowledged it.
    world.crash(3)
    world.expire(3)
    world.settle()
    world.release(2, ZOOKEEPER)
    world.mend_link(2, 3)
    world.settle()
    heal(world)


def a_leader_of_before_changes_the_isr(world: LeadersWorld) -> None:
    """Its session has ended, and another one leads; but it has not heard of it, and throws its followers
    out."""
    world.hold(ZOOKEEPER, 1)
    world.cut(1, 2)
    world.cut(1, 3)
    world.produce(1)
    world.expire(1)
    world.settle()
    world.advance(PREFERRED_REPLICA_TIME_MS)
    world.settle()
    assert world.leader == 2
    world.produce(2)
    world.settle()
    world.advance(LAG_TIME_MAX_MS + 1)
    world.settle()
    heal(world)


def the_last_in_sync_loses_its_end_and_comes_back_first(world: LeadersWorld) -> None:
    """It is in the ISR by its old word, and elects itself without what was acknowledged."""
    world.produce(1)
    world.settle()
    world.crash(3)
    world.crash(2, lost_records=1)
    world.crash(1)
    world.expire(1)
    world.expire(2)
    world.expire(3)
    world.restart(2)
    world.settle()
    world.advance(PREFERRED_REPLICA_TIME_MS)
    world.settle()
    heal(world)


def a_leader_is_restarted_before_its_session_ends(world: LeadersWorld) -> None:
    """It finds itself as the leader, and nobody leads until ZooKeeper ends the session of its earlier
    life."""
    world.crash(1)
    world.restart(1)
    world.settle()
    world.advance(PREFERRED_REPLICA_TIME_MS)
    world.settle()
    value = world.produce(world.leader)
    world.settle()
    if value is None:
        LedHealed(world).violated("the leader znode names a broker that does not lead")
    heal(world)


def two_processes_with_one_id_drain_its_queue(world: LeadersWorld) -> None:
    """The process that was to be stopped reads the queue of 3; the one that replaced it, on another disk,
    is to obey."""
    earlier = world.broker(3).incarnation
    world.crash(3)
    world.expire(3)
    world.restart(3)
    world.settle()
    world.hold(ZOOKEEPER, 3)  # The newer process is slow to hear of its queue.
    zookeeper = world.zookeeper
    close = StateChange(ChangeKind.CLOSE_REPLICA, NAME, "f" * 32, 1)
    assert zookeeper.write((Enqueue(3, close),), 0, 1) is None
    other = LeadersState(Settings(3))
    session = world.open_session()
    step(other, ev.Started(earlier, session), 0)
    closed = drain(world, other, session)
    assert closed == (CloseReplica(NAME, "f" * 32),), "it obeys as well, on a disk where that is"
    if not zookeeper.queue(3):
        LedHealed(world).violated(
            "an earlier life of 3 has emptied its queue; the newer one hears of nothing"
        )
    world.release(ZOOKEEPER, 3)
    heal(world)


def drain(world: LeadersWorld, state: LeadersState, session: int) -> Effects:
    """What a process does with the queue of its broker id; what it closed."""
    (read,) = step(state, ev.QueueRead(world.zookeeper.queue(3)), 0)
    found = {NAME: world.zookeeper.partition(NAME)}
    effects = step(state, ev.PartitionsRead(read.read_id, found, world.zookeeper.lives()), 0)  # type: ignore[union-attr]
    for effect in effects:
        if isinstance(effect, Write):
            world.zookeeper.write(effect.operations, session, 3)
    return tuple(effect for effect in effects if isinstance(effect, CloseReplica))


def the_preferred_replica_comes_back_to_a_quiet_partition(world: LeadersWorld) -> None:
    """It is in sync again, and nobody writes: nothing is committed by which its turn would come."""
    world.crash(1)
    world.expire(1)
    world.settle()
    world.advance(PREFERRED_REPLICA_TIME_MS)
    world.settle()
    assert world.leader == 2
    world.restart(1)
    world.converge()
    LedHealed(world).check()
    heal(world)


def a_topic_is_created_again_while_a_replica_of_the_earlier_one_is_down(world: LeadersWorld) -> None:
    """3 finds close-replica of the earlier topic in its queue when it has a replica of the later one."""
    world.hold(ZOOKEEPER, 3)
    world.delete_topic(1)
    world.advance(KEEP_IN_SYNC_TIME_MS)
    world.settle()
    assert world.zookeeper.topic_znode(NAME.topic) is None
    world.forget_topic()
    late = [e for e in world.pending if e.target == 3 and e.source == ZOOKEEPER]
    assert late, "3 has heard of nothing so far"
    (close,) = world.zookeeper.queue(3)
    world.release(ZOOKEEPER, 3)
    world.settle()
    assert world.create_topic(1, (1, 2, 3)) is Outcome.DONE
    world.converge(4)
    world.produce(world.leader)
    world.converge(2)
    assert close.change is not None
    # Its removal from the queue was refused, so that it is there again.
    assert world.zookeeper.write((Enqueue(3, close.change),), 0, 3) is None
    world.settle()
    heal(world)


def a_topic_is_deleted_while_a_broker_is_dead(world: LeadersWorld) -> None:
    """It may never come back. If it does, it finds in its queue what it missed."""
    world.crash(3)
    world.expire(3)
    world.settle()
    outcome = world.delete_topic(1)
    if outcome is not Outcome.DONE:
        Healed(world).violated(f"nobody is told that the topic is deleted: {outcome}")
    world.forget_topic()
    world.restart(3)
    world.settle()
    assert world.broker(3).topic_id == ""
    assert not world.zookeeper.queue(3)
    assert world.create_topic(2, (3, 1, 2)) is Outcome.DONE
    heal(world)


MENDS: Final[dict[str, tuple[Schedule, str]]] = {
    "elections_fenced": (an_election_arrives_after_the_next_one, "Acknowledged"),
    "isr_changes_fenced": (a_leader_of_before_changes_the_isr, "Acknowledged"),
    "departures": (the_last_in_sync_loses_its_end_and_comes_back_first, "Acknowledged"),
    "void_leaders": (a_leader_is_restarted_before_its_session_ends, "LedHealed"),
    "one_life_drains": (two_processes_with_one_id_drain_its_queue, "LedHealed"),
    "quiet_partitions_looked_after": (the_preferred_replica_comes_back_to_a_quiet_partition, "LedHealed"),
    "closes_checked": (a_topic_is_created_again_while_a_replica_of_the_earlier_one_is_down, "Acknowledged"),
    "deletion_awaits_the_living": (a_topic_is_deleted_while_a_broker_is_dead, "Healed"),
}
"""Rule → the schedule that needs it, and the checker that says so."""
