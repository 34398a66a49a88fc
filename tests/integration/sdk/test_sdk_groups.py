"""Consumers in groups against a real cluster: what is shared, what moves, what is committed, what is told."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
from hightide import Admin, CommittedOffset, Consumer, TopicPartition
from hightide.consumer_group import operations
from hightide.errors import (
    ConsumerIdTakenError,
    FencedInstanceError,
    GroupNotEmptyError,
    InvalidArgumentError,
    InvalidPatternError,
    InvalidSessionTimeoutError,
    NoCommittedOffsetError,
    NotAssignedError,
    UnknownAssignorError,
    UnknownGroupError,
)
from hightide_local.cluster import LocalCluster
from integration.coordinator.group_reading import (
    SESSION_TIMEOUT_MS,
    Reading,
    new_name,
    new_topic,
    parts,
    send,
)

pytestmark = pytest.mark.cluster

Join = Callable[..., Consumer]

NEVER_MS = 600_000
"""A session timeout that does not end in a test: Pings come a third of it apart, and for a third of it a user
who has records in hand is waited for."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("groups")
    with LocalCluster(directory, brokers=1, controllers=1, coordinators=1) as running:
        running.active_coordinator()
        yield running


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    return new_topic(cluster)


@pytest.fixture
def join(cluster: LocalCluster) -> Iterator[Join]:
    """Makes consumers of one group, which are closed in the end."""
    group = new_name("readers")
    with ExitStack() as stack:

        def make(topics: Any = None, **settings: Any) -> Consumer:
            options = {"group": group, "session_timeout_ms": SESSION_TIMEOUT_MS, **settings}
            return stack.enter_context(Consumer(cluster.bootstrap, topics=topics, **options))

        yield make


def group_of(consumer: Consumer) -> str:
    assert consumer._member is not None
    return consumer._member.core.settings.group


# -- sharing -------------------------------------------------------------------------------------------------


def test_a_group_of_three_reads_everything_once_and_each_partition_in_order(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    send(cluster, topic, range(3_000))
    reading = Reading([join(topic) for _ in range(3)])
    reading.until(lambda: reading.is_shared(6) and reading.count() >= 3_000)
    send(cluster, topic, range(3_000, 6_000))
    reading.until(lambda: len(reading.numbers()) == 6_000)
    assert set(reading.times_read().values()) == {1}
    for records in reading.records:
        assert len(records) > 0
        by_partition: dict[int, list[int]] = {}
        for record in records:
            by_partition.setdefault(record.partition, []).append(record.offset)
        assert all(offsets == sorted(offsets) for offsets in by_partition.values())


def test_a_member_that_joins_disturbs_only_the_partitions_that_move(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    revoked: list[TopicPartition] = []
    reading = Reading([join(topic, on_revoke=revoked.extend) for _ in range(2)])
    reading.until(lambda: reading.is_shared(6))
    revoked.clear()
    before = {each: since for consumer in reading.consumers for each, since in consumer.generations.items()}
    reading.consumers.append(join(topic))
    reading.until(lambda: reading.is_shared(6))
    moved = set(reading.consumers[2].assignment)
    assert (len(revoked), set(revoked)) == (2, moved)
    for consumer in reading.consumers[:2]:
        assert all(since == before[each] for each, since in consumer.generations.items())


def test_a_consumer_that_is_closed_leaves_at_once_and_nothing_is_read_again(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    first, second = (join(topic, session_timeout_ms=NEVER_MS) for _ in range(2))
    reading = Reading([first, second])
    reading.until(lambda: reading.is_shared(6))
    send(cluster, topic, range(600))
    reading.until(lambda: reading.count() == 600)
    first.close()
    rest = Reading([second])
    rest.until(lambda: len(second.assignment) == 6)
    send(cluster, topic, range(600, 1_200))
    rest.until(lambda: rest.count() >= 600)
    assert rest.times_read() == dict.fromkeys(range(600, 1_200), 1)


def test_streams_are_shares(cluster: LocalCluster, topic: str, join: Join) -> None:
    wide, narrow = join({topic: 2}), join({topic: 1})
    reading = Reading([wide, narrow])
    reading.until(lambda: (len(wide.assignment), len(narrow.assignment)) == (4, 2))
    assert sorted(map(len, wide.streams.values())) == [2, 2]
    assert set(wide.streams) == {0, 1}


def test_a_pattern_finds_topics_that_come_later(cluster: LocalCluster, join: Join) -> None:
    stem = new_name("late").replace("-", "")
    consumer = join(pattern=stem + "[0-9]+")
    assert consumer.poll(0.2) == []
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(stem + "x", partitions=1)
        admin.create_topic(stem + "1", partitions=2)
    send(cluster, stem + "1", range(10), partitions=2)
    reading = Reading([consumer])
    reading.until(lambda: reading.count() >= 10)
    assert consumer.assignment == parts(stem + "1", 0, 1)


def test_a_topic_that_grows_or_goes_is_followed_without_an_error(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    other = new_topic(cluster, 2)
    consumer = join([topic, other])
    reading = Reading([consumer])
    reading.until(lambda: len(consumer.assignment) == 8)
    with Admin(cluster.bootstrap) as admin:
        admin.add_partitions(topic, 8)
        admin.delete_topic(other)
        reading.until(lambda: consumer.assignment == parts(topic, *range(8)))
        send(cluster, topic, range(80), partitions=8)
        reading.until(lambda: reading.count() == 80)
        admin.create_topic(other, partitions=1)
    send(cluster, other, range(5), partitions=1)
    reading.until(lambda: reading.count() == 85)


def test_a_slow_user_does_not_block_the_group_and_is_told_what_it_lost(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    lost: list[TopicPartition] = []
    revoked: list[TopicPartition] = []
    slow = join(topic, on_revoke=revoked.extend, on_lost=lost.extend, session_timeout_ms=9_000)
    Reading([slow]).until(lambda: len(slow.assignment) == 6)
    send(cluster, topic, range(600))
    assert slow.poll(60, 600)  # Records of some partition are in hand, and it does not come back.
    quick = join(topic)
    reading = Reading([quick])
    reading.until(lambda: len(quick.assignment) == 3)
    assert (lost, revoked) == ([], [])
    slow.poll(0.0)
    assert set(lost) == set(quick.assignment)
    assert revoked == []


def test_a_user_who_has_nothing_in_hand_is_not_waited_for(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    idle = join(topic, session_timeout_ms=NEVER_MS)
    Reading([idle]).until(lambda: len(idle.assignment) == 6)
    assert idle.poll(0.1) == []
    other = join(topic, session_timeout_ms=NEVER_MS)
    Reading([other]).until(lambda: len(other.assignment) == 3)


# -- committing ----------------------------------------------------------------------------------------------


def test_what_was_not_committed_by_hand_is_read_again(cluster: LocalCluster, topic: str, join: Join) -> None:
    send(cluster, topic, range(600))
    consumer = join(topic, auto_commit=False)
    reading = Reading([consumer])
    reading.until(lambda: reading.count() >= 300)
    committed = consumer.commit(metadata="by hand")
    assert sum(committed.values()) == reading.count()
    before = reading.numbers()
    reading.until(lambda: reading.count() == 600)
    consumer.close()
    again = Reading([join(topic, auto_commit=False)])
    again.until(lambda: again.count() >= 600 - len(before))
    assert again.numbers() == set(range(600)) - before
    with Admin(cluster.bootstrap) as admin:
        assert {each.metadata for each in admin.group_offsets(group_of(consumer)).values()} <= {"", "by hand"}


def test_commits_in_on_revoke_still_count(cluster: LocalCluster, topic: str, join: Join) -> None:
    send(cluster, topic, range(600))
    consumer: Consumer = join(topic, auto_commit=False, on_revoke=lambda _: consumer.commit())
    reading = Reading([consumer])
    reading.until(lambda: reading.count() == 600)
    other = join(topic, auto_commit=False)
    both = Reading([consumer, other])
    both.until(lambda: both.is_shared(6))
    consumer.close()
    send(cluster, topic, range(600, 612))
    rest = Reading([other])
    rest.until(lambda: rest.numbers() >= set(range(600, 612)))
    assert both.count() == 0
    assert rest.times_read() == dict.fromkeys(range(600, 612), 1)


def test_automatic_commits_do_not_wait_for_the_close(cluster: LocalCluster, topic: str, join: Join) -> None:
    send(cluster, topic, range(60))
    consumer = join(topic, session_timeout_ms=NEVER_MS, commit_interval_ms=200)
    reading = Reading([consumer])
    reading.until(lambda: reading.count() == 60)
    with Admin(cluster.bootstrap) as admin:
        reading.until(lambda: [each.lag for each in admin.group_lag(group_of(consumer))] == [0] * 6)


def test_a_record_whose_processing_raised_is_read_again(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    send(cluster, topic, range(0, 60, 6))  # All in partition 0.

    def read_until_it_fails() -> None:
        with join(topic) as consumer:
            for record in consumer:
                assert 1 / (record.offset - 4)

    with pytest.raises(ZeroDivisionError):
        read_until_it_fails()
    with join(topic) as again:
        assert next(iter(again)).offset == 4


def test_a_loop_that_was_left_in_order_has_done_its_records(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    send(cluster, topic, range(0, 60, 6))
    with join(topic) as consumer:
        for record in consumer:
            if record.offset == 4:
                break
    with join(topic) as again:
        assert next(iter(again)).offset == 5


def test_seeking_back_is_committed_at_once(cluster: LocalCluster, topic: str, join: Join) -> None:
    send(cluster, topic, range(60))
    consumer = join(topic)
    reading = Reading([consumer])
    reading.until(lambda: reading.count() == 60)
    first, second = parts(topic, 0, 1)
    consumer.commit()
    consumer.seek(first, 3)
    assert consumer.committed([first, second]) == {first: 3, second: 10}
    consumer.seek_to_beginning(second)
    assert consumer.committed([second]) == {second: 0}
    reading.until(lambda: reading.count() == 60 + 7 + 10)


def test_seeking_back_without_automatic_commits_is_committed_by_the_next_commit(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    send(cluster, topic, range(60))
    consumer = join(topic, auto_commit=False)
    reading = Reading([consumer])
    reading.until(lambda: reading.count() == 60)
    consumer.commit()
    (first,) = parts(topic, 0)
    consumer.seek(first, 3)
    assert consumer.committed([first]) == {first: 10}
    assert consumer.commit() == {first: 3}
    assert consumer.committed([first]) == {first: 3}


def test_what_is_not_this_consumers_cannot_be_committed(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    consumer = join(topic)
    Reading([consumer]).until(lambda: len(consumer.assignment) == 6)
    with pytest.raises(NotAssignedError, match="its group"):
        consumer.commit({TopicPartition(topic, 6): 1})
    with pytest.raises(InvalidArgumentError, match="-1 is no offset"):
        consumer.commit({TopicPartition(topic, 0): -1})


# -- reading -------------------------------------------------------------------------------------------------


def test_partitions_that_are_paused_stay_and_rest(cluster: LocalCluster, topic: str, join: Join) -> None:
    consumer = join(topic)
    reading = Reading([consumer])
    reading.until(lambda: len(consumer.assignment) == 6)
    consumer.pause(*parts(topic, 0, 1))
    send(cluster, topic, range(60))
    reading.until(lambda: reading.count() >= 40)
    assert {record.partition for record in reading.of(consumer)} == {2, 3, 4, 5}
    assert consumer.paused() == parts(topic, 0, 1)
    consumer.resume()
    reading.until(lambda: reading.count() == 60)
    assert reading.numbers() == set(range(60))


def test_whole_batches_are_committed_when_the_user_comes_back(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    send(cluster, topic, range(600))
    consumer = join(topic)
    rows = 0
    while rows < 600:
        rows += consumer.poll_arrow(60).num_rows
    consumer.close()
    with Admin(cluster.bootstrap) as admin:
        assert [each.lag for each in admin.group_lag(group_of(consumer))] == [0] * 6


def test_a_group_that_must_not_guess_says_that_nothing_is_committed(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    send(cluster, topic, range(60))
    consumer = join(topic, offset_reset="error")
    with pytest.raises(NoCommittedOffsetError, match="seek"):
        Reading([consumer]).until(lambda: False)
    for partition in consumer.assignment:
        consumer.seek(partition, 5)
    reading = Reading([consumer])
    reading.until(lambda: reading.count() == 30)


def test_a_group_that_begins_at_the_end_keeps_to_where_it_began(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    send(cluster, topic, range(60))
    consumer = join(topic, offset_reset="latest")
    Reading([consumer]).until(lambda: len(consumer.assignment) == 6)
    consumer.close()
    send(cluster, topic, range(60, 120))
    reading = Reading([join(topic, offset_reset="latest")])
    reading.until(lambda: reading.count() >= 60)
    assert reading.numbers() == set(range(60, 120))


# -- refusals and places -------------------------------------------------------------------------------------


def test_a_consumer_id_of_somebody_alive_is_refused(cluster: LocalCluster, topic: str, join: Join) -> None:
    first = join(topic, consumer_id="one", session_timeout_ms=2_000)
    Reading([first]).until(lambda: len(first.assignment) == 6)
    with pytest.raises(ConsumerIdTakenError, match="one"):
        Reading([first, join(topic, consumer_id="one", session_timeout_ms=2_000)]).until(lambda: False)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"session_timeout_ms": 1}, InvalidSessionTimeoutError),
        ({"assignor": "fair"}, UnknownAssignorError),
        ({"topics": None, "pattern": "a(b"}, InvalidPatternError),
    ],
)
def test_what_the_coordinator_refuses_is_raised(
    cluster: LocalCluster, topic: str, join: Join, settings: dict[str, Any], error: type[Exception]
) -> None:
    consumer = join(**{"topics": topic, **settings})
    with pytest.raises(error):
        Reading([consumer]).until(lambda: False)


def test_a_restarted_instance_takes_its_place_and_the_old_process_is_told(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    revoked: list[TopicPartition] = []
    other = join(topic, instance_id="b", on_revoke=revoked.extend)
    old = join(topic, instance_id="a")
    both = Reading([old, other])
    both.until(lambda: both.is_shared(6))
    mine, revoked[:] = old.assignment, []
    new = join(topic, instance_id="a")
    Reading([new, other]).until(lambda: new.assignment == mine)
    with pytest.raises(FencedInstanceError):
        Reading([old]).until(lambda: False)
    assert revoked == []


# -- what admins do ------------------------------------------------------------------------------------------


def test_offsets_are_reset_when_the_members_are_gone(cluster: LocalCluster, topic: str, join: Join) -> None:
    send(cluster, topic, range(60))
    consumer = join(topic)
    reading = Reading([consumer])
    reading.until(lambda: reading.count() == 60)
    group = group_of(consumer)
    with Admin(cluster.bootstrap) as admin:
        with pytest.raises(GroupNotEmptyError):
            admin.reset_offsets(group, "earliest", topics=[topic])
        with pytest.raises(GroupNotEmptyError):
            admin.delete_group(group)
        consumer.close()
        planned = admin.reset_offsets(group, shift_by=-4, validate_only=True)
        assert [(each.previous, each.offset) for each in planned] == [(10, 6)] * 6
        assert {each.offset for each in admin.group_offsets(group).values()} == {10}
        assert all(each.ok for each in admin.reset_offsets(group, shift_by=-4))
        assert [each.lag for each in admin.group_lag(group)] == [4] * 6
        refused = admin.reset_offsets(group, 11, topics=[topic])
        assert not any(each.ok for each in refused)
        assert all(each.ok for each in admin.reset_offsets(group, "latest"))
        assert [each.lag for each in admin.group_lag(group)] == [0] * 6
        again = {TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 9}
        assert all(each.ok for each in admin.reset_offsets(group, again))
        rest = Reading([join(topic)])
        rest.until(lambda: rest.count() == 8 + 1)
        rest.consumers[0].close()
        described = admin.describe_group(group)
        assert (described.state, described.members) == ("empty", ())
        assert group in [each.group for each in admin.list_groups()]
        admin.delete_group(group)
        with pytest.raises(UnknownGroupError):
            admin.describe_group(group)


def test_a_group_that_does_not_exist_can_be_given_a_beginning(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    send(cluster, topic, range(30))
    then = datetime.now(UTC)
    send(cluster, topic, range(30, 60))
    consumer = join(topic)
    with Admin(cluster.bootstrap) as admin:
        reset = admin.reset_offsets(group_of(consumer), then, topics=[topic])
        assert {(each.previous, each.offset, each.ok) for each in reset} == {(None, 5, True)}
    reading = Reading([consumer])
    reading.until(lambda: reading.count() == 30)
    assert reading.numbers() == set(range(30, 60))


def test_offsets_that_take_several_answers_are_told_whole(
    cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(cluster, topic, range(60))
    committed = {partition: number for number, partition in enumerate(parts(topic, *range(6)))}
    group = new_name("paged")
    with Admin(cluster.bootstrap) as admin:
        admin.commit_group_offsets(group, committed)
        monkeypatch.setattr(operations, "PARTITIONS_PER_REQUEST_MAX", 1)
        for asked in (None, list(committed)):
            told = admin.group_offsets(group, asked)
            assert {partition: each.offset for partition, each in told.items()} == committed


def test_offsets_are_published_for_a_group_that_nobody_is_in(
    cluster: LocalCluster, topic: str, join: Join
) -> None:
    send(cluster, topic, range(60))
    first = TopicPartition(topic, 0)
    consumer = join(topic)
    group = group_of(consumer)
    with Admin(cluster.bootstrap) as admin:
        admin.commit_group_offsets(group, {first: CommittedOffset(4, metadata="batch 7")})
        assert admin.group_offsets(group) == {first: CommittedOffset(4, metadata="batch 7")}
        admin.commit_group_offsets(group, {first: 3, TopicPartition(topic, 1): 10})
        assert [lag.lag for lag in admin.group_lag(group)][:2] == [7, 0]
        Reading([consumer]).until(lambda: len(consumer.assignment) == 6)
        with pytest.raises(GroupNotEmptyError, match="has members"):
            admin.commit_group_offsets(group, {first: 5})
