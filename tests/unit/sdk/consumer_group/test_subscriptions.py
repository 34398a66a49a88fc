"""What a member subscribes to changes: subscribe() again, unsubscribe(), and consumers that begin without."""

import pytest
from hightide.consumer_group.membership_state import MembershipState
from hightide.consumer_group.ownership import OwnershipChange
from hightide.consumer_group.settings import GroupSettings
from hightide.errors import InvalidArgumentError, InvalidPatternError
from unit.sdk.consumer_bench import batch
from unit.sdk.group_bench import GroupBench, changes, owned, parts, positions
from unit.sdk.producer_bench import TOPIC


def subscribe(bench: GroupBench, topics: object = None, **wanted: object) -> None:
    """The user subscribes."""
    arguments = {"pattern": None, "exclude": (), "pattern_streams": 1, **wanted}
    settings = bench.core.settings.subscribed_to(topics, **arguments)  # type: ignore[arg-type]
    bench.core.subscribe(settings, bench.now_ms)
    bench.poll()


def unsubscribe(bench: GroupBench) -> list[tuple[OwnershipChange, list[int]]]:
    """The user unsubscribes, and the coordinator ends the stream."""
    bench.ownership.came_back()
    told = changes(bench.ownership.farewell())
    bench.core.leave(bench.now_ms)
    bench.poll()
    if bench.membership.state is MembershipState.LEAVING:
        bench.end()
    bench.core.left()
    return told


def reading() -> GroupBench:
    """A member that owns the partitions 0 and 1, and has 10 records of 0 waiting."""
    bench = GroupBench(auto_commit=True).register()
    bench.give(0, 1)
    bench.serve(p0=batch(0, 10))
    bench.tell_user()
    bench.said()
    return bench


def test_a_consumer_that_subscribes_to_nothing_asks_nobody_and_says_so() -> None:
    bench = GroupBench(topics={})
    bench.pass_ms(10_000)
    assert (bench.streams, bench.asked) == ([], [])
    with pytest.raises(InvalidArgumentError, match="group readers subscribes to nothing"):
        bench.core.raise_errors(bench.now_ms)
    subscribe(bench, TOPIC)
    bench.register()
    assert [each.topic for each in bench.registration.registration.topics] == [TOPIC]
    bench.core.raise_errors(bench.now_ms)


def test_a_member_that_subscribes_to_more_registers_again_and_keeps_what_it_owns() -> None:
    bench = reading()
    subscribe(bench, [TOPIC, "later"])
    assert len(bench.streams) == 2
    assert bench.streams[0] in bench.core.cancelled, "the coordinator has one stream of a member"
    said = bench.registration.registration
    assert (said.member_id, [each.topic for each in said.topics]) == ("m-1", [TOPIC, "later"])
    assert [each.partition for each in said.owned] == [0, 1]
    bench.register(*owned(0, 1))
    assert bench.tell_user() == []
    assert [record.offset for record in bench.user_polls()] == list(range(10))


def test_records_of_a_topic_that_is_no_longer_named_are_not_returned() -> None:
    bench = reading()
    first = bench.user_polls(4)
    assert [record.offset for record in first] == [0, 1, 2, 3]
    subscribe(bench, "other")
    assert bench.user_polls() == []
    assert bench.ownership.assignment == ()
    bench.register(*owned(0, 1))
    bench.take(0, 1)
    assert bench.user_polls() == []
    stopped = [each for each in bench.said() if each.WhichOneof("message") == "stop_fetcher"]
    assert [positions(each) for each in stopped] == [{0: 4, 1: 0}], (
        "what was returned is done, and nothing else"
    )


def test_a_topic_that_is_named_again_before_it_was_taken_away_goes_on_where_it_was() -> None:
    bench = reading()
    assert len(bench.user_polls(4)) == 4
    subscribe(bench, "other")
    subscribe(bench, TOPIC)
    assert [record.offset for record in bench.user_polls()] == [4, 5, 6, 7, 8, 9]
    assert bench.ownership.assignment == parts(0, 1)


def test_a_broken_stream_does_not_bring_back_what_is_no_longer_named() -> None:
    bench = reading()
    subscribe(bench, "other")
    bench.register(*owned(0, 1))
    bench.tell(stop_fetcher={"partitions": owned(0, 1)})
    bench.membership.ownership.connection_lost()
    assert bench.user_polls() == []


def test_what_is_subscribed_to_while_the_registration_is_under_way_is_said_under_its_member_id() -> None:
    bench = GroupBench()
    bench.answer_metadata()
    assert bench.membership.state is MembershipState.REGISTERING
    subscribe(bench, "other")
    assert len(bench.streams) == 1, "a second one without a member id would be another member"
    bench.register()
    said = bench.registration.registration
    assert (len(bench.streams), said.member_id, said.topics[0].topic) == (2, "m-1", "other")


def test_who_unsubscribes_gives_everything_back_and_may_subscribe_again() -> None:
    bench = reading()
    assert len(bench.user_polls(4)) == 4
    assert unsubscribe(bench) == [(OwnershipChange.REVOKED, [0, 1])]
    goodbye = bench.said()[-1]
    assert (goodbye.WhichOneof("message"), positions(goodbye)) == ("goodbye", {0: 4})
    assert bench.user_polls() == []
    assert (bench.ownership.owned, bench.tell_user()) == ({}, [])
    with pytest.raises(InvalidArgumentError, match="subscribes to nothing"):
        bench.core.raise_errors(bench.now_ms)
    subscribe(bench, TOPIC)
    bench.register(member_id="m-2")
    assert bench.registration.registration.member_id == "", "the goodbye ended the membership"
    bench.give(0, offset=4, generation=3)
    bench.serve(p0=batch(0, 10))
    assert changes(bench.tell_user()) == [(OwnershipChange.ASSIGNED, [0])]
    assert [record.offset for record in bench.user_polls()] == [4, 5, 6, 7, 8, 9]


def test_who_unsubscribes_twice_or_before_any_use_has_nothing_to_say() -> None:
    bench = GroupBench(topics={})
    assert unsubscribe(bench) == []
    assert unsubscribe(bench) == []
    assert bench.streams == []


def test_who_was_refused_may_subscribe_to_something_else() -> None:
    bench = reading()
    subscribe(bench, pattern="a(", exclude=["c", "b"])
    said = bench.registration.registration
    assert (said.pattern, list(said.exclude), list(said.topics)) == ("a(", ["b", "c"], [])
    bench.end(InvalidPatternError("no RE2 expression"))
    with pytest.raises(InvalidPatternError):
        bench.core.raise_errors(bench.now_ms)
    subscribe(bench, TOPIC)
    bench.register()
    assert bench.registration.registration.member_id == "m-1", "it is a member still"
    bench.core.raise_errors(bench.now_ms)


def test_a_topic_that_is_no_longer_named_is_not_missed() -> None:
    bench = GroupBench(topics={"nope": 1}).register()
    subscribe(bench, TOPIC)
    bench.register()
    bench.pass_s(20)
    bench.core.raise_errors(bench.now_ms)
    assert "nope" not in bench.consumer.seeker.topics


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({}, "neither topics nor pattern="),
        ({"topics": ["a"], "pattern": "b"}, "both topics= and pattern="),
        ({"topics": ["a"], "exclude": ["b"]}, "needs a pattern"),
        ({"pattern": "a.*", "exclude": [7]}, "topic to exclude"),
    ],
)
def test_a_subscription_that_cannot_be_is_refused_and_changes_nothing(
    wanted: dict[str, object], said: str
) -> None:
    settings = GroupSettings("g", {"t": 1})
    arguments = {"topics": None, "pattern": None, "exclude": (), "pattern_streams": 1, **wanted}
    with pytest.raises(InvalidArgumentError, match=said):
        settings.subscribed_to(**arguments)  # type: ignore[arg-type]
