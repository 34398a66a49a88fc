"""Records are deleted (KIP-107) while leaders fall: written schedules, looked at by all checkers."""

from __future__ import annotations

from sim.checkers.healed import heal
from sim.disk import PowerCut
from sim.messages import ZOOKEEPER
from sim.world import CONTROLLERS, LAG_TIME_MAX_MS, Settings, World


def started(records: int = 6, *, flush_on_disk: bool = False) -> World:
    """Broker 1 leads; all three have these records."""
    world = World(Settings(flush_on_disk=flush_on_disk))
    world.start()
    for _ in range(records):
        world.produce(1)
    world.converge(1)
    assert (world.leader, world.isr, len(world.acked)) == (1, (1, 2, 3), records)
    return world


def starts(world: World) -> list[int]:
    return [broker.state.log_start_offset for broker in world.brokers.values()]


def fall(world: World, broker_id: int) -> None:
    world.crash(broker_id)
    world.expire(broker_id)
    world.settle()


def test_followers_hear_of_it_at_once_and_whoever_leads_next_begins_there() -> None:
    world = started()
    assert world.delete(1, 4) == 4
    world.settle()
    assert starts(world) == [4, 4, 4]
    fall(world, 1)
    assert world.brokers[world.leader].state.log_start_offset == 4
    heal(world)
    assert starts(world) == [4, 4, 4]


def test_a_leader_that_dies_before_anybody_heard_takes_only_the_deletion_with_it() -> None:
    world = started()
    world.cut(1, 2)
    world.cut(1, 3)
    assert world.delete(1, 4) == 4
    fall(world, 1)
    new = world.leader
    assert world.brokers[new].state.log_start_offset == 0, "records are there again; none is missing"
    heal(world)
    assert world.brokers[1].state.log_start_offset == 4, "who has deleted them does not take them back"
    assert world.delete(world.leader, 4) == 4, "to ask again is all it takes"
    world.settle()
    assert starts(world) == [4, 4, 4]


def test_a_restart_brings_nothing_back() -> None:
    world = started()
    assert world.delete(1, -1) == 6
    world.settle()
    for broker_id in (1, 2, 3):
        world.brokers[broker_id].write_log_start()
        fall(world, broker_id)
    heal(world)
    assert starts(world) == [6, 6, 6]


def test_nothing_that_is_not_committed_is_deleted() -> None:
    world = started()
    world.cut(1, 3)
    value = world.produce(1)
    world.settle()
    assert world.delete(1, 7) is None
    assert world.delete(1, -1) == 6
    heal(world)
    assert value in [record[1] for record in world.acked.values()]


def test_a_follower_takes_it_only_as_far_as_it_knows_to_be_committed() -> None:
    world = started(0)
    world.produce(1)
    world.settle()
    # 2 has the record, and has not heard that it is committed.
    follower = world.brokers[2]
    assert (follower.state.log_end_offset, follower.state.high_watermark) == (1, 0)
    world.hold(1, 3)
    assert world.delete(1, 1) == 1
    world.settle()
    assert follower.state.log_start_offset == follower.state.high_watermark == 1
    heal(world)


def test_a_replica_that_parted_below_the_new_start_shows_nothing_of_its_own() -> None:
    """It has other records at the offsets that were deleted. Were it to keep those as its own, and be
    elected before it has fetched, consumers would see them in place of what was committed."""
    world = started(2)
    world.cut(1, 2)
    world.cut(1, 3)
    for _ in range(3):
        world.produce(1)  # Only 1 has these, at 2 to 4, in epoch 0.
    world.settle()
    for controller in CONTROLLERS:
        world.cut(controller, 1)
    world.cut(ZOOKEEPER, 1)
    world.expire(1)
    world.settle()
    new = world.leader
    assert new in (2, 3)
    for _ in range(4):
        world.produce(new)  # Others are committed there, in epoch 1.
    world.settle()
    world.advance(LAG_TIME_MAX_MS + 1)
    world.settle()
    assert world.delete(new, 4) == 4
    world.settle()
    heal(world)
    assert starts(world) == [4, 4, 4]
    assert [record[0] for record in world.brokers[1].disk.log[4:6]] == [1, 1]


def test_a_replica_that_was_away_for_long_begins_where_its_leader_does() -> None:
    world = started(2)
    fall(world, 3)
    for _ in range(4):
        world.produce(1)
    world.settle()
    assert world.delete(1, -1) == 6
    world.settle()
    heal(world)
    assert starts(world) == [6, 6, 6]


def test_a_power_cut_below_the_start_leaves_an_empty_log_that_begins_there() -> None:
    world = started()
    assert world.delete(1, 5) == 5
    world.settle()
    follower = world.brokers[2]
    follower.write_log_start()
    world.crash(2, lost_records=6)
    world.expire(2)
    world.settle()
    world.restart(2)
    assert (follower.state.log_start_offset, follower.state.log_end_offset) == (5, 5)
    heal(world)
    assert starts(world) == [5, 5, 5]


def test_a_replica_that_let_go_of_all_takes_what_an_unclean_leader_has() -> None:
    """It asks about an epoch of which its leader knows nothing, and has no record left to cut."""
    world = World(Settings(replicas=(1, 2)))
    world.start()
    world.hold(1, 2)
    for _ in range(2):
        world.produce(1)  # Only 1 has these, on its disk.
    world.fsync(1)
    world.expire(1)
    world.settle()
    assert world.leader == 2
    world.release(1, 2)
    world.produce(2)
    world.converge(2)
    assert world.isr == (1, 2)
    assert [len(broker.disk.log) for broker in world.brokers.values()] == [1, 1]
    assert world.delete(2, 1) == 1
    world.crash(1, power=PowerCut(log_before_cut=True, epochs_before_cut=True))
    world.crash(2, loses_power=True)
    for broker_id in (2, 1):
        world.restart(broker_id)
        world.settle()
    assert world.unclean_epoch == world.brokers[1].state.leader_epoch, "1 has back what it had cut"
    assert len(world.brokers[1].disk.log) == 2
    heal(world)
    assert starts(world) == [0, 0]
    assert world.brokers[2].disk.log == world.brokers[1].disk.log


def test_a_replica_that_let_go_of_all_and_has_no_epoch_left_takes_what_an_unclean_leader_wrote() -> None:
    """Its log begins behind the end with which that leader began. Once that has as many records, no answer
    tells that the two logs have other pasts."""
    world = started(3)
    world.fsync(3)
    fall(world, 3)
    for _ in range(2):
        world.produce(1)
        world.settle()
    assert world.isr == (1, 2)
    assert world.delete(1, 5) == 5
    for envelope in [each for each in world.pending if each.target == 2]:
        world.lose(envelope)  # 2 and 3 do not hear of it.
    world.brokers[1].write_log_start()
    world.crash(1, lost_records=5)
    world.expire(1)
    world.restart(3)
    world.settle_until(lambda: world.isr == (2, 3))
    for broker_id, lost_records in ((2, 5), (3, 2)):
        world.crash(broker_id, lost_records=lost_records)
        world.expire(broker_id)
    for broker_id in (2, 3):
        world.restart(broker_id)
    world.settle_until(lambda: world.leader == 3)
    fall(world, 2)
    for _ in range(3):
        world.produce(3)
        world.settle()
    assert [world.acked[at] for at in (3, 4)] == world.brokers[3].disk.log[3:5]
    world.restart(1)
    world.settle_until(lambda: world.isr == (1, 3))
    fall(world, 3)
    assert world.leader == 1
    heal(world)
    assert starts(world) == [0, 0, 0]
