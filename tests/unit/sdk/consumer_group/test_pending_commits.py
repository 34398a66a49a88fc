"""Commits for which the user does not wait, and commits of one record."""

from collections.abc import Mapping

import pytest
from hightide.consumer_group.pending_commits import PENDING_MAX
from hightide.errors import (
    AddressUnreachableError,
    CoordinatorUnavailableError,
    FencedGenerationError,
    HightideError,
    InvalidArgumentError,
    NotAssignedError,
    UnknownMemberError,
)
from hightide.records import Record, TopicPartition
from hightide.v1 import errors_pb2
from hightide.v1.coordinator_service_pb2 import CommitOffsetsResponse, OffsetCommitResult
from unit.sdk.consumer_bench import batch
from unit.sdk.group_bench import GroupBench, parts, positions
from unit.sdk.producer_bench import TOPIC

P0, P1 = parts(0, 1)
Outcomes = list[tuple[Mapping[TopicPartition, int], HightideError | None]]


def reading() -> GroupBench:
    """A member without auto commit that owns the partitions 0 and 1 and was given 10 records of 0."""
    bench = GroupBench(auto_commit=False).register()
    bench.give(0, 1)
    bench.serve(p0=batch(0, 10))
    bench.tell_user()
    return bench


def commit_later(bench: GroupBench, offsets: object = None, outcomes: Outcomes | None = None) -> None:
    """The user commits and does not wait."""
    callback = None if outcomes is None else lambda written, error: outcomes.append((written, error))
    commits = bench.core.commits(offsets, "")  # type: ignore[arg-type]
    bench.core.commit_later(commits, callback, bench.now_ms)
    bench.poll()


def commit_now(bench: GroupBench, offsets: object = None) -> None:
    """The user commits and waits until it is durable."""
    commits = bench.core.commits(offsets, "")  # type: ignore[arg-type]
    bench.core.committed(commits, commits, bench.core.commit_now(commits))


def answer(bench: GroupBench, error_code: int = 0) -> None:
    """The coordinator answers the oldest commit."""
    call = bench.commits.pop(0)
    results = [
        OffsetCommitResult(topic=each.topic, partition=each.partition, error_code=error_code)  # type: ignore[arg-type]
        for each in call.request.offsets  # type: ignore[attr-defined]
    ]
    bench.core.completed(call, CommitOffsetsResponse(offsets=results), bench.now_ms)
    bench.poll()


def come_back(bench: GroupBench) -> None:
    """The user polls: a callback is called, or an error is raised."""
    while (outcome := bench.core.pending_commits.next_outcome()) is not None:
        if outcome.callback is not None:
            outcome.callback(outcome.written, outcome.error)
        elif outcome.error is not None:
            raise outcome.error


def committed(bench: GroupBench) -> list[dict[int, int]]:
    """What the commits under way ask for."""
    return [{each.partition: each.offset for each in call.request.offsets} for call in bench.commits]  # type: ignore[attr-defined]


def test_a_commit_of_a_record_is_of_the_offset_after_it_in_its_generation() -> None:
    bench = reading()
    records = bench.user_polls()
    (commit,) = bench.core.commits(records[3], "note")
    assert (commit.partition, commit.offset, commit.generation, commit.metadata) == (0, 4, 1, "note")


def test_a_record_of_a_partition_that_moved_away_cannot_be_committed() -> None:
    bench = reading()
    record = bench.user_polls()[3]
    bench.ownership.lose_all()
    with pytest.raises(NotAssignedError):
        bench.core.commits(record, "")


def test_what_is_neither_a_record_nor_offsets_is_refused_by_its_type() -> None:
    with pytest.raises(InvalidArgumentError, match="not list"):
        reading().core.commits([P0], "")  # type: ignore[arg-type]


@pytest.mark.parametrize("beyond", [-1, 2**63])
def test_an_offset_that_no_log_has_is_refused_by_its_number(beyond: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{beyond} is no offset of flights-0"):
        reading().core.commits({P0: beyond}, "")


def test_who_commits_and_goes_on_is_told_when_it_is_durable() -> None:
    bench = reading()
    outcomes: Outcomes = []
    bench.user_polls(4)
    commit_later(bench, outcomes=outcomes)
    assert committed(bench) == [{0: 4}]
    news = [bench.core.has_news()]
    answer(bench)
    assert [*news, bench.core.has_news()] == [False, True], "a poll() that waits comes back to tell it"
    come_back(bench)
    assert outcomes == [({P0: 4}, None)]
    assert bench.core.commits(None, "") == [], "it is known to be durable"


def test_commits_go_one_after_the_other_in_the_order_of_the_calls() -> None:
    bench = reading()
    outcomes: Outcomes = []
    for offset in (3, 5):
        commit_later(bench, {P0: offset}, outcomes)
    assert committed(bench) == [{0: 3}]
    answer(bench)
    assert committed(bench) == [{0: 5}]
    answer(bench)
    come_back(bench)
    assert [written for written, _ in outcomes] == [{P0: 3}, {P0: 5}]


def test_a_commit_is_sent_again_after_a_failure_that_may_pass() -> None:
    bench = reading()
    outcomes: Outcomes = []
    commit_later(bench, {P0: 3}, outcomes)
    gone = AddressUnreachableError("the connection broke", address="co1:1")
    bench.core.completed(bench.commits.pop(), gone, bench.now_ms)
    bench.poll()
    assert not bench.commits, "there is a pause first"
    bench.pass_ms(100)
    assert committed(bench) == [{0: 3}]
    answer(bench)
    come_back(bench)
    assert outcomes == [({P0: 3}, None)]


def test_a_commit_without_a_coordinator_waits_for_the_next_one() -> None:
    bench = reading()
    outcomes: Outcomes = []
    bench.end(AddressUnreachableError("the connection broke", address="co1:1"))
    commit_later(bench, {P0: 3}, outcomes)
    assert not bench.commits
    bench.register()
    assert committed(bench) == [{0: 3}]


def test_a_commit_that_was_never_possible_fails_when_its_time_is_up() -> None:
    bench = reading()
    outcomes: Outcomes = []
    bench.end(AddressUnreachableError("the connection broke", address="co1:1"))
    commit_later(bench, {P0: 3}, outcomes)
    bench.pass_s(61)
    come_back(bench)
    ((written, error),) = outcomes
    assert (written, type(error)) == ({}, CoordinatorUnavailableError)


def test_a_partition_that_moved_is_fenced_and_the_others_are_written() -> None:
    bench = reading()
    outcomes: Outcomes = []
    commit_later(bench, {P0: 3}, outcomes)
    answer(bench, errors_pb2.ERROR_CODE_FENCED_GENERATION)
    come_back(bench)
    ((written, error),) = outcomes
    assert (written, type(error)) == ({}, FencedGenerationError)


def test_the_error_of_a_commit_without_a_callback_is_raised() -> None:
    bench = reading()
    commit_later(bench, {P0: 3})
    answer(bench, errors_pb2.ERROR_CODE_FENCED_GENERATION)
    with pytest.raises(FencedGenerationError):
        come_back(bench)
    come_back(bench)


def test_a_success_without_a_callback_is_no_news() -> None:
    bench = reading()
    commit_later(bench, {P0: 3})
    answer(bench)
    assert not bench.core.has_news()


def test_a_commit_of_nothing_is_done_at_once() -> None:
    bench = reading()
    outcomes: Outcomes = []
    commit_later(bench, {}, outcomes)
    come_back(bench)
    assert outcomes == [({}, None)]
    assert not bench.commits


def test_leaving_waits_for_the_commits_under_way() -> None:
    bench = reading()
    outcomes: Outcomes = []
    commit_later(bench, {P0: 3}, outcomes)
    bench.said()
    bench.ownership.farewell()
    bench.core.leave(bench.now_ms)
    assert bench.said() == []
    answer(bench)
    assert [each.WhichOneof("message") for each in bench.said()] == ["goodbye"]
    come_back(bench)
    assert outcomes == [({P0: 3}, None)]


def test_a_commit_that_the_goodbye_overtakes_fails() -> None:
    bench = reading()
    outcomes: Outcomes = []
    commit_later(bench, {P0: 3}, outcomes)
    bench.ownership.farewell()
    bench.core.leave(bench.now_ms)
    bench.pass_ms(2_500)
    bench.end()
    bench.core.left()
    bench.poll()
    come_back(bench)
    assert [type(error) for _, error in outcomes] == [UnknownMemberError]


def test_few_commits_may_wait() -> None:
    bench = reading()
    for _ in range(PENDING_MAX):
        commit_later(bench, {P0: 3})
    with pytest.raises(CoordinatorUnavailableError, match="commit less often"):
        commit_later(bench, {P0: 3})


def test_a_commit_has_as_many_offsets_as_a_request_can_carry() -> None:
    bench = reading()
    (commit,) = bench.core.commits(Record(TOPIC, 0, 1, 0, None, None), "")
    with pytest.raises(InvalidArgumentError, match="10001 offsets"):
        bench.core.commit_later([commit] * 10_001, None, bench.now_ms)


def test_a_commit_that_waits_does_not_undo_a_seek_that_was_committed_since() -> None:
    """The coordinator was away. What lies between would have been skipped after a restart."""
    bench = reading()
    outcomes: Outcomes = []
    bench.user_polls()
    commit_later(bench, {P0: 10, P1: 1}, outcomes)
    call = bench.commits.pop()
    bench.core.completed(call, AddressUnreachableError("away"), bench.now_ms)
    bench.ownership.sought(P0, 3)
    commit_now(bench, {P0: 3})
    bench.now_ms += 500
    bench.poll()
    assert committed(bench) == [{1: 1}]
    answer(bench)
    come_back(bench)
    assert outcomes == [({P1: 1}, None)]
    assert bench.ownership.owned[P0].durable == 3


def test_a_seek_that_waits_to_be_committed_does_not_undo_a_later_commit() -> None:
    bench = reading()
    outcomes: Outcomes = []
    bench.user_polls()
    commit_later(bench, {P1: 1})
    bench.ownership.sought(P0, 3)
    commit_later(bench, {P0: 3}, outcomes)
    commit_now(bench, {P0: 8})
    answer(bench)
    assert committed(bench) == []
    come_back(bench)
    assert outcomes == [({}, None)]


def test_a_commit_that_waits_is_sent_if_a_later_one_was_of_less() -> None:
    bench = reading()
    bench.user_polls()
    commit_later(bench, {P1: 1})
    commit_later(bench, {P0: 8})
    commit_now(bench, {P0: 5})
    answer(bench)
    assert committed(bench) == [{0: 8}]


def test_a_commit_under_way_of_which_nothing_is_left_is_not_sent_again() -> None:
    bench = reading()
    bench.user_polls()
    commit_later(bench, {P0: 8})
    commit_now(bench, {P0: 9})
    call = bench.commits.pop()
    bench.core.completed(call, AddressUnreachableError("away"), bench.now_ms)
    bench.now_ms += 500
    bench.poll()
    assert committed(bench) == []
    come_back(bench)


def test_a_commit_from_before_a_seek_says_nothing_about_the_partition_after_it() -> None:
    """Its answer came while the seek was being committed. What lies between would have been reported as
    read."""
    bench = GroupBench().register()
    bench.give(0)
    bench.serve(p0=batch(0, 10))
    bench.tell_user()
    bench.user_polls()
    commit_later(bench, {P0: 10})
    bench.ownership.sought(P0, 3)
    seek = bench.core.commits({P0: 3}, "")
    seek_count = bench.core.commit_now(seek)
    answer(bench)
    bench.core.committed(seek, seek, seek_count)
    assert positions(bench.ping()[-1]) == {}
    assert (bench.ownership.owned[P0].settled, bench.ownership.owned[P0].durable) == (3, 3)


def test_a_seek_is_committed_although_an_earlier_one_is_committed_after_it() -> None:
    bench = reading()
    bench.user_polls()
    bench.ownership.sought(P0, 7)
    bench.consumer.seek(P0, 7)
    commit_later(bench)
    bench.ownership.sought(P0, 3)
    bench.consumer.seek(P0, 3)
    answer(bench)
    (commit,) = bench.core.commits(None, "")
    assert (commit.offset, commit.reset) == (3, True)


def test_a_commit_that_waits_is_not_sent_while_a_later_seek_is_being_committed() -> None:
    """It would arrive behind the seek, as if it came after it, and what lies between would be skipped."""
    bench = reading()
    outcomes: Outcomes = []
    bench.user_polls()
    commit_later(bench, {P0: 10}, outcomes)
    bench.core.completed(bench.commits.pop(), AddressUnreachableError("away"), bench.now_ms)
    bench.ownership.sought(P0, 3)
    seek = bench.core.commits({P0: 3}, "")
    seek_count = bench.core.commit_now(seek)
    bench.pass_s(2)
    assert committed(bench) == []
    bench.core.committed(seek, seek, seek_count)
    bench.pass_s(2)
    assert committed(bench) == []
    come_back(bench)
    assert outcomes == [({}, None)]


def test_a_commit_that_waits_is_sent_after_a_seek_whose_commit_failed() -> None:
    bench = reading()
    bench.user_polls()
    commit_later(bench, {P0: 10})
    bench.core.completed(bench.commits.pop(), AddressUnreachableError("away"), bench.now_ms)
    bench.ownership.sought(P0, 3)
    seek = bench.core.commits({P0: 3}, "")
    bench.core.committed(seek, [], bench.core.commit_now(seek))
    bench.pass_s(2)
    assert committed(bench) == [{0: 10}]
