"""The metadata cache: what clients are told between two words of the controller."""

from __future__ import annotations

from hightide_broker.cluster.metadata import (
    DELETED_IDS_MAX,
    EndpointView,
    LeaderChange,
    MetadataCache,
    MetadataUpdate,
    PartitionView,
    RemovedPartitions,
    TopicView,
)
from msgspec.structs import replace

ONE, OTHER = bytes(15) + b"\x01", bytes(15) + b"\x02"


def partition(number: int = 0, leader: int = 1, epoch: int = 0, version: int = 0) -> PartitionView:
    return PartitionView(number, leader, epoch, (1, 2, 3), (1, 2), version)


def topic(*partitions: PartitionView, name: str = "flights", topic_id: bytes = ONE) -> TopicView:
    return TopicView(name, topic_id, partitions, {})


def update(*topics: TopicView, full: bool = False, deleted: tuple[bytes, ...] = ()) -> MetadataUpdate:
    return MetadataUpdate(1, EndpointView(9, "c", 1), (EndpointView(1, "b", 2),), topics, deleted, full)


def cache(*updates: MetadataUpdate) -> MetadataCache:
    built = MetadataCache("the-cluster")
    for each in updates:
        built.apply(each)
    return built


def test_an_update_merges_partitions_into_their_topic_in_order() -> None:
    known = cache(update(topic(partition(2), partition(0))), update(topic(partition(1))))
    assert (held := known.topic("flights")) is not None
    assert [view.partition for view in held.partitions] == [0, 1, 2]


def test_older_news_does_not_replace_newer() -> None:
    known = cache(update(topic(partition(leader=2, epoch=5))), update(topic(partition(leader=1, epoch=4))))
    assert (held := known.partition(ONE, 0)) is not None
    assert held.leader == 2


def test_a_full_update_forgets_what_it_does_not_name() -> None:
    known = cache(
        update(topic(partition()), topic(partition(), name="gone", topic_id=OTHER)),
        update(topic(partition()), full=True),
    )
    assert known.topic("gone") is None
    assert known.topic_by_id(OTHER) is None
    assert known.topic("flights") is not None


def test_a_full_update_forgets_the_partitions_it_does_not_name() -> None:
    known = cache(update(topic(partition(0), partition(1))), update(topic(partition(0)), full=True))
    assert known.partition(ONE, 1) is None


def test_a_topic_created_again_under_another_id_replaces_the_old_one() -> None:
    known = cache(update(topic(partition(epoch=7))), update(topic(partition(epoch=0), topic_id=OTHER)))
    assert known.topic_by_id(ONE) is None
    assert (held := known.topic("flights")) is not None
    assert held.topic_id == OTHER


def test_a_deleted_topic_is_forgotten_by_its_id() -> None:
    known = cache(update(topic(partition())), update(deleted=(ONE, OTHER)))
    assert known.topics() == []


def test_a_leadership_decision_can_be_ahead_of_the_update() -> None:
    known = cache(update(TopicView("flights", ONE, (partition(),), {"retention.ms": "1"})))
    known.note_decisions("flights", ONE, [partition(leader=3, epoch=1)])
    assert (held := known.topic("flights")) is not None
    assert held.partitions[0].leader == 3
    assert held.configs == {"retention.ms": "1"}


def test_partitions_are_found_by_number_also_where_numbers_have_gaps() -> None:
    known = cache(update(topic(partition(3), partition(7, leader=2))))
    assert (held := known.partition(ONE, 7)) is not None
    assert held.leader == 2
    assert known.partition(ONE, 0) is None
    assert known.partition(OTHER, 0) is None


def test_an_update_that_names_fewer_partitions_takes_none_away() -> None:
    known = cache(update(topic(partition(0), partition(1))), update(topic(partition(0, leader=2, epoch=1))))
    assert known.partition(ONE, 1) is not None


def test_removed_partitions_vanish_and_can_come_back() -> None:
    known = cache(update(topic(partition(0), partition(1, epoch=3, version=9), partition(2))))
    known.apply(replace(update(), removed=(RemovedPartitions(ONE, (1, 2)), RemovedPartitions(OTHER, (1,)))))
    assert (held := known.topic("flights")) is not None
    assert [view.partition for view in held.partitions] == [0]
    known.apply(update(topic(partition(1, epoch=4, version=0))))
    assert known.partition(ONE, 1) is not None


def test_who_is_forgotten_is_told() -> None:
    known = cache(update(topic(partition()), topic(partition(), name="gone", topic_id=OTHER)))
    again = bytes(15) + b"\x03"
    assert known.apply(update(topic(partition(), topic_id=again), deleted=(OTHER,))) == (OTHER, ONE)
    assert known.apply(update(full=True)) == (again,)
    assert [known.name_of_deleted(each) for each in (ONE, OTHER, again)] == ["flights", "gone", "flights"]


def test_a_late_decision_does_not_bring_a_deleted_topic_back() -> None:
    known = cache(update(topic(partition())), update(topic(partition(), topic_id=OTHER)))
    known.note_decisions("flights", ONE, [partition(epoch=9)])
    assert (held := known.topic("flights")) is not None
    assert held.topic_id == OTHER


def test_so_many_deleted_topics_are_remembered_and_no_more() -> None:
    known = cache(update(deleted=tuple(number.to_bytes(16, "big") for number in range(DELETED_IDS_MAX + 5))))
    known.apply(update(topic(partition(), topic_id=(7).to_bytes(16, "big"))))
    known.apply(update(deleted=((7).to_bytes(16, "big"),)))
    assert known.name_of_deleted((7).to_bytes(16, "big")) == "flights"
    assert known.name_of_deleted((0).to_bytes(16, "big")) == ""


def change_of(known: MetadataCache) -> LeaderChange | None:
    view = known.partition(ONE, 0)
    assert view is not None
    return view.change


def test_a_partition_remembers_what_began_its_leader_epoch() -> None:
    failover = LeaderChange("failover")
    known = cache(update(topic(partition(epoch=4))))
    known.note_decisions("flights", ONE, [partition(epoch=5)], failover)
    assert change_of(known) is failover
    known.apply(update(topic(partition(epoch=5, version=1))), failover)
    assert change_of(known) is failover


def test_a_takeover_that_tells_everything_again_wipes_nothing_and_claims_nothing() -> None:
    failover, takeover = LeaderChange("failover"), LeaderChange("takeover")
    known = cache(update(topic(partition(epoch=4), partition(1, epoch=0))))
    known.note_decisions("flights", ONE, [partition(epoch=5)], failover)
    known.apply(update(topic(partition(epoch=5), partition(1, epoch=0)), full=True), takeover)
    assert change_of(known) is failover
    other = known.partition(ONE, 1)
    assert other is not None
    assert other.change is None


def test_a_broker_that_begins_to_know_the_cluster_claims_no_trace_for_it() -> None:
    takeover = LeaderChange("takeover")
    known = MetadataCache("the-cluster")
    known.apply(update(topic(partition(epoch=5)), full=True), takeover)
    assert change_of(known) is None
    known.note_decisions("flights", ONE, [partition(epoch=6)], takeover)
    assert change_of(known) is takeover


def test_a_later_change_that_nobody_traced_is_not_the_earlier_one() -> None:
    known = cache(update(topic(partition(epoch=4))))
    known.note_decisions("flights", ONE, [partition(epoch=5)], LeaderChange("failover"))
    known.apply(update(topic(partition(epoch=6))))
    assert change_of(known) is None
