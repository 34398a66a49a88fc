"""When a group is whole: each partition has one reader, and each member has a partition."""

from hightide_bench.peers.rows.group_cover import GroupCover


def cover(*events: tuple[float, int, int, list[int]]) -> GroupCover:
    """Of 4 partitions and 2 members; each event is a time, a process, a member of it, and its partitions."""
    group = GroupCover(partitions=4, members=2)
    for at_s, process, member, partitions in events:
        group.take(process, [(at_s, member, partitions)])
    return group


def test_a_group_is_whole_when_the_last_partition_has_its_reader() -> None:
    joining = [(1.0, 0, 0, [0, 1, 2, 3]), (2.0, 0, 0, [0, 1]), (3.0, 1, 0, [2, 3])]
    assert cover(*joining).whole_since_s(set()) == 3.0
    assert cover(*joining[:2]).whole_since_s(set()) is None


def test_what_the_processes_say_is_put_in_order() -> None:
    late = cover((3.0, 1, 0, [2, 3]), (2.0, 0, 0, [0, 1]), (1.0, 0, 0, [0, 1, 2, 3]))
    assert late.whole_since_s(set()) == 3.0


def test_two_readers_of_a_partition_are_not_a_whole_group() -> None:
    assert cover((1.0, 0, 0, [0, 1]), (2.0, 1, 0, [1, 2, 3])).whole_since_s(set()) is None


def test_a_member_without_a_partition_is_not_a_whole_group() -> None:
    assert cover((1.0, 0, 0, [0, 1, 2, 3]), (2.0, 1, 0, [])).whole_since_s(set()) is None


def test_a_group_that_breaks_is_whole_from_the_time_at_which_it_is_mended() -> None:
    broken = cover((1.0, 0, 0, [0, 1]), (2.0, 1, 0, [2, 3]), (4.0, 1, 0, [2]), (5.0, 1, 0, [2, 3]))
    assert broken.whole_since_s(set()) == 5.0


def test_who_is_gone_need_not_say_so() -> None:
    killed = [(1.0, 0, 0, [0, 1]), (2.0, 1, 0, [2, 3])]
    assert cover(*killed).whole_since_s({(1, 0)}) is None
    assert cover(*killed, (9.0, 0, 0, [0, 1, 2, 3])).whole_since_s({(1, 0)}) == 9.0
