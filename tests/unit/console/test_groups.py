"""The pages of groups say who reads what, how far behind, and why it was shared out anew."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hightide import GroupDescription, GroupListing, GroupMember, PartitionLag, TopicPartition
from hightide.errors import UnknownGroupError
from hightide_cli.top.history import GroupPace
from hightide_console.app import application
from hightide_console.looks import Survey
from hightide_console.views.groups import LagHistory, group_rows, group_view
from starlette.testclient import TestClient
from unit.console.canned_cluster import ADDRESS, CannedAdmin, CannedDoor, canned_console, survey

PLACE = TopicPartition("orders", 0)
MEMBER = GroupMember("reader-1", "", "127.0.0.1:4000", 10_000, True, {"orders": 1}, "", {PLACE: 3})
GROUP = GroupDescription(
    group="billing",
    state="stable",
    reason="member reader-1 joined",
    generation=3,
    assignor="range",
    members=(MEMBER,),
    offsets={},
    topics=("orders",),
    coordinator_id=1,
    coordinator_address="127.0.0.1:9291",
    coordinator_epoch=2,
    rebalance_count=4,
    last_rebalance_ms=35,
)
LAGS = [
    PartitionLag(TopicPartition("orders", 1), 90, 90, 0, None),
    PartitionLag(PLACE, 480, 500, 20, "reader-1"),
    PartitionLag(TopicPartition("orders", 2), None, 5, None, None),
]


def with_groups(*paces: GroupPace, number: int = 1) -> Survey:
    listed = tuple(GroupListing(each.name, "stable", each.member_count, 3, "c:1") for each in paces)
    seen = survey(number=number, groups=listed)
    return replace(seen, top=replace(seen.top, groups=paces))


def pace(name: str, lag: int) -> GroupPace:
    return GroupPace(name, "stable", 1, lag, 12.0)


def test_groups_with_the_most_lag_come_first() -> None:
    rows = group_rows(with_groups(pace("a", 5), pace("b", 4_000)))
    assert [(each.name, each.lag, each.rate) for each in rows] == [("b", "4,000", "12"), ("a", "5", "12")]
    assert group_rows(None) == []


def test_a_group_says_why_it_was_shared_out_and_who_owns_what() -> None:
    view = group_view(GROUP, LAGS)
    assert (view.reason, view.total_lag) == ("member reader-1 joined", 20)
    assert [(each.name, each.partitions, each.state) for each in view.members] == [
        ("reader-1", "orders-0", "connected")
    ]
    assert [(each.partition, each.owner, each.committed, each.lag) for each in view.partitions] == [
        ("orders-0", "reader-1", "480", "20"),
        ("orders-1", "nobody", "90", "0"),
        ("orders-2", "nobody", "–", "–"),
    ]


def test_names_of_members_come_from_others_and_hide_nothing() -> None:
    odd = replace(
        GROUP, members=(replace(MEMBER, consumer_id="a\u202eb", is_connected=False),), reason="\x1b[2J"
    )
    view = group_view(odd, [])
    assert (view.members[0].name, view.members[0].state) == ("a\\u202eb", "away")
    assert view.reason == "\\x1b[2J"


def test_a_member_with_a_thousand_partitions_is_counted() -> None:
    places = {TopicPartition("orders", each): 1 for each in range(1_000)}
    (row,) = group_view(replace(GROUP, members=(replace(MEMBER, partitions=places),)), []).members
    assert (row.count, row.partitions.endswith("and 980 more")) == (1_000, True)


def test_lag_is_remembered_for_a_bounded_time_and_number_of_groups() -> None:
    history = LagHistory()
    for number in range(1, 400):
        history.add(with_groups(pace("a", number), number=number))
    assert [len(column) for column in history.columns("a")] == [300, 300]
    assert history.columns("a")[1][-1] == 399
    history.add(with_groups(*(pace(f"g{each}", 1) for each in range(50)), number=401))
    assert history.columns("a") == [[], []]
    assert history.columns("g49") == [[], []]


class AdminOfGroups(CannedAdmin):
    async def describe_group(self, group: str) -> GroupDescription:
        if group != GROUP.group:
            raise UnknownGroupError(f"there is no group {group}")
        return GROUP

    async def group_lag(self, group: str) -> list[PartitionLag]:
        return LAGS


@pytest.fixture
def client() -> Iterator[TestClient]:
    console = canned_console()
    console.door = CannedDoor(AdminOfGroups())
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        client.get(f"/?token={console.access.secret}")
        yield client


def test_the_page_of_a_group_has_its_members_and_the_command_of_a_reset(client: TestClient) -> None:
    page = client.get("/groups/billing").text
    for text in ("member reader-1 joined", "127.0.0.1:4000", "group reset-offsets billing --to-earliest"):
        assert text in page


def test_an_unknown_group_is_said(client: TestClient) -> None:
    answer = client.get("/groups/nope")
    assert (answer.status_code, "there is no group nope" in answer.text) == (502, True)


def test_without_groups_the_page_says_how_to_make_one(client: TestClient) -> None:
    assert "There is no group yet" in client.get("/groups").text
