"""The page of a topic shows where each replica is, and where each setting comes from."""

from hightide_console.views.grid import CellState
from hightide_console.views.topic import topic_view
from unit.console.canned_cluster import ORDERS, partition, survey, topic


def test_a_partition_has_its_offsets_from_its_leader() -> None:
    row = topic_view(ORDERS, survey()).partitions[0]
    assert (row.leader, row.start, row.end, row.records, row.size) == ("1", "0", "500", "500", "50 kB")


def test_each_replica_says_what_it_is() -> None:
    orders = topic("orders", partition(0, isr=(1, 2)))
    first, second, third = topic_view(orders, survey()).partitions[0].replicas
    assert first.title == "broker 1, leader, preferred leader"
    assert second.title == "broker 2, in sync"
    assert third.title == "broker 3, not in sync, 20 records behind"


def test_an_offline_partition_has_no_offsets() -> None:
    row = topic_view(topic("orders", partition(0, leader=None, isr=(1,))), survey()).partitions[0]
    assert (row.state, row.leader, row.end) == (CellState.OFFLINE, "none", "–")


def test_without_a_survey_there_are_partitions_and_no_sizes() -> None:
    row = topic_view(ORDERS, None).partitions[1]
    assert (row.leader, row.size) == ("2", "–")


def test_replicas_of_an_earlier_topic_of_that_name_do_not_count() -> None:
    anew = topic("orders", partition(0), topic_id=b"n" * 16)
    assert topic_view(anew, survey()).partitions[0].end == "–"


def test_settings_say_where_they_come_from() -> None:
    rows = {each.name: each for each in topic_view(ORDERS, None).settings}
    assert (rows["min.insync.replicas"].value, rows["min.insync.replicas"].origin) == ("2", "topic")
    assert rows["min.insync.replicas"].is_own
    assert (rows["retention.ms"].origin, rows["retention.ms"].is_own) == ("default", False)


def test_partitions_come_in_pages() -> None:
    many = topic("many", *(partition(each) for each in range(450)))
    view = topic_view(many, None, 3)
    assert (view.page, view.page_count, [each.partition for each in view.partitions][:1]) == (3, 3, [400])
    assert topic_view(many, None, 99).page == 3
