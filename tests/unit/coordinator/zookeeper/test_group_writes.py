"""How a StoreGroup becomes conditional writes: what they depend on, and in which order they are done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hightide_coordinator.core.effects import StoreGroup
from hightide_coordinator.core.values.registration import PartitionOwner, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition
from hightide_coordinator.zookeeper.group_layout import GroupLayout
from hightide_coordinator.zookeeper.group_writes import deletion_of, multis_for, tidying_of
from hightide_runtime.znodes.group_znodes import CoordinatorEpochZnode, GroupZnode, OffsetZnode, OwnerZnode
from hightide_runtime.zookeeper.session import Check, Create, Delete, Operation, SetData
from hypothesis import given
from hypothesis import strategies as st

FENCE = Check(CoordinatorEpochZnode.path(0, 1), 3)
GROUP = GroupZnode.path("readers")
OWNER = PartitionOwner("m", "c", "", 0, 1)
COMMITTED = StoredOffset(5, 0, bytes(16))

names = st.builds(TopicPartition, st.sampled_from(["flights", "weather"]), st.integers(0, 2))
stores = st.builds(
    StoreGroup,
    st.just(7),
    st.just("readers"),
    st.just(1),
    st.integers(1, 3),
    st.just(10_000),
    st.dictionaries(names, st.sampled_from([OWNER, None])),
    st.dictionaries(names, st.sampled_from([COMMITTED, None])),
)


class Stored:
    """What ZooKeeper would hold: applies a multi whole, or not at all."""

    def __init__(self) -> None:
        self.znodes: dict[str, tuple[bytes, int]] = {}

    def apply(self, multi: Sequence[Operation]) -> list[int] | None:
        znodes, versions = dict(self.znodes), []
        for operation in multi:
            path = operation.path
            match operation:
                case Check() if path == FENCE.path:
                    versions.append(operation.version)
                    continue
                case Create(data=data) if path not in znodes and self._has_parent(path, znodes):
                    znodes[path] = (data, 0)
                case SetData(data=data, version=version) if znodes.get(path, (b"", -2))[1] == version:
                    znodes[path] = (data, version + 1)
                case Check(version=version) if znodes.get(path, (b"", -2))[1] == version:
                    pass
                case Delete(version=version) if self._may_go(path, version, znodes):
                    del znodes[path]
                    versions.append(-1)
                    continue
                case _:
                    return None
            versions.append(znodes[path][1])
        self.znodes = znodes
        return versions

    @staticmethod
    def _has_parent(path: str, znodes: Iterable[str]) -> bool:
        return path == GROUP or path.rpartition("/")[0] in znodes

    @staticmethod
    def _may_go(path: str, version: int, znodes: dict[str, tuple[bytes, int]]) -> bool:
        has_children = any(each.startswith(path + "/") for each in znodes)
        return path in znodes and version in (-1, znodes[path][1]) and not has_children


def carry_out(stored: Stored, layout: GroupLayout, multis: Sequence[Sequence[Operation]]) -> None:
    """All of it, as the store does."""
    for multi in multis:
        versions = stored.apply(multi)
        assert versions is not None, multi
        layout.applied(multi, versions)


def store_of(
    owners: dict[TopicPartition, PartitionOwner | None] | None = None,
    offsets: dict[TopicPartition, StoredOffset | None] | None = None,
    generation: int = 1,
) -> StoreGroup:
    return StoreGroup(7, "readers", 1, generation, 10_000, owners or {}, offsets or {})


@given(st.lists(stores, max_size=6))
def test_whatever_is_stored_one_after_the_other_stands_there(effects: list[StoreGroup]) -> None:
    stored, layout = Stored(), GroupLayout(GROUP)
    expected: dict[str, bytes] = {}
    for effect in effects:
        multis = multis_for(effect, layout, FENCE)
        carry_out(stored, layout, multis)
        for path in tidying_of(multis, layout):
            carry_out(stored, layout, [[FENCE, Delete(path, -1)]])
        written: dict[str, object] = {
            OwnerZnode.path("readers", *name): owner for name, owner in effect.owners.items()
        }
        written |= {OffsetZnode.path("readers", *name): each for name, each in effect.offsets.items()}
        for path, value in written.items():
            expected.pop(path, None)
            if value is not None:
                expected[path] = stored.znodes[path][0]
        parents = {path.rpartition("/")[0] for path in expected}
        roots = {GROUP, OwnerZnode.parent("readers"), OffsetZnode.parent("readers")}
        assert stored.znodes.keys() == expected.keys() | parents | roots
        # The next write finds what it expects: the layout is what stands there.
        assert layout.versions.keys() == stored.znodes.keys()
        group = GroupZnode.decode(stored.znodes[GROUP][0])
        assert group.generation == effect.generation


def test_every_multi_begins_with_the_coordinator_epoch() -> None:
    offsets: dict[TopicPartition, StoredOffset | None] = {
        TopicPartition("flights", number): COMMITTED for number in range(2_500)
    }
    for layout in (GroupLayout(GROUP), standing(offsets)):
        multis = multis_for(store_of(offsets=offsets, generation=2), layout, FENCE)
        assert len(multis) == 3
        assert all(multi[0] == FENCE for multi in multis)
    assert multis_for(store_of(), GroupLayout(GROUP), FENCE)[0][0] == FENCE


def standing(offsets: dict[TopicPartition, StoredOffset | None]) -> GroupLayout:
    """A group that has committed all of these."""
    layout = GroupLayout(GROUP)
    carry_out(Stored(), layout, multis_for(store_of(offsets=offsets), layout, FENCE))
    return layout


def test_offsets_are_written_before_owners() -> None:
    flights = TopicPartition("flights", 0)
    (multi,) = multis_for(store_of({flights: OWNER}, {flights: COMMITTED}), GroupLayout(GROUP), FENCE)
    paths = [operation.path for operation in multi]
    assert paths.index(OffsetZnode.path("readers", *flights)) < paths.index(
        OwnerZnode.path("readers", *flights)
    )
    assert paths[1] == GROUP


def test_a_multi_fails_where_the_one_before_it_has_failed() -> None:
    offsets: dict[TopicPartition, StoredOffset | None] = {
        TopicPartition("flights", number): COMMITTED for number in range(2_500)
    }
    for failing in range(3):
        stored, layout = Stored(), GroupLayout(GROUP)
        carry_out(stored, layout, multis_for(store_of(offsets=offsets), layout, FENCE))
        multis = multis_for(store_of(offsets=offsets, generation=2), layout, FENCE)
        done = [stored.apply(multi) is not None for at, multi in enumerate(multis) if at != failing]
        assert done == [True] * failing + [False] * (2 - failing)


def test_a_commit_writes_nothing_but_the_offset_where_the_group_is_as_it_was() -> None:
    flights = TopicPartition("flights", 0)
    layout = standing({flights: COMMITTED})
    (multi,) = multis_for(store_of(offsets={flights: COMMITTED}), layout, FENCE)
    assert multi[:2] == [FENCE, Check(GROUP, 0)]
    assert [type(operation) for operation in multi[2:]] == [SetData]


def test_a_deletion_takes_the_group_s_own_znode_last() -> None:
    layout = standing({TopicPartition("flights", number): COMMITTED for number in range(2_500)})
    found = [(path, version) for path, version in layout.versions.items() if path != GROUP]
    multis = deletion_of("readers", found, layout, FENCE)
    assert len(multis) == 3
    deleted = [operation.path for multi in multis for operation in multi if isinstance(operation, Delete)]
    assert deleted[-1] == GROUP
    assert len(deleted) == len(layout.versions)
    deeper = [path.count("/") for path in deleted]
    assert deeper == sorted(deeper, reverse=True)


def test_what_does_not_stand_there_is_not_deleted() -> None:
    flights = TopicPartition("flights", 0)
    (multi,) = multis_for(store_of({flights: None}, {flights: None}), standing({}), FENCE)
    assert multi == [FENCE, Check(GROUP, 0)]
