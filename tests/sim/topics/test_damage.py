"""A broker whose files were damaged while it was down comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from random import Random

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core.values import requests as rq
from sim.topics.damage import DAMAGES, Damage, segments
from sim.topics.files import Directory, MemoryDisk
from sim.topics.schedules import FIRST_ID, FLUSHED_AFTER_MS, TOPIC, begin, heal
from sim.topics.world import BROKERS, CONTROLLERS, Cluster

SEEDS = range(3)
KEY = (bytes.fromhex(FIRST_ID), 0)
RECORDS = 10
of_each_kind = pytest.mark.parametrize("kind", DAMAGES, ids=lambda kind: kind.__name__.strip("_"))


@contextmanager
def world_with_records() -> Iterator[Cluster]:
    """On brokers 1, 2 and 3, in several segments."""
    with closing(Cluster()) as world:
        begin(world)
        world.ask(rq.AlterTopicConfigRequested(0, TOPIC, {"segment.bytes": "2000"}), ef.AnswerTopic)
        world.settle()
        for _ in range(RECORDS - 1):
            assert world.produce_to(TOPIC) is not None
            world.settle()
        yield world


@of_each_kind
def test_who_was_killed_and_starts_before_all_others_leads_nothing_that_it_lacks(kind: Damage) -> None:
    for seed in SEEDS:
        with world_with_records() as world:
            for node_id in (*CONTROLLERS, *BROKERS):
                world.crash(node_id)
                world.expire(node_id)
            world.damage(1, seed, (kind,))
            for node_id in (1, *CONTROLLERS):
                world.restart(node_id)
            world.settle()
            state = world.state(TOPIC, 0)
            assert state is not None
            has_all = len(world.hosts[1].logs.log(KEY).log) == RECORDS
            assert has_all or state.leader == -1
            heal(world)
            log = world.hosts[1].logs.log(KEY)
            assert (log.log_start, len(log.log)) == (0, RECORDS + 1), "one was produced since"


@of_each_kind
def test_who_was_told_to_stop_has_all_again(kind: Damage) -> None:
    for seed in SEEDS:
        with world_with_records() as world:
            world.stop(1)
            world.settle()
            assert not world.hosts[1].alive
            world.damage(1, seed, (kind,))
            heal(world)
            log = world.hosts[1].logs.log(KEY)
            assert (log.log_start, len(log.log)) == (0, RECORDS + 1), "one was produced since"


def test_who_was_in_sync_alone_and_lost_its_oldest_records_has_all_again() -> None:
    """The others were no members any more, and have all that was acknowledged. It stays the last member,
    since an ISR is never empty, and is in sync again only with all."""
    with world_with_records() as world:
        for node_id in (2, 3):
            world.crash(node_id)
            world.expire(node_id)
        world.settle_until(lambda: isr_and_eligible(world) == ((1,), (2, 3)))
        world.crash(1)
        world.expire(1)
        world.damage(1, 0, (without_the_first_segment,))
        world.restart(1)
        world.settle()
        assert isr_and_eligible(world) == ((1,), (2, 3))
        heal(world)
        log = world.hosts[1].logs.log(KEY)
        assert (log.log_start, len(log.log)) == (0, RECORDS + 1), "one was produced since"


def test_who_leads_without_its_oldest_records_has_all_again_once_others_are_in_sync() -> None:
    """The others were no members any more, and nobody was to have all but the one that lost some. They have
    what it lacks: it hands over to them without a restart."""
    with world_with_records() as world:
        world.ask(rq.AlterTopicConfigRequested(0, TOPIC, {"min.insync.replicas": "1"}), ef.AnswerTopic)
        world.settle()
        for node_id in (2, 3):
            world.crash(node_id)
            world.expire(node_id)
        world.settle_until(lambda: isr_and_eligible(world) == ((1,), ()))
        assert world.produce_to(TOPIC) is not None
        world.crash(1)
        world.expire(1)
        world.damage(1, 0, (without_the_first_segment,))
        world.restart(1)
        world.settle_until(lambda: is_damaged(world, 1))
        world.settle()
        assert leader_and_isr(world) == (1, (1,)), "nobody else can lead"
        for node_id in (2, 3):
            world.restart(node_id)
        world.settle_until(lambda: not is_damaged(world, 1))
        world.settle_until(lambda: set(leader_and_isr(world)[1]) == {1, 2, 3})
        log = world.hosts[1].logs.log(KEY)
        assert (log.log_start, len(log.log)) == (0, RECORDS + 1)
        heal(world)


def test_who_lacks_its_oldest_records_and_stays_eligible_has_all_again_once_a_third_is_in_sync() -> None:
    """It led, since all logs ended alike after a power cut. Without it too few are in sync to commit, so it
    counts as one that has all, and keeps its log. The third joins by a write of the leader alone."""
    with world_with_records() as world:
        world.advance(FLUSHED_AFTER_MS)
        world.settle()
        for node_id in BROKERS:
            world.crash(node_id)
            world.expire(node_id)
        world.damage(1, 0, (without_the_first_segment,))
        for node_id in BROKERS:
            world.lose_power(node_id, 0)
        for node_id in (3, 2):
            world.restart(node_id)
            world.settle()
        world.cut_links |= {(3, 1), (3, 2)}
        world.restart(1)
        for _ in range(30):
            world.advance(1_000)
            world.settle()
        assert isr_and_eligible(world) == ((2,), (1,))
        assert is_damaged(world, 1)
        world.cut_links.clear()
        for _ in range(60):
            world.advance(1_000)
            world.settle()
        assert leader_and_isr(world) == (2, (1, 2, 3))
        heal(world)
        log = world.hosts[1].logs.log(KEY)
        assert (log.log_start, len(log.log)) == (0, RECORDS + 1)


def test_who_lacks_a_segment_in_the_middle_is_in_sync_once_it_has_all_again() -> None:
    with world_with_records() as world:
        assert world.produce_to(TOPIC) is not None, "the first record of a third segment"
        world.settle()
        world.advance(FLUSHED_AFTER_MS)  # A start reads no segment but the last.
        world.settle()
        world.crash(3)
        world.expire(3)
        world.damage(3, 0, (without_the_second_segment,))
        world.restart(3)
        world.converge(2)
        heal(world)
        log = world.hosts[3].logs.log(KEY)
        assert (log.log_start, len(log.log)) == (0, RECORDS + 2), "one was produced since"


@pytest.mark.parametrize("end", [Cluster.stop, Cluster.crash])
def test_who_was_not_mended_when_it_ended_is_in_sync_only_with_all(
    end: Callable[[Cluster, int], None],
) -> None:
    """A clean stop leaves nothing to read at the start, and what is missing in the middle is not noticed."""
    with world_with_records() as world:
        assert world.produce_to(TOPIC) is not None, "the first record of a third segment"
        world.settle()
        world.advance(FLUSHED_AFTER_MS)
        world.settle()
        world.crash(3)
        world.expire(3)
        world.damage(3, 0, (without_the_second_segment,))
        for other in (1, 2):
            world.hold(3, other)  # It cannot fetch what it lacks.
            world.hold(other, 3)
        world.restart(3)
        world.converge(2)
        assert isr_and_eligible(world)[0] == (1, 2)
        end(world, 3)
        world.converge(1)
        for other in (1, 2):
            world.release(3, other)
            world.release(other, 3)
        heal(world)
        log = world.hosts[3].logs.log(KEY)
        assert (log.log_start, len(log.log)) == (0, RECORDS + 2), "one was produced since"


@pytest.mark.parametrize("lacking", [(1,), (2,), (1, 2), (3,)])
def test_who_lacks_a_segment_where_its_leader_parts_from_it_is_in_sync_again(
    lacking: tuple[int, ...],
) -> None:
    """It led alone, and nobody else has what it wrote then: no peer can give it back."""
    with world_with_records() as world:
        world.ask(rq.AlterTopicConfigRequested(0, TOPIC, {"min.insync.replicas": "2"}), ef.AnswerTopic)
        world.settle()
        for follower in (2, 3):
            world.hold(1, follower)
        for _ in range(RECORDS):
            assert world.produce(1, KEY) is not None
            world.settle()
        world.advance(FLUSHED_AFTER_MS)  # A start reads no segment but the last.
        world.settle()
        world.crash(1)
        world.expire(1)
        for follower in (2, 3):
            world.release(1, follower)
        world.settle()
        assert world.produce_to(TOPIC) is not None
        world.settle()

        def without(_disk: MemoryDisk, path: str, log: Directory, _random: Random) -> str:
            gone = [segments(log)[place] for place in lacking]
            for name in gone:
                del log.entries[name]
            return f"{path} lacks {gone}"

        world.damage(1, 0, (without,))
        world.restart(1)
        heal(world)
        log = world.hosts[1].logs.log(KEY)
        assert (log.log_start, len(log.log)) == (0, RECORDS + 2), "one was produced since"


@pytest.mark.parametrize("broker_id", [2, 3])
def test_who_loses_the_file_of_its_epochs_while_it_runs_leads_and_follows_on(broker_id: int) -> None:
    """2 leads next, 3 follows it: neither can note the new epoch before it has the file again."""
    with world_with_records() as world:
        log = world.hosts[broker_id].logs.partitions()[KEY]
        del log.entries["leader_epochs"]
        world.crash(1)
        world.expire(1)
        world.converge(2)
        assert world.produce_to(TOPIC) is not None
        heal(world)
        assert "leader_epochs" in log.entries


def without_the_second_segment(_disk: MemoryDisk, path: str, log: Directory, _random: Random) -> str:
    """Others are before and behind it."""
    _first, second, *others = segments(log)
    assert others
    del log.entries[second]
    return f"{path} lacks {second}"


def without_the_first_segment(_disk: MemoryDisk, path: str, log: Directory, _random: Random) -> str:
    """Others follow it."""
    first, *others = segments(log)
    assert others
    del log.entries[first]
    return f"{path} lacks {first}"


def is_damaged(world: Cluster, broker_id: int) -> bool:
    """Whether the broker knows that its replica is."""
    replica = world.hosts[broker_id].replica(KEY)
    return replica is not None and replica.hosted.is_damaged


def leader_and_isr(world: Cluster) -> tuple[int, tuple[int, ...]]:
    """As ZooKeeper has them."""
    state = world.state(TOPIC, 0)
    assert state is not None
    return state.leader, state.isr


def isr_and_eligible(world: Cluster) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """As ZooKeeper has them."""
    state = world.state(TOPIC, 0)
    assert state is not None
    return state.isr, state.eligible
