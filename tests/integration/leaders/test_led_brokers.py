"""Brokers that have no controller: clients write and read, and nothing is lost when brokers go and come."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from hightide import Consumer, Producer
from hightide_leaders.core import events as ev
from hightide_leaders.core.effects import Outcome
from hightide_leaders.core.values import TopicPartition
from integration.leaders.led_brokers import BROKERS, led_brokers, looking_at

TOPIC = "tide"
ID = "a" * 32


def produced(bootstrap: str, values: list[bytes]) -> None:
    with Producer(bootstrap, acks="all") as producer:
        for each in [producer.send(TOPIC, value) for value in values]:
            each.result(timeout_s=120)


def consumed(bootstrap: str, count: int) -> list[bytes | None]:
    with Consumer(bootstrap, topics=TOPIC) as consumer:
        found: list[bytes | None] = []
        while len(found) < count:
            found += [record.value for record in consumer.poll(timeout_s=60)]
    return found


def lose_power_and_the_end_of_the_log(data: Path) -> None:
    """The machine has booted anew, and a third of the one log had not reached its disk."""
    (data / "machine_boot_id").write_bytes(b"an-earlier-boot-of-this-machine")
    (data / "marks").unlink()
    (segment,) = data.rglob("*.log")
    segment.write_bytes(segment.read_bytes()[: -segment.stat().st_size // 3])


def test_what_was_acknowledged_is_there_after_the_leader_is_killed_and_comes_back(tmp_path: Path) -> None:
    async def run() -> None:
        with led_brokers(tmp_path) as brokers:
            async with looking_at(brokers) as looker:
                await looker.create(TOPIC, ID, ((1, 2, 3),))
                assert await looker.led(TOPIC, by=(1,), isr=(1, 2, 3)) == 1
                before = [b"before-%d" % number for number in range(100)]
                await asyncio.to_thread(produced, brokers.bootstrap, before)
                brokers.process(1).kill()
                after = [b"after-%d" % number for number in range(100)]
                await asyncio.to_thread(produced, brokers.bootstrap, after)
                assert await looker.leader(TOPIC) in (2, 3)
                brokers.start(1)
                assert await looker.led(TOPIC, by=(1,), isr=(1, 2, 3)) == 1
                assert await asyncio.to_thread(consumed, brokers.bootstrap, 200) == before + after

    asyncio.run(run())


def test_a_leader_that_is_told_to_stop_hands_over_and_nobody_waits_for_its_session(tmp_path: Path) -> None:
    async def run() -> None:
        with led_brokers(tmp_path) as brokers:
            async with looking_at(brokers) as looker:
                await looker.create(TOPIC, ID, ((1, 2, 3),))
                assert await looker.led(TOPIC, by=(1,), isr=(1, 2, 3)) == 1
                await asyncio.to_thread(produced, brokers.bootstrap, [b"before"])
                assert await asyncio.to_thread(brokers.process(1).terminate, 60)
                # It was out of the ISR before its process ended; a broker that dies stays in it for a while.
                assert await looker.isr(TOPIC) == (2, 3)
                await looker.led(TOPIC, by=(2, 3), isr=(2, 3))
                await asyncio.to_thread(produced, brokers.bootstrap, [b"after"])
                brokers.start(1)
                assert await looker.led(TOPIC, by=(1,), isr=(1, 2, 3)) == 1
                assert await asyncio.to_thread(consumed, brokers.bootstrap, 2) == [b"before", b"after"]

    asyncio.run(run())


def test_a_broker_that_lost_the_end_of_its_log_leaves_the_isr_before_it_registers(tmp_path: Path) -> None:
    async def run() -> None:
        with led_brokers(tmp_path) as brokers:
            async with looking_at(brokers) as looker:
                await looker.create(TOPIC, ID, ((1, 2, 3),))
                assert await looker.led(TOPIC, by=(1,), isr=(1, 2, 3)) == 1
                values = [b"%d" % number for number in range(300)]
                await asyncio.to_thread(produced, brokers.bootstrap, values)
                for number in BROKERS:
                    brokers.process(number).kill()
                lose_power_and_the_end_of_the_log(brokers.data(1))
                await looker.restart(1)
                # It is the preferred replica and alone, and still does not lead.
                assert await looker.doubted(TOPIC) == {1}
                assert await looker.leader(TOPIC) == -1
                brokers.start(2)
                brokers.start(3)
                await looker.led(TOPIC, by=(1,), isr=(1, 2, 3))
                assert await asyncio.to_thread(consumed, brokers.bootstrap, 300) == values

    asyncio.run(run())


def test_a_dead_follower_leaves_the_isr_with_its_registration_and_acks_all_does_not_wait_longer(
    tmp_path: Path,
) -> None:
    """The time for a replica that lags is longer than the producer waits for its acknowledgement."""

    async def run() -> None:
        with led_brokers(tmp_path, ("--replica-lag-time-max-ms", "600000")) as brokers:
            async with looking_at(brokers) as looker:
                await looker.create(TOPIC, ID, ((1, 2, 3),))
                await looker.led(TOPIC, by=(1,), isr=(1, 2, 3))
                await asyncio.to_thread(produced, brokers.bootstrap, [b"before"])
                brokers.process(3).kill()
                await asyncio.to_thread(produced, brokers.bootstrap, [b"after"])
                await looker.led(TOPIC, by=(1,), isr=(1, 2))
                await looker.restart(3)
                await looker.led(TOPIC, by=(1,), isr=(1, 2, 3))
                assert await asyncio.to_thread(consumed, brokers.bootstrap, 2) == [b"before", b"after"]

    asyncio.run(run())


def test_a_topic_that_is_deleted_and_created_again_begins_empty(tmp_path: Path) -> None:
    async def run() -> None:
        with led_brokers(tmp_path) as brokers:
            async with looking_at(brokers) as looker:
                await looker.create(TOPIC, ID, ((1, 2, 3),))
                await looker.led(TOPIC, by=(1,), isr=(1, 2, 3))
                await asyncio.to_thread(produced, brokers.bootstrap, [b"of the first"])
                brokers.process(3).kill()
                await looker.gone(3)
                assert await looker.ask(lambda n: ev.DeletionRequested(n, TOPIC)) is Outcome.DONE
                await looker.create(TOPIC, "b" * 32, ((2, 1),))
                await looker.led(TOPIC, by=(2,), isr=(1, 2))
                await asyncio.to_thread(produced, brokers.bootstrap, [b"of the second"])
                await looker.restart(3)
                # Its queue had the order to close the replica, from when it was dead.
                assert not list(brokers.data(3).glob(f"topics/{ID}*"))
                assert await asyncio.to_thread(consumed, brokers.bootstrap, 1) == [b"of the second"]

    asyncio.run(run())


def test_a_partition_is_moved_while_records_come(tmp_path: Path) -> None:
    async def run() -> None:
        with led_brokers(tmp_path) as brokers:
            async with looking_at(brokers) as looker:
                await looker.create(TOPIC, ID, ((1, 2),))
                await looker.led(TOPIC, by=(1,), isr=(1, 2))
                values = [b"%d" % number for number in range(2_000)]
                producing = asyncio.create_task(asyncio.to_thread(produced, brokers.bootstrap, values))
                name = TopicPartition(TOPIC, 0)
                asked = await looker.ask(lambda n: ev.ReassignmentRequested(n, name, (3, 2)))
                assert asked is Outcome.DONE
                await looker.led(TOPIC, by=(3,), isr=(2, 3))
                await producing
                assert await asyncio.to_thread(consumed, brokers.bootstrap, 2_000) == values

    asyncio.run(run())


def test_a_broker_whose_session_ends_while_it_runs_leads_again_in_another_one(tmp_path: Path) -> None:
    async def run() -> None:
        with led_brokers(tmp_path) as brokers:
            async with looking_at(brokers) as looker:
                await looker.create(TOPIC, ID, ((1, 2, 3),))
                await looker.led(TOPIC, by=(1,), isr=(1, 2, 3))
                before = [b"before-%d" % number for number in range(100)]
                await asyncio.to_thread(produced, brokers.bootstrap, before)
                brokers.process(1).send(signal.SIGSTOP)
                await looker.gone(1)
                after = [b"after-%d" % number for number in range(100)]
                await asyncio.to_thread(produced, brokers.bootstrap, after)
                assert await looker.leader(TOPIC) in (2, 3)
                brokers.process(1).send(signal.SIGCONT)
                assert await looker.led(TOPIC, by=(1,), isr=(1, 2, 3)) == 1
                assert await asyncio.to_thread(consumed, brokers.bootstrap, 200) == before + after

    asyncio.run(run())
