"""A broker fails: V3 A, with what the mends make of it."""

from __future__ import annotations

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.elections.stores import READS_MAX
from hightide_controller.core.values.partition import NO_LEADER, PartitionState, TopicPartition
from unit.controller.controller_world import FLIGHTS, World, broker, led, topic

THREE = ((1, 2, 3), (2, 3, 1), (3, 1, 2))


def three_partitions() -> World:
    return World.elected(1, 2, 3, topics=(topic(*THREE),))


def test_a_dead_process_is_acted_on_before_its_znode_is_gone() -> None:
    world = three_partitions()
    world.told.clear()
    world.send(ev.BrokerProcessDied(1, broker(1).broker_epoch, cause="f1"))
    world.settle()
    assert [world.zookeeper[TopicPartition("flights", n)].leader for n in range(3)] == [2, 2, 3]
    assert all(1 not in known.isr for known in world.zookeeper.values())
    assert {sent.broker_id for sent in world.told} == {2, 3}
    assert all(sent.cause == "f1" for sent in world.told)


def test_the_znode_that_goes_afterwards_changes_nothing() -> None:
    world = three_partitions()
    world.send(ev.BrokerProcessDied(1, broker(1).broker_epoch))
    world.settle()
    stores = len(world.stores)
    world.registered(broker(2), broker(3))
    world.settle()
    assert len(world.stores) == stores


def test_word_of_an_earlier_life_kills_nobody() -> None:
    world = three_partitions()
    world.registered(broker(1, life=2), broker(2), broker(3))
    world.settle()
    stores = len(world.stores)
    world.send(ev.BrokerProcessDied(1, broker(1, life=1).broker_epoch))
    assert world.state.is_live(1)
    assert len(world.stores) == stores


def test_elections_are_stored_before_shrinks() -> None:
    world = three_partitions()
    world.stores.clear()
    world.registered(broker(2), broker(3))
    first, second = world.stores
    assert [change.decided.leader_epoch for change in first.changes] == [1]
    assert [change.decided.leader_epoch for change in second.changes] == [0, 0]


def test_a_broker_hears_of_a_multi_as_soon_as_it_commits() -> None:
    world = three_partitions()
    world.told.clear()
    world.registered(broker(2), broker(3))
    world.perform(world.pending.pop(0))
    assert [d.name.partition for d in world.decisions_told_to(2)] == [0]
    assert world.pending, "the shrinks are still under way"


def test_one_rpc_a_broker_carries_all_the_decisions_of_a_multi() -> None:
    assignment = tuple((1, 2, 3) for _ in range(50))
    world = World.elected(1, 2, 3, topics=(topic(*assignment),))
    world.told.clear()
    world.registered(broker(2), broker(3))
    world.settle()
    assert [(sent.broker_id, len(sent.decisions)) for sent in world.told] == [(2, 50), (3, 50)]


def test_a_failure_touches_only_what_the_broker_holds() -> None:
    world = World.elected(1, 2, 3, 4, topics=(topic((1, 2), (3, 4), (4, 3)),))
    world.stores.clear()
    world.told.clear()
    world.registered(broker(2), broker(3), broker(4))
    world.settle()
    assert [change.name for store in world.stores for change in store.changes] == [FLIGHTS]
    assert {sent.broker_id for sent in world.told} == {2}


def test_a_stale_version_is_read_again_and_decided_on_what_zookeeper_holds() -> None:
    world = three_partitions()
    # The leader of partition 0 took broker 2 out of the ISR meanwhile: so broker 2 must not lead.
    world.leader_writes_isr(FLIGHTS, 1, 3)
    world.registered(broker(2), broker(3))
    world.settle()
    assert (world.zookeeper[FLIGHTS].leader, world.zookeeper[FLIGHTS].isr) == (3, (3,))


def test_only_the_multi_that_was_refused_is_read_again() -> None:
    world = three_partitions()
    world.leader_writes_isr(FLIGHTS, 1, 3)
    world.registered(broker(2), broker(3))
    election = world.pending.pop(0)
    world.perform(election)
    reads = [effect for effect in world.pending if isinstance(effect, ef.ReadStates)]
    assert [read.names for read in reads] == [(FLIGHTS,)]


def test_a_decision_of_unknown_outcome_is_told_when_it_turns_out_to_hold() -> None:
    world = three_partitions()
    world.told.clear()
    world.registered(broker(2), broker(3))
    world.apply_without_answer(world.pending.pop(0))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader_epoch == 1, "decided once, not twice"
    assert [d.state.leader for d in world.decisions_told_to(2) if d.name.partition == 0] == [2]


def test_a_decision_of_unknown_outcome_is_made_again_when_it_does_not_hold() -> None:
    world = three_partitions()
    world.registered(broker(2), broker(3))
    lost = world.pending.pop(0)
    assert isinstance(lost, ef.StoreLeaderAndIsr)
    world.send(ev.StoreUnknown(lost.store_id))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2


def test_a_decision_of_unknown_outcome_cannot_be_stored_after_it_was_found_missing() -> None:
    # Otherwise it would hold in ZooKeeper one day, and nobody would be told of it.
    world = three_partitions()
    world.registered(broker(2), broker(3))
    lost = world.pending.pop(0)
    assert isinstance(lost, ef.StoreLeaderAndIsr)
    world.registered(broker(1), broker(2), broker(3))
    world.send(ev.StoreUnknown(lost.store_id))
    world.settle()
    assert not world.try_apply(lost)
    assert world.decisions_told_to(2)[-1].state.partition_epoch > 0


def test_a_follower_that_a_leader_let_in_is_found_when_it_dies() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.registered(broker(1))
    world.settle()
    world.registered(broker(1), broker(2, life=2))
    world.settle()
    world.leader_writes_isr(FLIGHTS, 1, 2)
    world.send(ev.BrokerProcessDied(2, broker(2, life=2).broker_epoch))
    world.settle()
    assert world.zookeeper[FLIGHTS].isr == (1,)


def test_a_second_death_during_the_write_is_decided_after_it() -> None:
    world = World.elected(1, 2, 3, topics=(topic((1, 2, 3)),))
    world.registered(broker(2), broker(3))
    world.registered(broker(3))
    assert len(world.stores) == 2, "no second write of a partition while the first is under way"
    world.settle()
    assert (world.zookeeper[FLIGHTS].leader, world.zookeeper[FLIGHTS].leader_epoch) == (3, 2)


def test_a_death_during_the_first_write_of_a_partition_is_seen() -> None:
    world = World.elected(1, 2)
    world.topics["flights"] = topic((1, 2))
    world.send(ev.TopicsChanged(added=(topic((1, 2)),)))
    world.registered(broker(2))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2


def test_no_live_isr_member_means_offline_and_the_isr_is_remembered() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.registered(broker(1))
    world.settle()
    world.registered(broker(2, life=2))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == NO_LEADER
    assert world.zookeeper[FLIGHTS].isr == (1,)
    assert world.state.partitions[FLIGHTS].state is PartitionState.OFFLINE
    world.registered(broker(1, life=2), broker(2, life=2))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 1


def test_an_unclean_election_is_reported_with_what_is_lost() -> None:
    unclean = topic((1, 2), unclean_leader_election_enable="true")
    world = World.elected(1, 2, topics=(unclean,), states={FLIGHTS: led(1, 1)})
    world.registered(broker(2))
    world.settle()
    assert world.zookeeper[FLIGHTS].isr == (2,)
    assert any(
        "unclean election of flights-0" in e.message for e in world.others if isinstance(e, ef.LogWarning)
    )


def test_a_broker_that_bounced_between_two_looks_does_not_lead_on_its_old_word() -> None:
    world = three_partitions()
    world.registered(broker(1, life=2), broker(2), broker(3))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2
    assert world.zookeeper[FLIGHTS].isr == (2, 3)


def test_a_bounce_is_not_forgotten_when_the_write_is_refused() -> None:
    world = three_partitions()
    world.leader_writes_isr(FLIGHTS, 1, 3)
    world.registered(broker(1, life=2), broker(2), broker(3))
    world.settle()
    assert (world.zookeeper[FLIGHTS].leader, world.zookeeper[FLIGHTS].isr) == (3, (3,))


def test_a_broker_that_comes_back_gets_everything_that_concerns_it() -> None:
    world = three_partitions()
    world.registered(broker(2), broker(3))
    world.settle()
    world.told.clear()
    world.metadata.clear()
    world.registered(broker(1, life=2), broker(2), broker(3))
    world.settle()
    assert sorted(d.name.partition for d in world.decisions_told_to(1)) == [0, 1, 2]
    assert all(sent.broker_epoch == broker(1, life=2).broker_epoch for sent in world.told)
    full = [sent for sent in world.metadata if sent.full]
    assert [receiver for sent in full for receiver in sent.brokers] == [(1, 201)]


def test_all_brokers_learn_of_a_change_and_of_nothing_else() -> None:
    world = three_partitions()
    world.metadata.clear()
    world.registered(broker(2), broker(3))
    world.settle()
    named = [sorted(name.partition for name in sent.names) for sent in world.metadata]
    assert named == [[], [0], [1, 2]]
    assert not any(sent.full for sent in world.metadata)


def test_multis_stay_within_zookeepers_limits() -> None:
    long_name = "t" * 249
    world = World.elected(1, 2, topics=(topic(*[(1, 2)] * 5_000, name=long_name),))
    world.stores.clear()
    world.registered(broker(2))
    assert sum(len(store.changes) for store in world.stores) == 5_000
    assert len(world.stores) >= 6, "the sizes are checked as they are sent"


def test_a_tick_reads_what_may_have_grown_and_no_more() -> None:
    world = World.elected(1, 2, 3, topics=(topic((1, 2), (2, 3), (1, 3)),))
    world.send(ev.Ticked())
    assert not world.pending
    world.registered(broker(1), broker(2))
    world.settle()
    world.send(ev.Ticked())
    assert not world.pending, "broker 3 is dead, so it cannot have been let in"
    world.registered(broker(1), broker(2), broker(3, life=2))
    world.settle()
    world.leader_writes_isr(TopicPartition("flights", 1), 2, 3)
    world.send(ev.Ticked())
    (read,) = world.pending
    assert isinstance(read, ef.ReadStates)
    assert [name.partition for name in read.names] == [1, 2]
    world.settle()
    assert world.state.partitions[TopicPartition("flights", 1)].leader_and_isr == led(2, 2, 3, version=2)


def test_ticks_take_turns_through_many_partitions() -> None:
    count = READS_MAX + 200
    states = {TopicPartition("flights", n): led(1, 1) for n in range(count)}
    world = World.elected(1, 2, topics=(topic(*[(1, 2)] * count),), states=states)
    seen: set[TopicPartition] = set()
    for _ in range(2):
        world.send(ev.Ticked())
        (read,) = world.pending
        assert isinstance(read, ef.ReadStates)
        assert len(read.names) <= READS_MAX
        seen.update(read.names)
        world.settle()
    assert len(seen) == count


def test_old_news_does_not_replace_what_is_known() -> None:
    world = three_partitions()
    world.registered(broker(2), broker(3))
    world.settle()
    known = world.state.partitions[FLIGHTS].leader_and_isr
    world.send(ev.StatesRead({FLIGHTS: led(1, 1, 2, 3)}))
    assert world.state.partitions[FLIGHTS].leader_and_isr == known
