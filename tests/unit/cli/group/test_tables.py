"""Groups as an operator sees them, and as programs do."""

import json

import pytest
from hightide import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupMember,
    PartitionLag,
    TopicPartition,
)
from hightide_cli.group.reset_plan import PlannedReset
from hightide_cli.group.tables import (
    description_document,
    description_text,
    listing_document,
    listing_table,
    partitions_text,
    ranges_text,
    reset_document,
    reset_table,
    subscription_text,
)
from hightide_cli.printing.rendering import json_line

P0, P1, OTHER = TopicPartition("flights", 0), TopicPartition("flights", 1), TopicPartition("orders", 7)
MEMBER = GroupMember(
    consumer_id="c-1",
    instance_id="",
    peer="10.0.0.1:4711",
    session_timeout_ms=10_000,
    is_connected=True,
    topics={"flights": 1, "orders": 2},
    pattern="",
    partitions={P0: 3, P1: 4},
)
GROUP = GroupDescription(
    group="readers",
    state="stable",
    reason="consumer c-1 joined",
    generation=4,
    assignor="sticky",
    members=(MEMBER,),
    offsets={P0: CommittedOffset(40)},
    topics=("flights", "orders"),
    coordinator_id=2,
    coordinator_address="127.0.0.1:9292",
    coordinator_epoch=5,
    rebalance_count=2,
    last_rebalance_ms=120,
)
LAG = [PartitionLag(P0, 40, 100, 60, "c-1"), PartitionLag(P1, None, 7, None, "c-1")]


def test_groups_are_listed() -> None:
    listing = [GroupListing("readers", "stable", 4, 12, "127.0.0.1:9292")]
    assert listing_table(listing).splitlines()[1].split() == [
        "readers",
        "stable",
        "4",
        "12",
        "127.0.0.1:9292",
    ]
    assert listing_document(listing)["groups"] == [
        {
            "group": "readers",
            "state": "stable",
            "members": 4,
            "generation": 12,
            "coordinator_address": "127.0.0.1:9292",
        }
    ]


def test_a_group_is_described_with_its_reason_its_members_and_its_lag() -> None:
    head, members, partitions = description_text(GROUP, LAG).split("\n\n")
    lines = dict(line.split(maxsplit=1) for line in head.splitlines())
    assert lines["state"] == "stable"
    assert lines["reason"] == "consumer c-1 joined"
    assert lines["coordinator"] == "2 at 127.0.0.1:9292, epoch 5"
    assert lines["rebalances"] == "2 since this coordinator took over, the last took 120 ms"
    assert lines["lag"] == "60"
    assert "c-1       -         10.0.0.1:4711  10 s     yes        flights, orders ×2  flights 0-1" in members
    assert len(partitions.splitlines()) == 3


def test_a_group_without_members_and_offsets_is_only_its_head() -> None:
    empty = GroupDescription(
        "g", "empty", "", 0, "", (), {}, (), 1, "127.0.0.1:1", 1, rebalance_count=0, last_rebalance_ms=0
    )
    text = description_text(empty, [])
    assert "\n\n" not in text
    assert "reason       -" in text
    assert "took over\n" in text


def test_programs_get_each_partition_of_a_member_with_its_generation() -> None:
    document = json.loads(json_line(description_document(GROUP, LAG)))
    (member,) = document["members"]
    assert member["partitions"] == [
        {"topic": "flights", "partition": 0, "generation": 3},
        {"topic": "flights", "partition": 1, "generation": 4},
    ]
    assert member["topics"] == {"flights": 1, "orders": 2}
    assert (document["lag"], document["coordinator"], document["state"]) == (60, 2, "stable")
    assert [each["lag"] for each in document["partitions"]] == [60, None]


def test_a_pattern_is_shown_as_one() -> None:
    by_pattern = GroupMember("c", "i", "p", 1, is_connected=False, topics={}, pattern="fli.*")
    assert subscription_text(by_pattern) == "/fli.*/"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2, 3, 7], "0-3,7"), ([1, 3, 5], "1,3,5"), ([8, 9], "8-9")],
)
def test_many_partitions_are_told_as_ranges(numbers: list[int], text: str) -> None:
    assert ranges_text(numbers) == text


def test_partitions_are_told_by_topic() -> None:
    assert partitions_text([OTHER, P1, P0]) == "flights 0-1; orders 7"


def test_a_reset_shows_what_was_what_will_be_and_why_it_is_another() -> None:
    plain = PlannedReset(P0, 40, 30, 30, 100)
    clamped = PlannedReset(P1, None, 90, 50, 50)
    assert reset_table([plain]).splitlines() == [
        "TOPIC    PARTITION  COMMITTED  NEW  CHANGE  LAG THEN",
        "flights          0         40   30  -10           70",
    ]
    assert reset_table([plain, clamped]).splitlines()[2].split(maxsplit=6) == [
        "flights", "1", "-", "50", "-", "0", "90 is beyond the end",
    ]  # fmt: skip


def test_a_reset_that_was_refused_names_the_error_for_programs() -> None:
    planned = [PlannedReset(P0, 40, 30, 30, 100)]
    document = reset_document("g", planned, executed=False, errors={P0: "UNKNOWN_PARTITION"})
    assert document["dry_run"] is True
    assert document["partitions"] == [
        {
            "topic": "flights",
            "partition": 0,
            "committed": 40,
            "wanted": 30,
            "new": 30,
            "lag": 70,
            "error": "UNKNOWN_PARTITION",
        }
    ]
