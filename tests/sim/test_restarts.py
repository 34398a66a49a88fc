"""A broker that was restarted leads in no epoch of an earlier life: what random schedules found out."""

from __future__ import annotations

from sim.messages import ZOOKEEPER, Envelope, Write, WriteAnswer
from sim.world import CONTROLLERS, LAG_TIME_MAX_MS, Settings, World
from sim.zookeeper import STATE, Put


def started_and_then_without_controllers(settings: Settings) -> World:
    world = World(settings)
    world.start()
    assert (world.leader, world.isr) == (1, settings.replicas)
    for controller in CONTROLLERS:
        world.cut(controller, ZOOKEEPER)
        world.cut(controller, 1)
    return world


def isr_write(envelope: Envelope) -> bool:
    return isinstance(envelope.body, Write) and any(
        isinstance(operation, Put) and operation.path == STATE for operation in envelope.body.operations
    )


def healed(world: World) -> None:
    world.heal()
    world.converge()
    assert world.brokers[world.leader].state.is_leader
    assert set(world.isr) == set(world.brokers)


def test_a_lost_tail_is_not_forgotten_by_stopping_the_broker_in_order_afterwards() -> None:
    world = started_and_then_without_controllers(Settings(replicas=(1, 2), flush_on_disk=True))
    world.produce(1)
    world.settle()
    assert len(world.brokers[2].disk.log) == 1
    world.crash(1, lost_records=1)
    world.restart(1)
    world.settle()
    assert world.produce(1) is None, "the epoch is spent"
    world.crash(1)  # In order: nothing is lost now, and nothing is known of what was.
    world.restart(1)
    world.settle()
    assert world.produce(1) is None, "the follower has another record at this offset in this epoch"
    healed(world)


def test_an_isr_that_an_earlier_life_asked_for_may_be_stored_late() -> None:
    world = started_and_then_without_controllers(Settings())
    world.hold(3, 1)
    world.produce(1)
    world.settle()
    world.advance(LAG_TIME_MAX_MS + 1)
    world.settle_until(lambda: 3 not in world.isr)
    world.release(3, 1)
    world.settle_until(lambda: any(isr_write(e) for e in world.pending))
    world.delay(next(e for e in world.pending if isr_write(e)), give_up=True)
    world.crash(1)
    world.restart(1)
    world.hold(1, 3)
    world.settle()
    world.produce(1)
    world.advance(1)
    world.settle()
    world.let_arrive(next(e for e in world.late if isr_write(e)))
    world.settle()  # The checkers look: nothing was committed without 3.
    assert 3 in world.isr
    healed(world)


def test_a_leader_that_was_restarted_does_not_follow_the_one_before_it() -> None:
    """A controller that does not know yet what it has decided sends what was before, to all who register."""
    world = World(Settings(min_insync_replicas=2))
    world.start()
    world.hold(ZOOKEEPER, 1)  # It leads on, and does not hear of it.
    world.expire(1)
    world.settle_until(lambda: world.leader == 2)
    world.pause(11)
    for broker in (2, 3):
        world.expire(broker)  # Whoever registers again reads who leads.
        world.settle()
    assert [world.brokers[each].state.is_leader for each in (1, 2)] == [True, True]
    value = world.produce(2)
    world.settle()
    assert [record[1] for record in world.acked.values()] == [value]
    world.crash(2)
    world.restart(2)
    world.settle()
    assert world.produce(2) is None, "the epoch is spent"
    world.lose(next(e for e in world.pending if e.target == 11 and isinstance(e.body, WriteAnswer)))
    world.resume(11)
    world.settle()
    assert [record[1] for record in world.brokers[2].disk.log] == [value]
    healed(world)
