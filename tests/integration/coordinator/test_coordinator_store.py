"""What the coordinator reads from a real ZooKeeper and writes to it, also among what operators left there."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from hightide_coordinator.core.events import (
    StoreCommitted,
    StoreFenced,
    StoreRefused,
    StoreUnknown,
)
from hightide_coordinator.core.values.registration import StoredGroup
from hightide_coordinator.core.values.topic_partition import Topic, TopicPartition
from hightide_coordinator.zookeeper.shard_count import fix_shard_count
from hightide_coordinator.zookeeper.store import CoordinatorStore
from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.cluster_znodes import TopicZnode
from hightide_runtime.znodes.group_znodes import (
    GROUPS,
    SHARDS_DEFAULT,
    CoordinatorEpochZnode,
    CoordinatorZnode,
    GroupZnode,
    OffsetZnode,
    OwnerZnode,
    shard_of,
)
from hightide_runtime.zookeeper.session import NoNode, ZooKeeperSession
from integration.coordinator.coordinator_rig import (
    FLIGHTS,
    FLIGHTS_ID,
    committed,
    connected,
    me,
    owner,
    put_topic,
    store_of,
    with_active,
)
from msgspec.structs import replace

DONE = StoreCommitted(7)
REFUSED = StoreRefused(7)
GROUP = GroupZnode.path("readers")


# ---- elections


def test_an_election_creates_the_coordinator_and_moves_its_epoch_at_once(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        found = await operator.get(CoordinatorZnode.path(0, 1))
        assert CoordinatorZnode.decode(found.data) == CoordinatorZnode(1, "127.0.0.1", 1, 1)
        assert found.ephemeral_owner != 0
        epoch = await operator.get(CoordinatorEpochZnode.path(0, 1))
        assert CoordinatorEpochZnode.decode(epoch.data).coordinator_epoch == 1
        second = CoordinatorStore(operator, 0, 1, me(2))
        assert await second.elect() is None
        await store.abdicate()
        assert await second.elect() == 2

    with_active(zookeeper_hosts, test)


def test_of_many_that_take_over_from_a_dead_one_one_does(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        others = [CoordinatorStore(operator, 0, 1, me(2)), CoordinatorStore(operator, 0, 1, me(3))]
        won = await asyncio.gather(*(other.elect(1) for other in others))
        assert sorted(won, key=str) == [2, None]
        # The word that number 1 is dead is of no use against its successor.
        assert await store.elect(1) is None

    with_active(zookeeper_hosts, test)


def test_a_coordinator_that_was_replaced_writes_nothing(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        assert await store.store_group(store_of(store, offsets={FLIGHTS: committed(5)})) == DONE
        assert await CoordinatorStore(operator, 0, 1, me(2)).elect(1) == 2
        outcomes = [
            await store.store_group(store_of(store, offsets={FLIGHTS: committed(9)})),
            await store.store_group(store_of(store, group="others")),
            await store.store_group(replace(store_of(store), delete_group=True)),
            await store.store_group(store_of(store)),
        ]
        assert outcomes == [StoreFenced(7)] * 4
        found = await operator.get(OffsetZnode.path("readers", *FLIGHTS))
        assert OffsetZnode.decode(found.data).offset == 5
        assert await operator.children(GROUPS) == ["readers"]

    with_active(zookeeper_hosts, test)


def test_an_election_that_was_won_unheard_is_taken_up(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        assert await store.resume() == 1
        assert await CoordinatorStore(operator, 0, 1, me(2)).elect(1) == 2
        assert await store.resume() is None

    with_active(zookeeper_hosts, test)


def test_an_epoch_that_an_operator_takes_away_does_not_begin_anew(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        for epoch in (2, 3):
            await store.abdicate()
            assert await store.elect() == epoch
        await operator.delete(CoordinatorEpochZnode.path(0, 1))
        assert await store.store_group(store_of(store)) == StoreFenced(7)
        # Consumers obey no lower epoch than they have seen.
        await store.abdicate()
        assert await store.elect() == 4

    with_active(zookeeper_hosts, test)


def test_the_number_of_shards_is_fixed_by_whoever_starts_first(zookeeper_hosts: str) -> None:
    async def run() -> None:
        async with connected(zookeeper_hosts) as session:
            await fix_shard_count(session, 4)
            await fix_shard_count(session, 4)
            with pytest.raises(StartupError, match="--shards 4, or without --shards"):
                await fix_shard_count(session, 1)

    asyncio.run(run())


def test_a_new_cluster_gets_as_many_shards_as_several_coordinators_need(zookeeper_hosts: str) -> None:
    async def run() -> None:
        async with connected(zookeeper_hosts) as session:
            assert [await fix_shard_count(session, None) for _ in range(2)] == [SHARDS_DEFAULT] * 2
            assert all(SHARDS_DEFAULT % coordinators == 0 for coordinators in (1, 2, 3, 4, 6))

    asyncio.run(run())


def test_a_cluster_that_was_begun_with_one_shard_keeps_it(zookeeper_hosts: str) -> None:
    async def run() -> None:
        async with connected(zookeeper_hosts) as session:
            assert await fix_shard_count(session, 1) == 1
            assert await fix_shard_count(session, None) == 1

    asyncio.run(run())


def test_a_coordinator_loads_the_groups_of_its_shard_only(zookeeper_hosts: str) -> None:
    async def run() -> None:
        async with connected(zookeeper_hosts) as session:
            await fix_shard_count(session, 2)
            names = [f"readers-{number}" for number in range(20)]
            stores = [CoordinatorStore(session, shard, 2, me()) for shard in range(2)]
            for store in stores:
                assert await store.elect() == 1
            for name in names:
                store = stores[shard_of(name, 2)]
                assert await store.store_group(store_of(store, group=name)) == DONE
            loaded = [set((await store.load()).groups) for store in stores]
            assert all(loaded)
            assert loaded == [{name for name in names if shard_of(name, 2) == shard} for shard in range(2)]

    asyncio.run(run())


# ---- groups


def test_what_is_stored_is_what_the_next_coordinator_loads(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        await put_topic(operator, "flights", 3)
        mine = replace(owner(), instance_id="i-1", stream=2)
        with_metadata = replace(committed(5), metadata="as of noon")
        first = store_of(store, {FLIGHTS: mine}, {FLIGHTS: with_metadata})
        assert await store.store_group(first) == DONE
        moved = TopicPartition("flights", 2)
        second = store_of(store, {FLIGHTS: None, moved: owner("m-2", 2)}, {moved: committed(0)}, generation=2)
        assert await store.store_group(second) == DONE
        successor = CoordinatorStore(operator, 0, 1, me(2))
        assert await successor.elect(1) == 2
        loaded = await successor.load()
        assert loaded.coordinator_epoch == 2
        assert loaded.topics == {"flights": Topic("flights", FLIGHTS_ID, 3)}
        assert loaded.groups == {
            "readers": StoredGroup(
                2, 10_000, {moved: owner("m-2", 2)}, {FLIGHTS: with_metadata, moved: committed(0)}
            )
        }

    with_active(zookeeper_hosts, test)


async def one_by_one_s(operator: ZooKeeperSession, znodes: int) -> float:
    """How long so many znodes would take one after the other, on this machine as busy as it is now."""
    sample = 200
    began = time.perf_counter()
    for _ in range(sample):
        await operator.get(GROUP)
    return (time.perf_counter() - began) / sample * znodes


def test_ten_thousand_owners_and_offsets_are_stored_and_loaded_many_at_once(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        await put_topic(operator, "flights", 5_000)
        names = [TopicPartition("flights", number) for number in range(5_000)]
        effect = store_of(store, {name: owner() for name in names}, {name: committed(1) for name in names})
        stored_s: dict[int, list[float]] = {1: [], 2: []}
        loaded_s: list[float] = []
        # Three times, since any one of them may be that in which the machine did something else.
        for group in ("readers", "others", "third"):
            for generation in (1, 2):
                began = time.perf_counter()
                stored = replace(effect, group=group, generation=generation)
                assert await store.store_group(stored) == DONE
                stored_s[generation].append(time.perf_counter() - began)
            began = time.perf_counter()
            loaded = await store.load()
            loaded_s.append((time.perf_counter() - began) / len(loaded.groups))
            assert loaded.groups[group].owners == effect.owners
            assert loaded.groups[group].offsets == effect.offsets
            assert loaded.groups[group].generation == 2
        # A ninth of it on a quiet machine.
        bound_s = await one_by_one_s(operator, 10_000) / 2
        assert min(stored_s[1]) < bound_s
        assert min(stored_s[2]) < bound_s
        assert min(loaded_s) < bound_s

    with_active(zookeeper_hosts, test)


def test_a_large_store_is_done_up_to_what_an_operator_has_changed_and_not_beyond(
    zookeeper_hosts: str,
) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        names = [TopicPartition("flights", number) for number in range(2_000)]
        offsets = {name: committed(1) for name in names}
        assert await store.store_group(store_of(store, offsets=dict(offsets))) == DONE
        touched = OffsetZnode.path("readers", "flights", 1_500)
        await operator.set(touched, (await operator.get(touched)).data, 0)
        further = {name: committed(2) for name in names}
        effect = store_of(store, {FLIGHTS: owner("m-1", 2)}, dict(further), generation=2)
        assert await store.store_group(effect) == REFUSED
        found = (await store.read_group("readers")).stored
        assert found is not None
        assert found.generation == 2
        assert found.owners == {}
        done = [found.offsets[name].offset for name in names]
        assert done == sorted(done, reverse=True)
        assert set(done) == {1, 2}
        # Read again, it is stored in full.
        assert await store.store_group(effect) == DONE
        found = (await store.read_group("readers")).stored
        assert found == StoredGroup(2, 10_000, {FLIGHTS: owner("m-1", 2)}, further)

    with_active(zookeeper_hosts, test)


@pytest.mark.parametrize("path", [GROUP, OffsetZnode.path("readers", *FLIGHTS)])
def test_a_store_beside_an_operator_is_refused_and_goes_through_once_the_group_was_read_again(
    zookeeper_hosts: str, path: str
) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        assert await store.store_group(store_of(store, offsets={FLIGHTS: committed(5)})) == DONE
        await operator.set(path, (await operator.get(path)).data, 0)
        effect = store_of(store, offsets={FLIGHTS: committed(6)})
        assert await store.store_group(effect) == REFUSED
        found = (await store.read_group("readers")).stored
        assert found == StoredGroup(1, 10_000, {}, {FLIGHTS: committed(5)})
        assert await store.store_group(effect) == DONE

    with_active(zookeeper_hosts, test)


def test_what_an_operator_has_taken_away_is_made_again(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        effect = store_of(store, {FLIGHTS: owner()}, {FLIGHTS: committed(5)})
        assert await store.store_group(effect) == DONE
        taken = OffsetZnode.path("readers", *FLIGHTS)
        for path in (taken, taken.rpartition("/")[0], OffsetZnode.parent("readers")):
            await operator.delete(path)
        assert await store.store_group(effect) == REFUSED
        assert (await store.read_group("readers")).stored == StoredGroup(1, 10_000, {FLIGHTS: owner()}, {})
        assert await store.store_group(effect) == DONE
        assert await operator.exists(taken) is not None

    with_active(zookeeper_hosts, test)


def test_a_group_that_is_not_there_is_told_as_such_and_can_be_stored(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        assert (await store.read_group("readers")).stored is None
        assert await store.store_group(store_of(store)) == DONE
        assert (await store.read_group("readers")).stored == StoredGroup(1, 10_000)
        for path in (OwnerZnode.parent("readers"), OffsetZnode.parent("readers"), GROUP):
            await operator.delete(path)
        assert await store.store_group(store_of(store, generation=2)) == REFUSED
        assert (await store.read_group("readers")).stored is None
        assert await store.store_group(store_of(store, generation=2)) == DONE

    with_active(zookeeper_hosts, test)


def test_topics_that_a_group_has_done_with_leave_nothing_behind(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        effect = store_of(store, {FLIGHTS: owner()}, {FLIGHTS: committed(5)})
        assert await store.store_group(effect) == DONE
        assert await store.store_group(store_of(store, {FLIGHTS: None}, {FLIGHTS: None})) == DONE
        assert await operator.children(OwnerZnode.parent("readers")) == []
        assert await operator.children(OffsetZnode.parent("readers")) == []
        # Also where it is nobody's and has no offset already; and it can come back.
        assert await store.store_group(store_of(store, {FLIGHTS: None}, {FLIGHTS: None})) == DONE
        assert await store.store_group(effect) == DONE

    with_active(zookeeper_hosts, test)


def test_a_group_is_deleted_with_all_that_hands_have_left_in_it(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        deletion = replace(store_of(store), delete_group=True)
        assert await store.store_group(deletion) == DONE
        names = [TopicPartition("flights", number) for number in range(1_200)]
        effect = store_of(store, {FLIGHTS: owner()}, {name: committed(1) for name in names})
        assert await store.store_group(effect) == DONE
        await operator.ensure_path(f"{GROUP}/notes/of/an operator")
        await operator.ensure_path(f"{OffsetZnode.path('readers', *FLIGHTS)}/note")
        assert await store.store_group(deletion) == DONE
        assert await operator.exists(GROUP) is None
        assert (await store.read_group("readers")).stored is None
        assert await store.store_group(effect) == DONE

    with_active(zookeeper_hosts, test)


def test_without_a_connection_the_outcome_is_unknown(zookeeper_hosts: str) -> None:
    async def run() -> None:
        async with connected(zookeeper_hosts) as session:
            await fix_shard_count(session, 1)
            store = CoordinatorStore(session, 0, 1, me())
            assert await store.elect() == 1
            await session.close()
            assert await store.store_group(store_of(store)) == StoreUnknown(7)

    asyncio.run(run())


# ---- nonsense


def test_nonsense_in_a_group_is_complained_about_once_and_harms_nothing(
    zookeeper_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        second = TopicPartition("flights", 1)
        effect = store_of(
            store,
            {FLIGHTS: owner("m-1", 4), second: owner("m-1", 4)},
            {FLIGHTS: committed(5), second: committed(6)},
            generation=4,
        )
        assert await store.store_group(effect) == DONE
        await operator.create(f"{GROUPS}/no group", b"")
        await operator.create(f"{OwnerZnode.parent('readers')}/no topic", b"")
        await operator.create(f"{OffsetZnode.parent('readers')}/flights/07", b"")
        await operator.create(f"{OffsetZnode.parent('readers')}/flights/8", b"\xff")
        await operator.create(f"{OffsetZnode.parent('readers')}/flights/9", b'{"offset":-1}')
        await operator.set(OwnerZnode.path("readers", *second), b"[]", 0)
        await operator.set(GROUP, b"{", (await operator.get(GROUP)).version)
        for _ in range(2):
            loaded = await store.load()
            assert loaded.groups == {
                "readers": StoredGroup(
                    4, 0, {FLIGHTS: owner("m-1", 4)}, {FLIGHTS: committed(5), second: committed(6)}
                )
            }
        complaints = [each for each in caplog.records if each.name.startswith("hightide_coordinator")]
        assert len(complaints) == 7
        # What is there to be written is written over what made no sense.
        mended = replace(effect, generation=5, offsets={TopicPartition("flights", 9): committed(1)})
        assert await store.store_group(mended) == DONE
        stored = (await store.load()).groups["readers"]
        assert (stored.generation, stored.session_timeout_ms) == (5, 10_000)
        assert stored.owners == effect.owners
        assert stored.offsets[TopicPartition("flights", 9)] == committed(1)

    with caplog.at_level(logging.ERROR):
        with_active(zookeeper_hosts, test)


def test_of_a_topic_that_an_operator_has_garbled_no_offset_is_lost(zookeeper_hosts: str) -> None:
    async def test(operator: ZooKeeperSession, store: CoordinatorStore) -> None:
        await put_topic(operator, "flights")
        assert await store.store_group(store_of(store, offsets={FLIGHTS: committed(5)})) == DONE
        path = TopicZnode.path("flights")
        before = await operator.get(path)
        await operator.set(path, b"{", before.version)
        loaded = await store.load()
        # Neither the topic nor its offsets, but that there are some: nobody may conclude that it is gone.
        assert loaded.topics == {}
        assert loaded.groups == {"readers": StoredGroup(1, 10_000, withheld=frozenset({"flights"}))}
        await operator.set(path, before.data, before.version + 1)
        # Whoever begins it anew is refused, and reads the truth.
        assert await store.store_group(store_of(store, offsets={FLIGHTS: committed(0)})) == REFUSED
        found = (await store.read_group("readers")).stored
        assert found == StoredGroup(1, 10_000, {}, {FLIGHTS: committed(5)})

    with_active(zookeeper_hosts, test)


def test_nonsense_at_the_coordinator_s_own_znode_is_nobody_s_and_stays(zookeeper_hosts: str) -> None:
    async def run() -> None:
        async with connected(zookeeper_hosts) as session:
            await fix_shard_count(session, 1)
            await session.create(CoordinatorZnode.path(0, 1), b"nonsense")
            store = CoordinatorStore(session, 0, 1, me())
            standing = await store.standing()
            assert standing is not None
            assert not standing.is_mine
            assert await store.elect() is None
            await store.abdicate()
            assert await session.get(CoordinatorZnode.path(0, 1))
            with pytest.raises(NoNode):
                await session.get(CoordinatorEpochZnode.path(0, 1))

    asyncio.run(run())
