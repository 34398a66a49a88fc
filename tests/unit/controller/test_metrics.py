"""What a controller counts, and what it tells of it."""

from __future__ import annotations

import asyncio

from hightide_controller.core import events as ev
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.values.requests import ElectionKind, ElectLeadersRequested
from hightide_controller.counters import ELECTION_REASONS, Counters
from hightide_controller.inbox import Inbox
from hightide_controller.metrics import METRICS, controller_readings
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.metric_declarations import Readings
from unit.controller.controller_world import FLIGHTS, World, broker, led, topic

PREFIX = "hightide.controller."


class CountingWorld(World):
    """Counts as the shell does: each event, before the core takes it."""

    def send(self, event: ev.Event) -> None:
        self.counters.before(self.state, event)
        super().send(event)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.counters = Counters()

    def counted(self) -> dict[str, int]:
        """The elections, by reason; those that were."""
        return {reason: count for reason, count in self.counters.elections.items() if count}

    def readings(self) -> Readings:
        async def read() -> Readings:
            return controller_readings(
                lambda: self.state, Inbox(SystemClock()), self.counters, lambda: 1_500
            )()

        return asyncio.run(read())


def died(broker_id: int) -> ev.BrokerProcessDied:
    return ev.BrokerProcessDied(broker_id, broker(broker_id).broker_epoch, cause="process_died-7")


def test_a_new_partition_and_a_failover_are_elections_for_different_reasons() -> None:
    world = CountingWorld.elected(1, 2, topics=(topic((1, 2)),))
    assert isinstance(world, CountingWorld)
    assert world.counted() == {"new_partition": 1}
    world.send(died(1))
    world.settle()
    assert world.counted() == {"new_partition": 1, "process_died": 1}
    assert (world.counters.unclean_elections, world.counters.gone_offline) == (0, 0)


def test_an_isr_that_shrinks_is_no_election() -> None:
    world = CountingWorld.elected(1, 2, topics=(topic((1, 2)),))
    assert isinstance(world, CountingWorld)
    world.send(died(2))
    world.settle()
    assert world.state.partitions[FLIGHTS].leader_and_isr == led(1, 1, version=1)
    assert world.counted() == {"new_partition": 1}


def test_losing_the_last_replica_is_going_offline_and_coming_back_is_an_election() -> None:
    world = CountingWorld.elected(1, topics=(topic((1,)),))
    assert isinstance(world, CountingWorld)
    world.send(died(1))
    world.settle()
    assert (world.counted(), world.counters.gone_offline) == ({"new_partition": 1}, 1)
    assert world.readings()[f"{PREFIX}partitions_offline"] == 1
    world.registered(broker(1, life=2))
    world.settle()
    assert world.counted() == {"new_partition": 1, "back_online": 1}
    assert world.readings()[f"{PREFIX}partitions_offline"] == 0


def test_an_unclean_election_is_counted_as_such() -> None:
    states = {FLIGHTS: led(1, 1)}
    lax = topic((1, 2), unclean_leader_election_enable="true")
    world = CountingWorld.elected(1, 2, topics=(lax,), states=states)
    assert isinstance(world, CountingWorld)
    world.send(died(1))
    world.settle()
    assert (world.counted(), world.counters.unclean_elections) == ({"process_died": 1}, 1)


def test_an_election_that_was_asked_for_is_told_apart() -> None:
    world = CountingWorld.elected(1, 2, topics=(topic((1, 2)),), states={FLIGHTS: led(2, 1, 2)})
    assert isinstance(world, CountingWorld)
    world.send(ElectLeadersRequested(5, ElectionKind.PREFERRED, (FLIGHTS,)))
    world.settle()
    assert world.counted() == {"asked_for": 1}


def test_partitions_below_the_minimum_that_their_topic_asks_for_are_counted() -> None:
    world = CountingWorld.elected(1, 2, topics=(topic((1, 2), (2, 1), min_insync_replicas="2"),))
    assert isinstance(world, CountingWorld)
    assert world.readings()[f"{PREFIX}partitions_under_min_isr"] == 0
    world.send(died(2))
    world.settle()
    assert world.readings()[f"{PREFIX}partitions_under_min_isr"] == 2
    assert world.readings()[f"{PREFIX}partitions_under_replicated"] == 2


def test_a_broker_that_acknowledges_nothing_is_counted_until_it_answers() -> None:
    world = CountingWorld.elected(1, 2, topics=(topic((1, 2)),))
    assert isinstance(world, CountingWorld)
    assert world.readings()[f"{PREFIX}brokers_silent"] == 0
    world.send(ev.BrokerSilent(2, broker(2).broker_epoch, ()))
    assert world.readings()[f"{PREFIX}brokers_silent"] == 1
    assert world.readings()[f"{PREFIX}undelivered_age"] == 1.5
    world.send(ev.BrokerAnswers(2, broker(2).broker_epoch))
    assert world.readings()[f"{PREFIX}brokers_silent"] == 0


def test_each_metric_that_is_declared_is_read_and_no_other() -> None:
    counters = Counters()
    counters.failed_over("process_died", 0.2)

    async def read() -> Readings:
        return controller_readings(lambda: ClusterState(1), Inbox(SystemClock()), counters, lambda: 0)()

    readings = asyncio.run(read())
    assert readings.keys() == {metric.name for metric in METRICS}
    elections = readings[f"{PREFIX}elections"]
    assert elections == {(reason,): 0 for reason in ELECTION_REASONS}


def test_events_that_wait_are_counted_and_timed() -> None:
    async def wait() -> Inbox:
        inbox = Inbox(SystemClock())
        for _ in range(3):
            inbox.put(ev.Ticked())
        await inbox.get()
        return inbox

    inbox = asyncio.run(wait())
    assert (len(inbox), inbox.waited_s.count) == (2, 1)
