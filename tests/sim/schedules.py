"""Written schedules: for each mend of the replication text, the story that needs it.

Each is a function of a world that has started: broker 1 leads in epoch 0, the ISR is 1, 2, 3, controller 11
is active. The very same orders are given with the mend on (all is well) and off (an invariant breaks).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sim.checkers.healed import Healed, heal
from sim.lost_power import (
    a_follower_loses_its_power_while_it_is_being_taken_in,
    a_leader_counts_on_a_member_that_left_for_its_lost_disk,
    all_lose_their_power_and_the_one_with_least_starts_last,
    an_isr_that_is_too_small_loses_what_it_alone_has,
    the_last_in_sync_loses_its_power_while_the_others_are_down,
)
from sim.messages import ZOOKEEPER, Envelope, Write
from sim.world import CONTROLLERS, LAG_TIME_MAX_MS, World

Schedule = Callable[[World], None]


def a_follower_restarts_before_it_heard_of_the_high_watermark(world: World) -> None:
    """KIP-101: V3 cuts the follower to its own high watermark, and with it an acknowledged record."""
    world.produce(1)
    world.settle()
    world.crash(2)
    world.restart(2)
    heal(world)


def a_fetch_of_an_old_epoch_arrives_late(world: World) -> None:
    """KIP-320: 3 once had three records, cut two, and its old word is taken for a record that it never
    got."""
    world.produce(1)
    world.settle()
    world.cut(1, 2)
    world.produce(1)
    world.settle()
    world.produce(1)
    world.hold(3, 1)  # "I have three records", said in epoch 0.
    world.settle()
    world.cut(ZOOKEEPER, 1)
    world.expire(1)  # 2 leads in epoch 1; 3 cuts what only 1 and 3 had.
    world.settle()
    world.produce(2)
    world.settle()
    world.mend_link(ZOOKEEPER, 1)
    world.mend_link(1, 2)
    world.settle()  # 1 registers again, cuts, and joins.
    for controller in CONTROLLERS:
        world.hold(controller, 3)  # 3 does not hear of epoch 2 yet.
    world.crash(2)
    world.expire(2)
    world.settle()
    world.produce(1)
    world.release(3, 1)
    world.settle()
    heal(world)


def a_new_leader_does_not_know_how_far_its_followers_are(world: World) -> None:
    """V3 takes the minimum over what it knows, which is nothing: consumers see committed records vanish."""
    world.produce(1)
    world.settle()
    world.advance(10)
    world.settle()
    world.crash(1)
    world.expire(1)
    heal(world)


def a_follower_with_a_small_lag_asks_to_join(world: World) -> None:
    """KAFKA-7128: V3 lets it in below the high watermark, and it may be elected without the records."""
    world.hold(1, 3)
    for _ in range(3):
        world.produce(1)
        world.settle()
    world.advance(LAG_TIME_MAX_MS + 1)
    world.settle()  # The ISR is 1, 2, and the records are acknowledged.
    world.time_out(3)
    world.settle()
    heal(world)


def all_followers_fall_silent(world: World) -> None:
    """V3's "???": nobody fetches, so nobody looks at the ISR, and producers wait for ever."""
    world.cut(1, 2)
    world.cut(1, 3)
    value = world.produce(1)
    world.settle()
    for _ in range(3):
        world.advance(LAG_TIME_MAX_MS + 1)
        world.settle()
    assert value is not None
    Healed(world).check_acknowledged(value)
    heal(world)


def a_shrink_of_the_isr_is_under_way(world: World) -> None:
    """KIP-497: the leader wants 3 out and commits without it, before anybody else could know."""
    world.hold(1, 3)
    world.hold(1, ZOOKEEPER)
    world.produce(1)
    world.settle()
    world.advance(LAG_TIME_MAX_MS + 1)
    world.settle()
    heal(world)


def a_leader_loses_its_tail_and_comes_back_unnoticed(world: World) -> None:
    """It leads on in its epoch and writes other records under offsets that followers hold."""
    assert world.settings.flush_on_disk
    world.produce(1)
    world.produce(1)
    world.settle()
    for controller in CONTROLLERS:
        world.cut(controller, ZOOKEEPER)
    world.crash(1, lost_records=2)
    world.restart(1)
    world.settle()
    world.produce(1)
    heal(world)


def a_deposed_controller_finishes_a_write(world: World) -> None:
    """Its session has ended and another one is elected, but its write is still under way."""
    world.crash(3)
    world.expire(3)
    writes_before = len(writes_of(world, 11))
    world.settle_until(lambda: len(writes_of(world, 11)) > writes_before)
    world.hold(11, ZOOKEEPER)
    world.hold(ZOOKEEPER, 11)
    world.expire(11)
    world.settle_until(lambda: world.zookeeper.controller_epoch == 2)
    world.release(11, ZOOKEEPER)
    for write in writes_of(world, 11):
        world.deliver(write)
    world.release(ZOOKEEPER, 11)
    heal(world)


def writes_of(world: World, node: int) -> list[Envelope]:
    """The writes of a node that are under way to ZooKeeper."""
    return [e for e in world.pending if e.source == node and isinstance(e.body, Write)]


def only_a_lagging_replica_is_alive(world: World) -> None:
    """V3 A.3.2 elects it, and V3 D.6 even calls the partition new; both lose what only the dead one has."""
    for broker in (2, 3):
        world.crash(broker)
        world.expire(broker)
    world.settle()
    world.produce(1)
    world.settle()
    world.crash(1)
    world.expire(1)
    world.settle()
    world.restart(2)
    heal(world)


def everyone_dies_and_comes_back(world: World) -> None:
    """Without the last ISR remembered nobody may lead any more, though nothing is lost."""
    world.produce(1)
    world.settle()
    for broker in (1, 2, 3):
        world.crash(broker)
        world.expire(broker)
    heal(world)


BROKER_MENDS: Final[dict[str, tuple[Schedule, str]]] = {
    "truncate_by_epoch": (a_follower_restarts_before_it_heard_of_the_high_watermark, "Acknowledged"),
    "fence_by_epoch": (a_fetch_of_an_old_epoch_arrives_late, "Acknowledged"),
    "high_watermark_never_falls": (a_new_leader_does_not_know_how_far_its_followers_are, "HighWatermark"),
    "join_at_epoch_start": (a_follower_with_a_small_lag_asks_to_join, "HighWatermark"),
    "shrink_on_timer": (all_followers_fall_silent, "Healed"),
    "maximal_isr": (a_shrink_of_the_isr_is_under_way, "Acknowledged"),
    "fenced_joins": (a_follower_loses_its_power_while_it_is_being_taken_in, "Acknowledged"),
    "commits_by_min_insync": (an_isr_that_is_too_small_loses_what_it_alone_has, "LostPower"),
    "heeds_newer_isr": (a_leader_counts_on_a_member_that_left_for_its_lost_disk, "LostPower"),
    "spent_epochs": (a_leader_loses_its_tail_and_comes_back_unnoticed, "LogMatching"),
}
"""Rule of the broker core → the schedule that needs it, and the checker that says so."""

CONTROLLER_MENDS: Final[dict[str, tuple[Schedule, str]]] = {
    "fenced_writes": (a_deposed_controller_finishes_a_write, "Znodes"),
    "clean_elections": (only_a_lagging_replica_is_alive, "LostPower"),
    "last_isr_remembered": (everyone_dies_and_comes_back, "Healed"),
    "new_is_not_offline": (only_a_lagging_replica_is_alive, "Acknowledged"),
    "eligible_leaders": (the_last_in_sync_loses_its_power_while_the_others_are_down, "LostPower"),
    "best_recovered_leads": (all_lose_their_power_and_the_one_with_least_starts_last, "LostPower"),
}
"""The same for the rules of the controller core."""
