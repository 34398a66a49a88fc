"""Nothing that the outside can make grow grows without a bound (C10)."""

from __future__ import annotations

import pytest
from hightide_coordinator.contract.convert_requests import page_out
from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.state.descriptions import (
    OFFSETS_BYTES_MAX,
    OffsetPage,
    QuestionRefused,
    committed_offsets,
    committed_page,
)
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import (
    OffsetReset,
    Registration,
    StoredGroup,
    StoredOffset,
    TopicFilter,
)
from hightide_coordinator.core.values.topic_partition import TopicPartition
from unit.coordinator.core.group_world import World, topic, tp


def refusals(world: World) -> list[Refusal]:
    return [each.refusal for each in world.all(ef.RefuseRequest)]


def test_offsets_do_not_pile_up_in_few_requests_while_zookeeper_is_away() -> None:
    world = World(topic(partitions=3), limits=GroupLimits(offsets_waiting_max=5))
    world.stores_answer = False
    commits = tuple(ev.OffsetCommit(tp(number), 0, 5) for number in range(3))
    world.feed(ev.CommitRequested(91, "g", "", commits))
    world.feed(ev.CommitRequested(92, "g", "", commits))
    assert refusals(world) == [Refusal.OVERLOADED]
    world.stores_answer = True
    world.store()
    world.feed(ev.CommitRequested(93, "g", "", commits))
    assert {each.request_id for each in world.all(ef.AnswerCommit)} == {91, 93}


def test_commits_of_all_groups_together_take_bounded_memory_while_zookeeper_is_away() -> None:
    world = World(topic(partitions=1), limits=GroupLimits(commit_bytes_waiting_max=6_000))
    world.stores_answer = False
    for number in range(3):
        commits = (ev.OffsetCommit(tp(0), 0, 5, metadata="x" * 2_000),)
        world.feed(ev.CommitRequested(90 + number, f"g{number}", "", commits))
    assert refusals(world) == [Refusal.OVERLOADED]
    assert set(world.state.groups) == {"g0", "g1"}


def test_deletions_do_not_pile_up_while_zookeeper_is_away() -> None:
    world = World(topic(partitions=1), limits=GroupLimits(deletes_waiting_max=2))
    world.commit(ev.OffsetCommit(tp(0), 0, 5))
    world.stores_answer = False
    for number in range(4):
        world.feed(ev.DeleteGroupRequested(90 + number, "g"))
    assert refusals(world) == [Refusal.OVERLOADED]
    world.stores_answer = True
    world.store()
    world.run(1_000)
    answered = {each.request_id for each in world.all(ef.AnswerDelete)}
    refused = {each.request_id for each in world.all(ef.RefuseRequest)}
    assert answered | refused == {90, 91, 92, 93}


def test_resets_that_are_checked_at_the_same_time_are_few() -> None:
    world = World(topic(partitions=1), limits=GroupLimits(resets_checked_max=1))
    world.look_ups_answer = False
    for number in range(2):
        world.feed(ev.ResetRequested(90 + number, "g", (ev.OffsetCommit(tp(0), 0, 5),), False))
    assert refusals(world) == [Refusal.OVERLOADED]


def test_a_request_holds_bounded_metadata_however_many_offsets_it_has() -> None:
    world = World(topic(partitions=300))
    commits = tuple(ev.OffsetCommit(tp(number), 0, 5, metadata="x" * 4_096) for number in range(257))
    world.feed(ev.CommitRequested(91, "g", "", commits))
    assert refusals(world) == [Refusal.LIMIT_EXCEEDED]
    world.feed(ev.CommitRequested(92, "g", "", commits[:256]))
    assert world.the(ef.AnswerCommit).request_id == 92


def test_more_offsets_than_an_answer_may_hold_are_asked_for_in_parts() -> None:
    kept = {tp(number): StoredOffset(5, -1, b"i" * 16, "x" * 4_096) for number in range(3_000)}
    world = World(topic(partitions=3_000), groups={"g": StoredGroup(1, 10_000, {}, kept)})
    refused = committed_offsets(world.state, "g")
    assert isinstance(refused, QuestionRefused)
    assert refused.refusal is Refusal.LIMIT_EXCEEDED
    assert "`partitions`" in refused.message
    assert committed_offsets(world.state, "g", list(kept)[:1_000]) == dict(list(kept.items())[:1_000])


@pytest.mark.parametrize(("partition_count", "metadata_bytes"), [(100_000, 0), (20_000, 1_000)])
def test_page_by_page_all_offsets_are_told_within_what_an_answer_may_hold(
    partition_count: int, metadata_bytes: int
) -> None:
    metadata = "x" * metadata_bytes
    topics = [topic(f"topic-{number:03}", 1_000) for number in range(partition_count // 1_000)]
    kept = {
        TopicPartition(each.name, number): StoredOffset(number, -1, each.topic_id, metadata)
        for number in range(1_000)
        for each in topics
    }
    world = World(*topics, groups={"g": StoredGroup(1, 10_000, {}, kept)})
    pages: list[OffsetPage] = []
    while not pages or pages[-1].next_cursor is not None:
        cursor = pages[-1].next_cursor if pages else None
        page = committed_page(world.state, "g", offsets_max=10_000, cursor=cursor)
        assert isinstance(page, OffsetPage)
        assert 0 < len(page.offsets) <= 10_000
        assert page_out(page).ByteSize() <= OFFSETS_BYTES_MAX
        pages.append(page)
    assert [each for page in pages for each in page.offsets.items()] == sorted(kept.items())


def test_a_page_of_named_partitions_goes_on_behind_one_whose_offset_was_deleted_meanwhile() -> None:
    kept = {tp(number): StoredOffset(number, -1, b"i" * 16, "") for number in (0, 2, 4)}
    world = World(topic(partitions=6), groups={"g": StoredGroup(1, 10_000, {}, kept)})
    named = tuple(tp(number) for number in range(6))
    page = committed_page(world.state, "g", named, offsets_max=2, cursor=tp(1))
    assert page == OffsetPage({tp(2): kept[tp(2)], tp(4): kept[tp(4)]}, None)
    assert committed_page(world.state, "g", named, offsets_max=1, cursor=tp(2)) == OffsetPage(
        {tp(2): kept[tp(2)]}, tp(4)
    )
    assert committed_page(world.state, "g", named, offsets_max=2, cursor=tp(5)) == OffsetPage({}, None)


def test_a_deletion_that_comes_while_the_group_is_deleted_is_answered_too() -> None:
    world = World(topic(partitions=1))
    world.commit(ev.OffsetCommit(tp(0), 0, 5))
    world.stores_answer = False
    for number in range(2):
        world.feed(ev.DeleteGroupRequested(90 + number, "g"))
    world.stores_answer = True
    world.store()
    assert {each.request_id for each in world.all(ef.AnswerDelete)} == {90, 91}


# ---- topics that concern nobody any more


def watched(world: World) -> set[str]:
    told: set[str] = set()
    for effect in world.all(ef.WatchTopics):
        told = (told | effect.more) - effect.fewer
    return told


def test_topics_that_nobody_reads_any_more_are_forgotten() -> None:
    world = World(topic("t", 1))
    world.join("k")
    for number in range(20):
        world.join(f"c{number}", topics={f"gone-{number}": 1}).leave()
    world.run(1_000)
    assert set(world.state.concerned) == watched(world) == {"t"}


def test_a_topic_of_which_offsets_are_kept_concerns_their_group() -> None:
    world = World(topic("t", 1), topic("u", 1, b"o" * 16))
    world.join("k")
    world.join("a", topics={"u": 1}).leave()
    other = world.join("b", topics={"u": 1})
    world.run(1_000)
    other.leave()
    world.run(1_000)
    assert watched(world) == {"t", "u"}
    world.change_topics(gone=("u",))
    world.run(1_000)
    assert set(world.state.concerned) == watched(world) == {"t"}


def test_a_topic_that_matched_a_pattern_and_is_deleted_at_once_is_forgotten() -> None:
    world = World(topic("t", 1))
    world.join(pattern="t.*")
    world.run(1_000)
    world.change_topics(topic("t2", 1, b"o" * 16))
    world.change_topics(gone=("t2",))
    world.run(1_000)
    assert set(world.state.concerned) == watched(world) == {"t"}


def test_what_matched_a_pattern_is_forgotten_with_who_subscribed_to_it() -> None:
    world = World(topic("t", 1), topic("u", 1, b"o" * 16))
    world.join("k")
    other = world.join("b", pattern="u.*", offset_reset=OffsetReset.ERROR)
    world.run(1_000)
    other.leave()
    world.run(1_000)
    assert set(world.state.concerned) == watched(world) == {"t"}
    assert world.state.patterns == {}


def test_only_what_is_new_is_told_to_be_watched() -> None:
    world = World(topic("t", 1))
    world.join("k")
    world.join("a", topics={"t": 1, "later": 1})
    assert [effect.more for effect in world.all(ef.WatchTopics)] == [{"t"}, {"later"}]


# ---- patterns


def test_a_group_has_few_different_patterns() -> None:
    world = World(topic("t", 1), limits=GroupLimits(patterns_per_group_max=2))
    first, second = world.join(pattern="a.*"), world.join(pattern="b.*")
    assert world.join(pattern="c.*").refusal() is Refusal.LIMIT_EXCEEDED
    assert world.join(pattern="a.*").refusal() is None
    second.leave()
    assert world.join(pattern="c.*").refusal() is None
    assert first.refusal() is None


def test_all_groups_together_have_few_different_patterns() -> None:
    world = World(topic("t", 1), limits=GroupLimits(patterns_max=1))
    world.join(pattern="a.*")
    same = world.register(Registration("h", pattern="a.*"))
    other = world.register(Registration("i", pattern="b.*"))
    assert same.refusal() is None
    assert other.refusal() is Refusal.LIMIT_EXCEEDED
    assert set(world.state.groups) == {"g", "h"}


def test_a_pattern_is_held_against_the_topics_once_for_all_groups() -> None:
    world = World(topic("t1", 1))
    world.register(Registration("g", pattern="t.*"))
    world.register(Registration("h", pattern="t.*"))
    first, second = (world.state.groups[name].patterns[TopicFilter("t.*")].topics for name in ("g", "h"))
    assert first is second
    world.change_topics(topic("t2", 1, b"o" * 16))
    world.run(1_000)
    assert set(world.owners["g"]) == set(world.owners["h"]) == {tp(0, "t1"), tp(0, "t2")}
