"""Written schedules of brokers whose machines lose their power, and of what they had said before.

With flush=replicated a record is acknowledged when all in-sync replicas have it, not when it is on their
disks. A broker that loses its power takes itself out of the ISRs before it registers (docs/protocol.md, "A
restarted broker is not trusted"); these schedules are about words of its earlier life that come later than
that. Each is a function of a world that has started: broker 1 leads in epoch 0, the ISR is 1, 2, 3.
"""

from __future__ import annotations

from sim.checkers.healed import heal
from sim.disk import PowerCut
from sim.messages import ZOOKEEPER, Envelope, FetchAnswer, Write
from sim.world import CONTROLLERS, LAG_TIME_MAX_MS, World
from sim.zookeeper import Put, Stored


def a_follower_loses_its_power_while_it_is_being_taken_in(world: World) -> None:
    """KIP-841, KIP-903: the leader's write takes it in after it came back with less and found itself out."""
    out_of_the_isr_with_everything(world, 3)
    world.hold(1, ZOOKEEPER)
    world.release(3, 1)
    world.settle()  # 3 fetched; the write that takes it in is under way.
    assert joins_of(world, 3)
    lose_power(world, 3)
    world.release(1, ZOOKEEPER)
    world.settle()
    heal(world)


def a_follower_loses_its_power_while_it_waits_to_be_taken_in(world: World) -> None:
    """Its fetch is remembered while another write of the ISR is under way, and decided from when that is
    over."""
    out_of_the_isr_with_everything(world, 3)
    world.hold(1, 2)
    world.produce(1)
    world.release(1, 3)
    world.hold(1, ZOOKEEPER)
    world.settle()
    world.advance(LAG_TIME_MAX_MS + 1)  # The leader asks for 2 to be taken out.
    world.release(3, 1)
    world.settle()
    leading = world.brokers[1].state.leading
    assert leading is not None
    assert leading.waiting == (3,)
    world.hold(3, 1)
    lose_power(world, 3)
    world.release(1, ZOOKEEPER)
    world.settle()
    heal(world)


def the_last_fetch_of_a_life_arrives_after_the_next_has_begun(world: World) -> None:
    """The leader stands still while the follower loses its power and comes back; then it reads what lay
    in its socket."""
    out_of_the_isr_with_everything(world, 3)
    world.pause(1)
    world.release(3, 1)
    lose_power(world, 3)
    world.resume(1)
    heal(world)


def the_last_in_sync_loses_its_power_while_the_others_are_down(world: World) -> None:
    """KIP-966: a record is on three disks, and only one of them loses it: the one that was left in the
    ISR."""
    assert world.settings.min_insync_replicas == 2
    world.produce(1)
    world.settle()
    for broker in (2, 3):
        world.crash(broker)
        world.expire(broker)
    world.settle()
    assert world.isr == (1,)
    world.crash(1, lost_records=1)
    world.expire(1)
    world.settle()
    for broker in (2, 3, 1):
        world.restart(broker)
        world.settle()
    heal(world)


def an_isr_that_is_too_small_loses_what_it_alone_has(world: World) -> None:
    """A producer waits; the followers lose their power and leave the ISR, and then so does the leader."""
    assert world.settings.min_insync_replicas == 2
    world.produce(1)
    world.settle()
    world.hold(1, 2)
    world.hold(1, 3)
    world.produce(1)
    for follower in (2, 3):
        world.crash(follower, lost_records=1)
        world.restart(follower)
        world.settle()
    assert world.isr == (1,)
    world.crash(1, lost_records=1)
    world.restart(1)
    heal(world)


def all_lose_their_power_and_the_one_with_least_starts_last(world: World) -> None:
    """Who starts last finds itself the only member of the ISR, since the others have left it."""
    world.produce(1)
    world.settle()
    world.fsync(2)
    for broker, lost in ((1, 1), (2, 0), (3, 1)):
        world.crash(broker, lost_records=lost, loses_power=True)
        world.expire(broker)
    for broker in (2, 3, 1):
        world.restart(broker)
        world.settle()
    heal(world)


def a_leader_counts_on_a_member_that_left_for_its_lost_disk(world: World) -> None:
    """It has not heard that the other one is in the ISR no more. That one has all again, but whoever elects
    knows it by what it had when it left: with the leader's disk the record is gone, though another has it."""
    assert world.settings.min_insync_replicas == 2
    world.crash(3)
    world.expire(3)
    world.settle()
    for controller in CONTROLLERS:
        world.cut(controller, 1)
    world.crash(2, loses_disk=True)
    world.restart(2)
    world.hold(2, 1)
    world.settle()
    assert (world.isr, set(world.doubted)) == ((1,), {2})
    assert world.produce(1) is not None
    world.release(2, 1)
    world.settle_until(lambda: len(world.brokers[2].disk.log) == 1)
    world.settle()
    world.crash(1, loses_disk=True)
    world.expire(1)
    world.restart(1)
    heal(world)


def the_best_of_the_lost_ends_has_cut_what_it_told_of(world: World) -> None:
    """Who was elected among lost ends breaks its disk while it is alone in the ISR. Of the others it is known
    what they had when they left: 1, which leads now, has cut that since, and 3 has fetched in its place what
    was acknowledged. Every disk has lost that."""
    up_to_the_second_election_among_lost_ends(world)
    world.restart(2)
    heal(world)


def up_to_the_second_election_among_lost_ends(world: World) -> None:
    """It comes when 2 starts: 1 and 3 cut two records that 2 never had, and got two others that were
    acknowledged; a power cut turned that round, and 2 led."""
    assert world.settings.min_insync_replicas == 2
    world.produce(1)
    world.settle()
    world.hold(1, 2)
    for _ in range(2):
        world.produce(1)
    world.settle()
    for broker in (1, 2, 3):
        world.fsync(broker)
    world.expire(1)
    world.settle_until(lambda: world.brokers[2].state.is_leader)
    world.release(1, 2)
    world.settle()
    for _ in range(2):
        world.produce(2)
    world.settle()
    world.fsync(2)
    assert (world.leader, world.isr, len(world.acked)) == (2, (1, 2, 3), 3)
    for broker, comes_undone in ((1, True), (2, False), (3, True)):
        power = PowerCut(log_before_cut=comes_undone, epochs_before_cut=comes_undone)
        world.crash(broker, power=power)
        world.expire(broker)
    for broker in (1, 3):
        world.restart(broker)
        world.settle()
    world.hold(2, 1)
    world.hold(2, 3)
    world.restart(2)
    world.settle()
    assert (world.leader, world.isr, set(world.doubted)) == (2, (2,), {1, 3})
    told, kept = world.brokers[1].disk.log, world.brokers[2].disk.log
    assert told == world.brokers[3].disk.log
    world.hold(2, ZOOKEEPER)
    world.release(2, 1)
    world.settle_until(lambda: world.brokers[1].disk.log == kept[:1])
    world.hold(2, 1)
    world.release(2, 3)
    world.settle_until(lambda: world.brokers[3].disk.log == kept)
    world.crash(2, loses_disk=True)
    world.expire(2)
    world.release(2, ZOOKEEPER)
    world.settle()


def the_best_of_the_lost_ends_breaks_its_disk_before_it_is_written_that_it_leads(world: World) -> None:
    """1 and 2 have what was acknowledged. 1 is chosen, and has nothing any more when that is written: it says
    so before it leads, and 2 is chosen."""
    assert world.settings.min_insync_replicas == 2
    world.produce(1)
    world.settle()
    world.fsync(1)
    world.fsync(2)
    for broker in (1, 2, 3):
        world.crash(broker, lost_records=1 if broker == 3 else 0, loses_power=True)
        world.expire(broker)
    for broker in (1, 2):
        world.restart(broker)
        world.settle()
    world.restart(3)
    world.settle_until(lambda: bool(joins_of(world, 1)))
    world.crash(1, loses_disk=True)
    world.settle()
    assert (world.leader, world.brokers[1].disk.log) == (1, [])
    heal(world)


def a_cut_comes_undone(world: World) -> None:
    """A follower has cut what its leader never had, and written down how much of what came instead is
    committed. Its power goes, and what it had cut is there again, in place of that."""
    world.produce(1)
    world.settle()
    world.hold(1, 2)
    world.hold(1, 3)
    for _ in range(2):
        world.produce(1)
    world.fsync(1)
    world.expire(1)
    world.settle_until(lambda: world.brokers[2].state.is_leader)
    world.release(1, 2)
    world.release(1, 3)
    world.settle()
    for _ in range(3):
        world.produce(2)
    world.settle()
    world.advance(LAG_TIME_MAX_MS // 2)
    world.settle()
    disk = world.brokers[1].disk
    assert disk.log == world.brokers[2].disk.log
    assert world.brokers[1].state.high_watermark == len(disk.log) == 4
    assert disk.before_cut is not None
    world.brokers[1].checkpoint_high_watermark()
    world.crash(1, power=PowerCut(log_before_cut=True, epochs_before_cut=True))
    assert disk.log != world.brokers[2].disk.log
    world.expire(1)
    world.settle()
    world.restart(1)
    heal(world)


def a_cut_comes_undone_below_the_log_start(world: World) -> None:
    """A leader has cut, as a follower, what its own leader never had, and has deleted some of what came
    instead. Its power goes before any of that is on disk, but for where the log begins; and whoever leads
    next has not heard of that."""
    world.hold(1, 2)
    world.hold(1, 3)
    for _ in range(3):
        world.produce(1)
    world.fsync(1)
    world.expire(1)
    world.settle_until(lambda: world.brokers[2].state.is_leader)
    world.release(1, 2)
    world.release(1, 3)
    world.settle()
    world.expire(2)
    world.settle()
    assert world.leader == 1
    world.produce(1)
    world.settle()
    disk = world.brokers[1].disk
    assert world.brokers[1].state.high_watermark == len(disk.log) == 1
    assert disk.before_cut is not None
    assert world.delete(1, 1) == 1
    for unheard in [e for e in world.pending if e.source == 1 and isinstance(e.body, FetchAnswer)]:
        world.lose(unheard)
    world.crash(1, power=PowerCut(log_before_cut=True, epochs_before_cut=True))
    world.expire(1)
    world.settle()
    world.restart(1)
    heal(world)


def the_only_member_of_the_isr_loses_its_disk_and_leads(world: World) -> None:
    """2 and 3 die with all their records, and 1 is uncleanly elected with none."""
    for follower in (3, 2):
        world.crash(follower)
        world.expire(follower)
        world.settle()
    assert world.isr == (1,)
    world.crash(1, loses_disk=True)
    world.expire(1)
    world.restart(1)
    world.settle()
    assert (world.leader, world.unclean_epoch) == (1, world.brokers[1].state.leader_epoch)


def committed_records_that_were_given_up_come_back(world: World) -> None:
    """Of those that live, 2 alone has three committed records, and it is in no ISR: 1 lost its disk and leads
    without them. 2 cuts them, and 1 takes it into the ISR. Then the power of all goes, and no controller sees
    it. 1 may not go on in its epoch, so 2 leads."""
    for _ in range(3):
        world.produce(1)
    world.converge(4)
    world.brokers[2].checkpoint_high_watermark()
    assert world.brokers[2].disk.high_watermark_checkpoint == 3
    the_only_member_of_the_isr_loses_its_disk_and_leads(world)
    world.restart(3)
    world.settle()
    world.hold(3, 1)
    world.produce(1)
    world.settle()
    world.fsync(3)
    world.restart(2)
    world.settle_until(lambda: set(world.isr) == {1, 2, 3})
    world.crash(2, power=PowerCut(log_before_cut=True, epochs_before_cut=True))
    for broker_id in (1, 3):
        world.crash(broker_id, loses_power=True)
    for controller_id in CONTROLLERS:
        world.crash(controller_id)
    world.release(3, 1)
    heal(world)


def out_of_the_isr_with_everything(world: World, follower: int) -> None:
    """The follower has every record, none synced, and says so in a fetch that is held on its way; the ISR is
    without it."""
    world.cut(1, follower)
    world.produce(1)
    world.settle()
    world.advance(LAG_TIME_MAX_MS + 1)
    world.settle()
    assert follower not in world.isr
    world.release(1, follower)
    world.time_out(follower)
    world.settle()
    world.release(follower, 1)
    world.settle_until(lambda: len(world.brokers[follower].disk.log) == len(world.brokers[1].disk.log))
    world.hold(follower, 1)
    assert follower not in world.isr


def lose_power(world: World, broker_id: int) -> None:
    """The machine goes down with what it had not synced, and comes up; it has not caught up yet."""
    disk = world.brokers[broker_id].disk
    world.hold(1, broker_id)
    world.crash(broker_id, len(disk.log) - disk.durable_end_offset)
    world.restart(broker_id)
    world.settle()
    assert not disk.is_doubtful, "it found itself in no ISR"


def joins_of(world: World, member: int) -> list[Envelope]:
    """The writes under way that name the broker as a member of the ISR."""
    return [
        e
        for e in world.pending
        if isinstance(e.body, Write)
        and any(isinstance(o, Put) and names(o.data, member) for o in e.body.operations)
    ]


def names(data: object, member: int) -> bool:
    """Whether it is a leaderAndISR with this broker in the ISR."""
    return isinstance(data, Stored) and member in data.isr
