"""What a broker was told reaches it once more when it is not so any more: what random schedules found out."""

from __future__ import annotations

from hightide_broker.core.events import EpochEndReceived, FetchRefused
from sim.checkers.healed import heal
from sim.world import Settings, World


def hears_again(world: World, broker_id: int, event_type: type) -> None:
    """The last of this kind that it was told in this life."""
    told = world.brokers[broker_id].told
    world.echo(broker_id, max(at for at, (event, _) in enumerate(told) if isinstance(event, event_type)))


def test_a_follower_does_not_cut_what_it_fetched_since_it_asked_where_to_cut() -> None:
    """It lost its last record, asked, and began anew where its leader's log begins by then. What it has
    copied from there counts for the next record's acknowledgement; then the old answers arrive again."""
    world = World(Settings(replicas=(1, 2), min_insync_replicas=2))
    world.start()
    for _ in range(2):
        world.produce(1)
        world.settle()
    world.crash(2, lost_records=1)
    world.hold(1, 2)
    world.restart(2)
    world.settle()
    assert world.delete(1, 2) == 2
    world.release(1, 2)
    world.settle()
    follower = world.brokers[2]
    assert (follower.state.log_start_offset, world.isr) == (2, (1, 2))
    world.produce(1)
    world.settle_until(lambda: len(world.acked) == 3)
    assert (follower.state.log_end_offset, follower.state.high_watermark) == (3, 2)
    world.hold(2, 1)
    hears_again(world, 2, FetchRefused)
    hears_again(world, 2, EpochEndReceived)
    world.crash(1)
    world.expire(1)
    heal(world)
    assert world.brokers[1].disk.log[2][1] == 3
