"""§8: Pings, silence, broken streams, and answers that come too late or out of turn."""

from __future__ import annotations

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.state.group import GroupState
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.refusals import Refusal
from unit.coordinator.core.group_world import Consumer, World, topic, tp


def pair(instance_id: str = "") -> tuple[World, Consumer, Consumer]:
    """Two members with a session timeout of 3 s, and two partitions."""
    world = World(topic(partitions=2))
    first = world.join("a", session_timeout_ms=3_000, instance_id=instance_id)
    second = world.join("b", session_timeout_ms=3_000)
    world.run(100)
    return world, first, second


def test_a_ping_comes_every_third_of_the_session_timeout() -> None:
    world, first, _ = pair()
    world.run(9_000)
    assert len(first.pings) == 9
    assert {retry_count for _, retry_count in first.pings} == {0}


def test_pings_of_one_group_that_are_due_together_are_one_effect() -> None:
    world, _, _ = pair()
    world.run(1_000)
    ping = world.the(ef.SendPings)
    assert len(ping.connections) == 2


def test_a_member_that_is_silent_for_its_session_timeout_is_dead() -> None:
    world, first, second = pair()
    first.is_mute = True
    world.run(2_990)
    assert first.refusal() is None
    world.run(20)
    assert first.refusal() is Refusal.SESSION_TIMED_OUT
    world.run(100)
    assert second.partitions == {0, 1}


def test_a_busy_coordinator_does_not_take_what_it_is_late_for_silence() -> None:
    """While ten thousand consumers registered, each Ping went out seconds late, and its answer was read
    seconds late. Each time that was less than the time between two Pings, but three times were a session
    timeout."""
    world, first, _ = pair()
    first.is_mute = True  # Its answers wait to be read.
    for later_ms in (1_800, 1_000, 1_000):
        world.now_ms += later_ms  # 900 ms after a Ping is due
        world.feed(ev.Ticked())
    assert first.refusal() is None
    world.run(3_000)
    assert first.refusal() is Refusal.SESSION_TIMED_OUT


def test_a_host_that_dies_with_all_its_consumers_is_one_sentence_a_group() -> None:
    world = World(topic(partitions=4))
    consumers = [world.join(f"c{number}", session_timeout_ms=3_000) for number in range(20)]
    other = world.join("other", session_timeout_ms=3_000, group="h")
    world.run(1_100)
    for consumer in (*consumers, other):
        consumer.is_mute = True
    world.run(3_000)
    assert {consumer.refusal() for consumer in consumers} == {Refusal.SESSION_TIMED_OUT}
    many, one = sorted((each.message for each in world.all(ef.LogSentence) if each.is_warning), key=len)[::-1]
    assert "group g: 20 consumers are declared dead: c" in many
    assert "and 17 more" in many
    assert many.count("silent for") == 3
    assert "group h: 1 consumer is declared dead: other (it was silent for" in one


def test_each_ping_that_may_be_missed_is_a_third_more() -> None:
    world = World(limits=GroupLimits(ping_retries_max=2))
    consumer = world.join(session_timeout_ms=3_000)
    consumer.is_mute = True
    world.run(4_900)
    assert consumer.refusal() is None
    assert [retry_count for _, retry_count in consumer.pings] == [0, 0, 1, 2]
    world.run(200)
    assert consumer.refusal() is Refusal.SESSION_TIMED_OUT


def test_the_last_ping_before_death_leaves_a_third_to_answer_it_whenever_the_last_answer_came() -> None:
    world = World(limits=GroupLimits(ping_retries_max=1))
    consumer = world.join(session_timeout_ms=3_000)
    world.run(100)
    consumer.is_mute = True
    world.run(940)
    consumer.answer_ping()
    before = len(consumer.pings)
    world.run(3_020)
    assert [retry_count for _, retry_count in consumer.pings[before:]] == [0, 0, 0, 1]
    world.run(900)
    assert consumer.refusal() is None
    consumer.answer_ping()
    world.run(900)
    assert consumer.refusal() is None


def test_any_answer_is_a_sign_of_life() -> None:
    world, first, _ = pair()
    first.is_mute = True
    world.run(2_000)
    first.answer_ping()
    world.run(2_900)
    assert first.refusal() is None


def test_a_commit_is_a_sign_of_life() -> None:
    world, first, _ = pair()
    first.is_mute = True
    world.run(2_000)
    first.commit(next(iter(first.reading)), 1)
    world.run(2_900)
    assert first.refusal() is None


def test_a_member_that_answers_pings_and_no_orders_is_dead_after_two_thirds() -> None:
    world, first, second = pair()
    first.leave()
    world.run(100)
    second.is_mute = True
    third = world.join("c", session_timeout_ms=3_000)
    world.run(100)
    assert second.open_orders
    for _ in range(2):
        world.run(900)
        second.answer_ping()
    assert second.refusal() is None
    world.run(200)
    assert second.refusal() is Refusal.SESSION_TIMED_OUT
    world.run(100)
    assert third.partitions == {0, 1}


def test_a_member_whose_stream_broke_keeps_its_partitions_for_a_third_of_its_session_timeout() -> None:
    world, first, second = pair()
    world.lose(first)
    world.run(990)
    assert second.partitions != {0, 1}
    world.run(130)
    assert second.partitions == {0, 1}


def test_a_member_that_comes_back_in_time_goes_on_with_what_it_owns() -> None:
    world, first, second = pair()
    generation = world.describe().generation
    world.lose(first)
    world.run(500)
    again = world.come_back(first)
    world.run(2_000)
    assert again.member_id == first.member_id
    assert {each.name for each in again.retained} == set(first.reading)
    assert again.orders == []
    assert world.describe().generation == generation
    assert len(second.orders) == 1


def test_what_a_member_does_not_claim_when_it_comes_back_is_started_again() -> None:
    world, first, _ = pair()
    world.lose(first)
    again = world.come_back(first, owned=())
    assert again.retained == ()
    assert again.partitions == first.partitions


def test_what_a_member_claims_and_does_not_own_is_not_retained() -> None:
    world, first, second = pair()
    world.lose(first)
    again = world.come_back(first, owned=first.owned() + second.owned())
    assert {each.name for each in again.retained} == set(first.reading)


def test_an_order_that_a_broken_stream_swallowed_is_given_again() -> None:
    world = World(topic(partitions=2))
    first = world.join("a")
    world.run(100)
    first.is_mute = True
    second = world.join("b")
    world.run(100)
    (lost,) = first.open_orders
    assert isinstance(lost, ef.SendStopFetcher)
    world.lose(first)
    again = world.come_back(first)
    assert len(again.partitions) == 1
    assert len(second.partitions) == 1
    assert world.group_state() is GroupState.STABLE


def test_a_static_member_is_away_for_all_of_its_session_timeout() -> None:
    world, first, second = pair(instance_id="i")
    world.lose(first)
    world.run(2_900)
    assert second.partitions != {0, 1}
    world.run(250)
    assert second.partitions == {0, 1}


def test_a_static_members_next_process_takes_its_place_and_touches_nobody_else() -> None:
    world, first, second = pair(instance_id="i")
    world.lose(first)
    world.run(2_000)
    again = world.join("other", instance_id="i", session_timeout_ms=3_000)
    world.run(200)
    assert again.partitions == first.partitions
    assert again.member_id != first.member_id
    assert len(second.orders) == 1
    assert world.group_state() is GroupState.STABLE


def test_a_static_members_earlier_process_is_fenced() -> None:
    world, first, _ = pair(instance_id="i")
    name = next(iter(first.reading))
    world.join("a", instance_id="i", session_timeout_ms=3_000)
    assert first.refusal() is Refusal.FENCED_INSTANCE
    assert first.commit(name, 5).refusal is Refusal.FENCED_INSTANCE
    again = world.come_back(first)
    assert again.refusal() is Refusal.FENCED_INSTANCE


def test_a_goodbye_leaves_at_once_with_its_final_positions() -> None:
    world, first, second = pair(instance_id="i")
    (name,) = first.reading
    first.positions[name] = 42
    first.leave()
    assert first.closed == ef.CloseConnection(first.connection_id)
    assert world.committed(name.partition) == 42
    world.run(30)
    assert second.partitions == {0, 1}
    assert second.positions[name] == 42


def test_a_goodbyes_stream_ends_when_its_positions_are_durable() -> None:
    world, first, _ = pair()
    (name,) = first.reading
    world.stores_answer = False
    first.positions[name] = 42
    first.leave()
    assert not world.all(ef.CloseConnection)
    world.store()
    assert first.closed == ef.CloseConnection(first.connection_id)


def test_a_stream_that_replaces_the_members_own_goes_on() -> None:
    world, first, _ = pair()
    again = world.come_back(first)
    assert first.refusal() is Refusal.SESSION_TIMED_OUT
    assert again.refusal() is None
    world.lose(first)
    world.run(5_000)
    assert again.refusal() is None


def test_an_answer_with_an_unknown_sequence_ends_the_stream() -> None:
    world, first, _ = pair()
    world.feed(ev.PingAnswered(first.connection_id, 99, world.epoch, 1))
    assert first.refusal() is Refusal.ANSWER_OUT_OF_TURN
    again = world.come_back(first)
    assert {each.name for each in again.retained} == set(first.reading)


def test_an_answer_to_another_coordinator_epoch_ends_the_stream() -> None:
    world, first, _ = pair()
    world.run(1_000)
    world.feed(ev.PingAnswered(first.connection_id, first.pings[-1][0], world.epoch + 1, 1))
    assert first.refusal() is Refusal.ANSWER_OUT_OF_TURN


def test_an_answer_of_another_kind_than_its_order_ends_the_stream() -> None:
    world = World()
    consumer = world.join()
    consumer.is_mute = True
    world.run(100)
    (start,) = consumer.open_orders
    world.feed(ev.FetchersStopped(consumer.connection_id, start.sequence, world.epoch, 1))
    assert consumer.refusal() is Refusal.ANSWER_OUT_OF_TURN


def test_an_answer_before_the_registration_ends_the_stream() -> None:
    world = World()
    world.feed(ev.PingAnswered(77, 1, world.epoch, 1))
    assert world.the(ef.CloseConnection).refusal is Refusal.ANSWER_OUT_OF_TURN


def test_a_second_registration_on_a_stream_ends_it() -> None:
    world, first, _ = pair()
    world.feed(ev.ConsumerRegistered(first.connection_id, first.registration, "x", "y"))
    assert first.refusal() is Refusal.ANSWER_OUT_OF_TURN


def test_a_coordinator_that_stood_still_itself_declares_nobody_dead_for_it() -> None:
    world, first, second = pair()
    world.now_ms += 20_000
    world.feed(ev.Ticked())
    world.run(5_000)
    assert first.refusal() is None
    assert second.refusal() is None


def test_those_that_die_together_are_one_rebalance() -> None:
    world = World(topic(partitions=20))
    consumers = [world.join(session_timeout_ms=3_000) for _ in range(10)]
    world.run(100)
    for each in consumers[1:]:
        each.is_mute = True
    count = world.describe().rebalance_count
    world.run(4_000)
    assert consumers[0].partitions == set(range(20))
    assert world.describe().rebalance_count == count + 1


def test_a_group_whose_last_member_is_gone_is_empty_and_owned_by_nobody() -> None:
    world, first, second = pair()
    first.leave()
    second.is_mute = True
    world.run(5_000)
    assert world.group_state() is GroupState.EMPTY
    assert world.owners["g"] == {}
    assert world.committed() == 0


def test_a_heap_of_timers_does_not_grow_with_the_pings() -> None:
    world = World(topic(partitions=1))
    world.join(session_timeout_ms=3_000)
    for _ in range(100):
        world.run(1_000)
    assert len(world.state.wheel.order) < 10
    assert tp(0) in world.owners["g"]
