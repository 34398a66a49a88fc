"""§7: who is accepted as a consumer, and who is not (C10, and the bad input of the contract)."""

from __future__ import annotations

import pytest
from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.machine import new_state, step
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import OwnedPartition, Registration
from unit.coordinator.core.group_world import World, topic, tp


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"group": ""}, Refusal.INVALID_GROUP_NAME),
        ({"group": "a/b"}, Refusal.INVALID_GROUP_NAME),
        ({"group": ".."}, Refusal.INVALID_GROUP_NAME),
        ({"consumer_id": "a/b"}, Refusal.INVALID_GROUP_NAME),
        ({"instance_id": "x" * 250}, Refusal.INVALID_GROUP_NAME),
        ({"member_id": "x" * 250}, Refusal.INVALID_REQUEST),
        ({"topics": {}}, Refusal.INVALID_REQUEST),
        ({"pattern": "t.*"}, Refusal.INVALID_REQUEST),
        ({"topics": {"a/b": 1}}, Refusal.INVALID_TOPIC_NAME),
        ({"topics": {"t": 65}}, Refusal.INVALID_REQUEST),
        ({"topics": {"t": 0}}, Refusal.INVALID_REQUEST),
        ({"topics": {f"t{number}": 1 for number in range(1_001)}}, Refusal.LIMIT_EXCEEDED),
        ({"topics": {}, "pattern": "("}, Refusal.INVALID_PATTERN),
        ({"topics": {}, "pattern": "x" * 1_001}, Refusal.INVALID_PATTERN),
        ({"topics": {}, "pattern": "t", "pattern_streams": 0}, Refusal.INVALID_REQUEST),
        ({"exclude": ("u",)}, Refusal.INVALID_REQUEST),
        ({"topics": {}, "pattern": "t", "exclude": ("u(",)}, Refusal.INVALID_PATTERN),
        ({"session_timeout_ms": 499}, Refusal.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, Refusal.INVALID_SESSION_TIMEOUT),
        ({"assignor": "fair"}, Refusal.UNKNOWN_ASSIGNOR),
        ({"seen_coordinator_epoch": 2}, Refusal.STALE_COORDINATOR_EPOCH),
        ({"owned": (OwnedPartition(tp(0), 1),) * 100_001}, Refusal.LIMIT_EXCEEDED),
    ],
)
def test_a_registration_that_cannot_be_is_refused(fields: dict[str, object], refusal: Refusal) -> None:
    world = World()
    consumer = world.register(Registration(**{"group": "g", "topics": {"t": 1}, **fields}))  # type: ignore[arg-type]
    assert consumer.refusal() is refusal
    assert world.state.groups == {}
    assert world.state.member_count == 0


def test_a_second_consumer_with_a_live_consumers_id_is_refused() -> None:
    world = World()
    first = world.join("a")
    second = world.join("a")
    assert second.refusal() is Refusal.CONSUMER_ID_TAKEN
    assert first.refusal() is None


def test_a_consumer_id_is_taken_while_its_member_may_come_back() -> None:
    world = World()
    first = world.join("a", session_timeout_ms=3_000)
    world.lose(first)
    assert world.join("a").refusal() is Refusal.CONSUMER_ID_TAKEN
    world.run(1_100)
    assert world.join("a").refusal() is None


def test_a_consumer_without_a_name_gets_one() -> None:
    world = World()
    assert world.join().consumer_id == "c1"


def test_a_member_id_that_nobody_has_is_not_believed() -> None:
    world = World()
    consumer = world.join(member_id="made-up", owned=(OwnedPartition(tp(0), 1),))
    assert consumer.member_id == "1-1-secret"
    assert consumer.retained == ()


def test_a_member_that_was_declared_dead_comes_back_as_a_new_one() -> None:
    world = World()
    first = world.join("a", session_timeout_ms=3_000)
    first.is_mute = True
    world.run(4_000)
    again = world.come_back(first)
    world.run(100)
    assert again.member_id != first.member_id
    assert again.retained == ()
    assert again.partitions == {0, 1, 2, 3}


def test_another_instance_id_with_a_members_id_is_refused() -> None:
    world = World()
    first = world.join("a")
    again = world.come_back(first, instance_id="i")
    assert again.refusal() is Refusal.INVALID_REQUEST
    assert first.refusal() is None


def test_consumers_beyond_the_limit_are_sent_away() -> None:
    world = World(limits=GroupLimits(consumers_max=2))
    first, _, third = world.join(), world.join(), world.join()
    assert third.refusal() is Refusal.OVERLOADED
    assert world.come_back(first).refusal() is None


def test_groups_beyond_the_limit_are_refused() -> None:
    world = World(limits=GroupLimits(groups_max=1))
    world.join()
    other = world.register(Registration("other", topics={"t": 1}))
    assert other.refusal() is Refusal.LIMIT_EXCEEDED


def test_a_group_that_wrote_nothing_down_is_forgotten_with_its_last_member() -> None:
    world = World()
    world.join(topics={"not-yet": 1}).leave()
    assert world.state.groups == {}
    assert world.state.concerned == {}


def test_a_standby_names_the_active_coordinator() -> None:
    state = new_state(GroupLimits())
    step(state, ev.CoordinatorSeen(ev.Endpoint(3, "there", 9)), 0)
    registration = Registration("g", topics={"t": 1})
    (effect,) = step(state, ev.ConsumerRegistered(1, registration, "m", "c"), 0)
    assert isinstance(effect, ef.CloseConnection)
    assert effect.refusal is Refusal.NOT_COORDINATOR
    assert effect.metadata == {"coordinator_address": "there:9"}


def test_a_member_that_subscribes_to_something_else_is_a_change() -> None:
    world = World(topic("t", 2), topic("u", 2, b"u" * 16))
    first = world.join("a")
    world.run(100)
    again = world.come_back(first, topics={"u": 1})
    world.run(100)
    assert set(again.reading) == {tp(0, "u"), tp(1, "u")}


def test_a_consumer_hears_how_often_and_how_long() -> None:
    world = World()
    world.join(session_timeout_ms=9_000)
    registered = world.the(ef.SendRegistered)
    assert (registered.ping_interval_ms, registered.answer_timeout_ms) == (3_000, 6_000)


def test_what_a_consumer_claimed_is_not_remembered() -> None:
    world = World()
    consumer = world.join("a")
    world.run(100)
    again = world.come_back(consumer)
    stranger = world.join("b", owned=consumer.owned())
    assert len(again.retained) == 4
    members = world.state.groups["g"].members
    claims = [member.registration and member.registration.owned for member in members.values()]
    assert claims == [(), ()], "it may be long, and counts once"
    assert stranger.retained == ()
