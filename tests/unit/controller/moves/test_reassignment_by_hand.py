"""An operator moves partitions with nothing but a ZooKeeper shell, and its nonsense harms nothing (V3 F)."""

from __future__ import annotations

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.elections.stores import decision_of
from hightide_controller.core.state.topic_rules import ASSIGNMENT_BYTES_MAX, partition_bytes
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from unit.controller.controller_world import FLIGHTS, broker
from unit.controller.moving_world import (
    begun,
    by_hand,
    catch_up,
    let_all_catch_up,
    move,
    outcomes,
    replicas,
    world_of,
)

PATH = "/admin/partitions_reassigned/flights/0"


def test_an_operator_moves_a_partition() -> None:
    world = world_of((1, 2))
    world.write_admin(by_hand(3, 4))
    world.settle()
    assert world.zk.moves[FLIGHTS] == ev.StoredReassignment((3, 4), (1, 2), 1)
    catch_up(world, 1, 2, 3, 4)
    assert replicas(world) == (3, 4)
    assert world.zk.moves == {}


def test_a_move_by_hand_to_where_the_partition_is_is_done_at_once() -> None:
    world = world_of((1, 2))
    before = world.topics["flights"].version
    world.write_admin(by_hand(1, 2))
    world.settle()
    assert world.zk.moves == {}
    assert world.topics["flights"].version == before
    assert world.state.complaints == {}


@pytest.mark.parametrize("target", [(3, 3), (3, 9), (1, 2, 3, 4, 5, 6)])
def test_nonsense_by_hand_is_complained_about_and_harms_nothing(target: tuple[int, ...]) -> None:
    world = world_of((1, 2))
    before = (world.topics["flights"], world.zookeeper[FLIGHTS])
    world.write_admin(by_hand(*target))
    world.settle()
    assert list(world.state.complaints) == [PATH]
    assert (world.topics["flights"], world.zookeeper[FLIGHTS]) == before
    world.write_admin(ev.AdminZnodes(reassignments={FLIGHTS: None}))
    world.settle()
    assert world.state.complaints == {}


def test_a_move_of_what_is_not_there_is_complained_about_until_it_is_there() -> None:
    later = TopicPartition("flights", 1)
    world = world_of((1, 2))
    world.write_admin(by_hand(3, 4, name=later))
    world.settle()
    assert list(world.state.complaints) == ["/admin/partitions_reassigned/flights/1"]
    world.send(rq.AddPartitionsRequested(2, "flights", 2))
    world.settle()
    assert world.state.complaints == {}
    assert later in world.zk.moves


def test_a_move_of_what_is_not_there_that_is_cancelled_twice_is_removed_once() -> None:
    """A multi that removed it twice would never succeed, nor any later one about the topic."""
    later = TopicPartition("flights", 1)
    world = world_of((1, 2))
    world.write_admin(by_hand(3, 4, name=later))
    world.settle()
    world.send(rq.AlterTopicConfigRequested(5, "flights", {"retention.ms": "7"}))
    for request_id in (6, 7):
        world.send(rq.CancelReassignmentsRequested(request_id, ()))
    world.settle()
    assert world.zk.moves == {}
    assert world.state.complaints == {}


def test_a_move_by_hand_to_a_broker_that_is_not_there_begins_when_it_comes() -> None:
    world = world_of((1, 2), brokers=(1, 2))
    world.write_admin(by_hand(1, 3))
    world.settle()
    assert PATH in world.state.complaints
    world.registered(broker(1), broker(2), broker(3))
    world.settle()
    assert world.state.complaints == {}
    assert replicas(world) == (1, 2, 3)


def test_an_operator_takes_a_move_back_by_taking_its_znode_away() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    world.write_admin(ev.AdminZnodes(reassignments={FLIGHTS: None}))
    world.settle()
    assert replicas(world) == (1, 2)
    assert len(world.stops_told_to(3)) == 1


def test_a_znode_that_is_taken_away_when_nobody_else_has_the_records_leaves_all_as_it_is() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    catch_up(world, 1, 2, 3)
    world.registered(broker(3), broker(4))
    world.settle()
    world.others.clear()
    world.write_admin(ev.AdminZnodes(reassignments={FLIGHTS: None}))
    world.settle()
    assert replicas(world) == (1, 2, 3, 4)
    assert any(isinstance(each, ef.LogWarning) and "was deleted" in each.message for each in world.others)


def test_a_request_overrides_nonsense_by_hand() -> None:
    world = world_of((1, 2))
    world.write_admin(by_hand(9))
    world.settle()
    world.send(move(3, 4))
    world.settle()
    assert world.state.complaints == {}
    assert world.zk.moves[FLIGHTS].target == (3, 4)


def test_an_original_that_an_operator_made_up_is_not_believed() -> None:
    world = world_of((1, 2))
    world.write_admin(ev.AdminZnodes(reassignments={FLIGHTS: ev.StoredReassignment((3, 4), (4, 5), 0)}))
    world.settle()
    assert world.zk.moves[FLIGHTS].original == (1, 2)


def test_an_operator_gives_a_move_under_way_another_goal() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    world.write_admin(by_hand(5, 2, version=1))
    world.settle()
    let_all_catch_up(world)
    assert replicas(world) == (5, 2)
    assert world.zk.moves == {}


def test_a_move_is_refused_where_nonsense_stands_at_its_path_and_holds_up_nothing_else() -> None:
    world = world_of((1, 2))
    world.send(ev.AdminChanged(ev.AdminZnodes(complaints={PATH: "not JSON; correct it or delete it"})))
    world.send(move(3, 4))
    world.settle()
    (outcome,) = outcomes(world)
    assert outcome.refusal is ef.Refusal.INVALID_REQUEST
    assert PATH in outcome.message
    assert world.writes == []
    world.answers.clear()
    world.send(ev.AdminChanged(ev.AdminZnodes(complaints={PATH: None})))
    world.send(move(3, 4, request_id=2))
    world.settle()
    assert outcomes(world)[0].refusal is None


def test_what_is_read_again_and_makes_no_sense_still_is_complained_about_once() -> None:
    world = world_of((1, 2))
    world.write_admin(by_hand(99))
    world.settle()
    complaint = world.state.complaints[PATH]
    world.others.clear()
    again = by_hand(99)
    world.send(ev.AdminChanged(ev.AdminZnodes(again.reassignments, complaints={PATH: None})))
    assert world.state.complaints[PATH] == complaint
    assert world.others == []
    world.write_admin(ev.AdminZnodes({FLIGHTS: None}, complaints={PATH: None}))
    assert world.state.complaints == {}


def test_an_original_that_an_operator_made_up_adds_no_replica_that_is_not_assigned() -> None:
    """A broker refuses such a decision, and everything else in the same order. The znode may also be left
    from a deleted topic of the same name."""
    world = world_of((1, 2))
    world.write_admin(ev.AdminZnodes(reassignments={FLIGHTS: ev.StoredReassignment((3,), (1,), 0)}))
    assert decision_of(world.state, FLIGHTS).adding_replicas == ()
    world.settle()
    decided = decision_of(world.state, FLIGHTS)
    assert set(decided.adding_replicas) <= set(decided.replicas)


@pytest.mark.parametrize("is_requested", [False, True], ids=["by-hand", "requested"])
def test_moves_for_which_the_topic_znode_has_no_room_wait_until_others_have_ended(is_requested: bool) -> None:
    """While a partition moves, the znode has its old and its new replicas."""
    old, new = tuple(range(10**9, 10**9 + 20)), tuple(range(2 * 10**9, 2 * 10**9 + 20))
    count = (ASSIGNMENT_BYTES_MAX - 1_000) // partition_bytes(1_000, old)
    world = world_of(*((old,) * count), brokers=old + new)
    names = [TopicPartition("flights", number) for number in range(10)]
    if is_requested:
        world.send(rq.ReassignmentsRequested(1, tuple(rq.Move(name, new) for name in names)))
    else:
        world.write_admin(
            ev.AdminZnodes(reassignments={name: ev.StoredReassignment(new, (), 0) for name in names})
        )
    world.settle()
    under_way = [name for name in names if len(replicas(world, name)) == 40]
    assert 0 < len(under_way) < len(names)
    assert len(world.state.complaints) == (0 if is_requested else 1)
    while under_way:
        for name in under_way:
            catch_up(world, *old, *new, name=name)
        under_way = [name for name in names if len(replicas(world, name)) == 40]
    assert all(replicas(world, name) == new for name in names)
    assert world.state.complaints == {}
