"""What moves in a cluster is the difference of two looks, and a look at a large cluster is cheap."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hightide import (
    BrokerDescription,
    ClusterDescription,
    Reassignment,
    ReplicaDescription,
    ReplicaListing,
    TopicPartition,
)
from hightide.errors import BrokersUnavailableError
from hightide_cli.top.commands import follow
from hightide_cli.top.history import GroupLook, Look, TopHistory, TopView
from hightide_cli.top.text import top_document, top_text

CLUSTER = ClusterDescription(
    cluster_id="c",
    controller_id=1,
    controller_address="c1:1",
    controller_epoch=4,
    brokers=(BrokerDescription(1, "b1:1", True, 1, 2, 2), BrokerDescription(2, None, False, 0, 0, 2)),
    topic_count=2,
    partition_count=2,
    offline_partition_count=0,
    under_replicated_partition_count=2,
    under_min_isr_partition_count=0,
)
ORDERS, LINES = TopicPartition("orders", 0), TopicPartition("lines", 0)


def replica(
    where: TopicPartition, broker: int, mark: int, size: int, *, leads: bool = True, epoch: int = 1
) -> ReplicaDescription:
    return ReplicaDescription(where, bytes(16), broker, leads, epoch, 0, mark, mark, size)


def look(at_s: float, *replicas: ReplicaDescription, groups: tuple[GroupLook, ...] = ()) -> Look:
    return Look(at_s, CLUSTER, ReplicaListing(replicas), groups, len(groups))


def topics(view: TopView) -> dict[str, tuple[float | None, float | None]]:
    return {name: (own.records_per_s, own.bytes_per_s) for name, own in view.topics}


def test_rates_come_with_the_second_look() -> None:
    history = TopHistory()
    first = history.look(look(10.0, replica(ORDERS, 1, 100, 1_000), replica(LINES, 1, 5, 50)))
    assert topics(first) == {"orders": (None, None), "lines": (None, None)}
    follower = replica(ORDERS, 2, 290, 2_900, leads=False)
    second = history.look(look(12.0, replica(ORDERS, 1, 300, 3_000), follower, replica(LINES, 1, 5, 50)))
    assert topics(second) == {"orders": (100.0, 1_000.0), "lines": (0.0, 0.0)}
    assert [name for name, _ in second.topics] == ["orders", "lines"]
    assert (second.total.records_per_s, second.total.size_bytes) == (100.0, 3_050)
    brokers = dict(second.brokers)
    # What a follower copies has come in already.
    assert (brokers[1].records_per_s, brokers[2].records_per_s) == (100.0, None)
    assert brokers[2].size_bytes == 2_900


def test_what_is_new_or_was_cut_has_not_come_in() -> None:
    history = TopHistory()
    history.look(look(0.0, replica(ORDERS, 1, 100, 1_000)))
    view = history.look(look(1.0, replica(ORDERS, 2, 90, 10), replica(LINES, 1, 1_000_000, 1)))
    assert topics(view) == {"orders": (0.0, 0.0), "lines": (0.0, 0.0)}


def test_a_leader_that_was_deposed_counts_nothing() -> None:
    history = TopHistory()
    history.look(look(0.0, replica(ORDERS, 1, 100, 1_000)))
    stale = replica(ORDERS, 1, 999, 9_999)
    view = history.look(look(1.0, stale, replica(ORDERS, 2, 150, 1_500, epoch=2)))
    assert topics(view) == {"orders": (50.0, 500.0)}
    assert view.total.leads == 1


def test_groups_are_asked_in_turns_and_keep_their_last_answer() -> None:
    history = TopHistory()
    a, b = GroupLook("a", "STABLE", 2, {ORDERS: 40}), GroupLook("b", "EMPTY", 0, {ORDERS: 90, LINES: 7})
    history.look(look(0.0, replica(ORDERS, 1, 100, 1), groups=(a, b)), ["a", "b"])
    later = replace(a, committed={ORDERS: 80})
    view = history.look(look(2.0, replica(ORDERS, 1, 200, 1), groups=(later,)), ["a", "b"])
    assert [(each.name, each.lag, each.records_per_s) for each in view.groups] == [
        ("a", 120, 20.0),
        ("b", 110, None),
    ]
    gone = history.look(look(3.0, replica(ORDERS, 1, 200, 1)), ["a"])
    assert [each.name for each in gone.groups] == ["a"]


def test_it_is_shown_as_text_and_as_a_document() -> None:
    history = TopHistory()
    group = GroupLook("readers", "STABLE", 2, {ORDERS: 40})
    history.look(look(0.0, replica(ORDERS, 1, 0, 0), replica(LINES, 1, 0, 0)))
    move = Reassignment(ORDERS, bytes(16), (1,), (2,), (1, 2), (1,), 1)
    busy = replace(
        look(1.0, replica(ORDERS, 1, 2_000, 10), replica(LINES, 1, 0, 0), groups=(group,)), moves=(move,)
    )
    view = history.look(busy, ["readers"])
    text = top_text(view, rows_max=1)
    assert "in: 2,000 records/s, 10 B/s; 10 B on leaders" in text
    assert "… and 1 more topics" in text
    assert "readers  STABLE        2  1960  -" in text
    assert "orders-0  1     2   1" in text
    document = json.loads(json.dumps(top_document(view)))
    assert [each["topic"] for each in document["by_topic"]] == ["orders", "lines"]
    assert [(each["broker"], each["alive"]) for each in document["brokers"]] == [(1, True), (2, False)]
    assert document["groups"][0]["lag"] == 1_960


@pytest.mark.parametrize("count", [10_000])
def test_a_look_at_ten_thousand_partitions_is_cheap(count: int) -> None:
    history = TopHistory()
    replicas = [
        replica(TopicPartition(f"t{at % 100}", at), 1 + broker, at, at, leads=broker == 0)
        for at in range(count)
        for broker in range(3)
    ]
    history.look(look(0.0, *replicas))
    begun_s = time.thread_time()
    view = history.look(look(1.0, *replicas))
    text = top_text(view, 20)
    assert time.thread_time() - begun_s < 1.0
    assert text.count("\n") < 40


def test_a_look_that_fails_does_not_end_the_view_and_what_was_seen_last_stays() -> None:
    seen = TopHistory().look(look(10.0, replica(ORDERS, 1, 100, 1_000)))
    away = BrokersUnavailableError("no broker answered within 10 s: b1:1", addresses=("b1:1",))
    looks: Iterator[TopView | BrokersUnavailableError] = iter([away, seen, away, seen])
    shown: list[str] = []
    slept_s: list[float] = []

    def next_look() -> tuple[TopView, float]:
        found = next(looks, None)
        if found is None:
            raise KeyboardInterrupt
        if isinstance(found, BrokersUnavailableError):
            raise found
        return found, 0.0

    with pytest.raises(KeyboardInterrupt):
        follow(next_look, shown.append, 2.0, slept_s.append)
    before_any, at_first, during, after = shown
    assert "no broker answered within 10 s: b1:1" in before_any
    assert "orders" in at_first
    assert "no broker answered within 10 s: b1:1" in during
    assert during.endswith(at_first)
    assert after == at_first
    assert slept_s == [2.0] * 4


def test_where_leaders_decide_no_broker_is_taken_for_a_controller() -> None:
    led = replace(look(1.0), cluster=replace(CLUSTER, coordination="leaders"))
    assert "cluster c  no controller  brokers 1 of 2" in top_text(TopHistory().look(led), 5)
