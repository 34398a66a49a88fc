"""What has changed of leaders and ISRs from look to look, and which partitions are unwell."""

from hightide import PartitionDescription, TopicDescription, TopicPartition
from hightide_cli.topic.isr_changes import IsrWatch
from hightide_cli.topic.unwell_partitions import Wanted

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def part(
    isr: tuple[int, ...], leader: int | None = 1, epoch: int = 0, number: int = 0
) -> PartitionDescription:
    return PartitionDescription(number, leader, epoch, (1, 2, 3), isr)


def test_the_first_look_tells_of_what_is_not_well() -> None:
    watch = IsrWatch()
    changes = watch.look({FIRST: part((1, 2, 3)), SECOND: part((1, 2))})
    assert [each.sentence() for each in changes] == ["t-1  isr 1,2 of 1,2,3  leader 1 epoch 0"]
    assert (watch.partition_count, watch.lacking_count) == (2, 1)


def test_each_change_is_told_once() -> None:
    watch = IsrWatch()
    watch.look({FIRST: part((1, 2, 3))})
    (left,) = watch.look({FIRST: part((2, 3), leader=2, epoch=1)})
    assert left.sentence() == "t-0  isr 2,3 of 1,2,3  leader 2 (was 1) epoch 1  left 1"
    assert watch.look({FIRST: part((3, 2), leader=2, epoch=1)}) == [], "their order is no change"
    (joined,) = watch.look({FIRST: part((2, 3, 1), leader=2, epoch=1)})
    assert (joined.joined, joined.left) == ((1,), ())
    assert watch.lacking_count == 0


def test_partitions_come_and_go_while_they_are_watched() -> None:
    watch = IsrWatch()
    watch.look({FIRST: part((1, 2, 3))})
    (new,) = watch.look({FIRST: part((1, 2, 3)), SECOND: part((), leader=None)})
    assert new.sentence() == "t-1  isr none of 1,2,3  no leader epoch 0"
    assert watch.look({FIRST: part((1, 2, 3))}) == []


def test_only_partitions_that_are_as_asked_for_are_listed() -> None:
    whole, lacking, offline = part((1, 2, 3)), part((1,), number=1), part((2,), None, number=2)
    topics = [
        TopicDescription("strict", b"", (whole, lacking, offline), {"min.insync.replicas": "2"}),
        TopicDescription("well", b"", (whole,)),
    ]

    def found(wanted: Wanted) -> list[tuple[str, list[int]]]:
        return [(each.name, [p.partition for p in each.partitions]) for each in wanted.of(topics)]

    assert found(Wanted()) == [("strict", [0, 1, 2]), ("well", [0])]
    assert found(Wanted(offline=True)) == [("strict", [2])]
    assert found(Wanted(under_replicated=True)) == [("strict", [1, 2])]
    assert found(Wanted(under_min_isr=True)) == [("strict", [1, 2])]


def test_no_more_replicas_need_to_be_in_sync_than_there_are() -> None:
    only = TopicDescription(
        "small", b"", (PartitionDescription(0, 1, 0, (1,), (1,)),), {"min.insync.replicas": "2"}
    )
    assert Wanted(under_min_isr=True).of([only]) == []
