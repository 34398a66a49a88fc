"""Tests of the tests: each checker goes red on a world that somebody tampered with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
from msgspec.structs import replace
from sim.checkers import Violation
from sim.checkers.high_watermark import HighWatermark
from sim.messages import GONE
from sim.world import World
from sim.zookeeper import STATE, Put, Stored


def lose_a_record(world: World) -> None:
    world.brokers[2].disk.log.pop()
    world.log_changed()


def write_another_record(world: World) -> None:
    world.acked.clear()
    world.brokers[3].disk.log[0] = (0, 99)
    world.log_changed()


def diverge(world: World) -> None:
    world.acked.clear()
    for broker in world.brokers.values():
        broker.state = replace(broker.state, high_watermark=0, leading=None)
    world.brokers[3].disk.log[0] = (0, 99)
    world.log_changed()


def lower_the_high_watermark(world: World) -> None:
    world.brokers[2].state = replace(world.brokers[2].state, high_watermark=0)


def commit_twice_in_an_epoch(world: World) -> None:
    world.commits += [(0, 1, 1), (0, 2, 1)]


def acknowledge_twice_at_an_offset(world: World) -> None:
    world.acknowledged(1, 0, (5, 99))


def write_under_an_old_controller_epoch(world: World) -> None:
    world.zookeeper.multi((Put(STATE, Stored(1, 0, (1, 2), 0), 0),), writer=12)


def write_without_leading(world: World) -> None:
    world.zookeeper.multi((Put(STATE, Stored(1, 0, (1, 2), 1), 0),), writer=2)


def put_the_leader_out_of_the_isr(world: World) -> None:
    world.zookeeper.multi((Put(STATE, Stored(1, 0, (2,), 1), 0),), writer=1)


def elect_from_outside_the_isr(world: World) -> None:
    world.zookeeper.multi((Put(STATE, Stored(1, 1, (1,), 1), 0),), writer=11)
    world.zookeeper.multi((Put(STATE, Stored(3, 2, (3,), 1), 1),), writer=11)


def turn_back_the_leader_epoch(world: World) -> None:
    world.zookeeper.multi((Put(STATE, Stored(2, 1, (2, 1), 1), 0),), writer=11)
    world.zookeeper.multi((Put(STATE, Stored(1, 0, (1, 2), 1), 1),), writer=11)


@pytest.mark.parametrize(
    ("tamper", "invariant"),
    [
        (lose_a_record, "Acknowledged"),
        (acknowledge_twice_at_an_offset, "Acknowledged"),
        (write_another_record, "StrongIsr"),
        (diverge, "LogMatching"),
        (lower_the_high_watermark, "HighWatermark"),
        (commit_twice_in_an_epoch, "CommittingLeader"),
        (write_under_an_old_controller_epoch, "Znodes"),
        (write_without_leading, "Znodes"),
        (put_the_leader_out_of_the_isr, "Znodes"),
        (elect_from_outside_the_isr, "Znodes"),
        (turn_back_the_leader_epoch, "Znodes"),
    ],
)
def test_a_checker_sees(tamper: Callable[[World], None], invariant: str) -> None:
    world = World()
    world.start()
    for _ in range(3):
        world.produce(1)
        world.settle()
    world.advance(1)
    world.settle()
    assert len(world.acked) == 3
    tamper(world)
    with pytest.raises(Violation) as found:
        world.check()
    assert found.value.invariant == invariant


def test_what_was_shown_may_change_only_where_as_many_disks_lost_it_as_have_it_by_promise() -> None:
    world = World()
    world.start()
    world.produce(1)
    world.settle()
    world.advance(1)
    world.settle()
    (shown,) = world.acked.values()
    judge = HighWatermark(world)
    judge._remember(1, [shown], 0)
    for broker_id in range(1, world.promised_copies):
        world.lost(broker_id, [shown])
    other = (shown[0] + 1, shown[1] + 1)
    with pytest.raises(Violation, match="they were shown"):
        judge._remember(1, [other], 0)
    world.lost(world.promised_copies, [shown])
    judge._remember(1, [other], 0)
    with pytest.raises(Violation, match="they were shown"):
        judge._remember(1, [shown], 0)


def test_what_a_leader_lacked_is_shown_by_the_next_one_and_changes_no_more() -> None:
    """Its oldest files were taken away, and it led as the last one in the ISR."""
    world = World()
    judge = HighWatermark(world)
    judge._remember(1, [GONE, (0, 2)], 1)
    judge._remember(2, [(0, 1), (0, 2)], 0)
    with pytest.raises(Violation, match="they were shown"):
        judge._remember(3, [(0, 9), (0, 2)], 0)


@pytest.mark.parametrize(
    ("deleted_before", "unclean_epoch", "is_well"), [(3, 1, True), (2, 1, False), (3, 0, False)]
)
def test_a_high_watermark_goes_back_only_over_what_was_deleted_and_only_to_the_best_of_those_that_lost(
    deleted_before: int, unclean_epoch: int, *, is_well: bool
) -> None:
    world = World()
    world.start()
    for _ in range(3):
        world.produce(1)
        world.settle()
    world.advance(1)
    world.settle()
    world.deleted_before = deleted_before
    judge = HighWatermark(world)
    judge.check()
    follower = world.brokers[2]
    assert follower.state.high_watermark == 3
    decision = replace(follower.state.decision, unclean_epoch=unclean_epoch)
    follower.state = replace(follower.state, high_watermark=0, decision=decision)
    with nullcontext() if is_well else pytest.raises(Violation, match="2 went back from 3 to 0"):
        judge.check()
