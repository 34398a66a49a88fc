"""A seek is committed behind every commit from before it, which would undo it if it arrived later."""

from typing import Any

import pytest
from hightide import Consumer
from hightide.cluster.operations import Operation
from hightide.consumer_group.group_core import IntervalCommit
from hightide.consumer_group.pending_commits import CommitCall
from hightide.errors import AddressUnreachableError, HightideError, RequestTimeoutError
from hightide.records import TopicPartition
from hightide.v1.coordinator_service_pb2 import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    OffsetCommit,
    OffsetCommitResult,
    StartFetcher,
)
from unit.sdk.consumer_bench import batch
from unit.sdk.group_bench import GroupBench, parts, starts
from unit.sdk.producer_bench import TOPIC
from unit.sdk.producing.test_closing import NOBODY

P0, P1 = parts(0, 1)


def reading(*, auto_commit: bool) -> GroupBench:
    """A member that owns the partitions 0 and 1 and was given 10 records of 0."""
    bench = GroupBench(auto_commit=auto_commit, commit_interval_ms=1_000).register()
    bench.give(0, 1)
    bench.serve(p0=batch(0, 10))
    bench.tell_user()
    bench.user_polls()
    bench.user_polls()
    return bench


def seek(bench: GroupBench, partition: TopicPartition) -> list[OffsetCommit]:
    bench.ownership.sought(partition, 3)
    return bench.core.commits({partition: 3}, "")


def answer(bench: GroupBench) -> None:
    call = bench.commits.pop(0)
    assert isinstance(call, CommitCall | IntervalCommit)
    results = [OffsetCommitResult(topic=TOPIC, partition=each.partition) for each in call.request.offsets]  # type: ignore[attr-defined]
    bench.core.completed(call, CommitOffsetsResponse(offsets=results), bench.now_ms)


def commit_under_way(*, auto_commit: bool) -> GroupBench:
    """A consumer whose commit of offset 10 is sent, by itself or on demand."""
    bench = reading(auto_commit=auto_commit)
    if auto_commit:
        bench.pass_ms(1_000)
        bench.pass_ms(1_000)
    else:
        bench.core.commit_later(bench.core.commits({P0: 10}, ""), None, bench.now_ms)
        bench.poll()
    return bench


@pytest.mark.parametrize("auto_commit", [False, True])
def test_a_commit_under_way_from_before_a_seek_has_to_end_first(auto_commit: bool) -> None:
    bench = commit_under_way(auto_commit=auto_commit)
    elsewhere, here = seek(bench, P1), seek(bench, P0)
    assert not bench.core.has_to_wait(elsewhere)
    assert bench.core.has_to_wait(here)
    answer(bench)
    assert not bench.core.has_to_wait(here)


def test_a_commit_that_goes_forward_waits_for_no_other() -> None:
    bench = reading(auto_commit=False)
    bench.core.commit_later(bench.core.commits({P0: 5}, ""), None, bench.now_ms)
    bench.poll()
    assert not bench.core.has_to_wait(bench.core.commits({P0: 10}, ""))


def committed(bench: GroupBench) -> list[dict[int, int]]:
    """What the calls that were made commit: partition → offset."""
    calls = [each for each in bench.commits if isinstance(each, CommitCall | IntervalCommit)]
    return [{each.partition: each.offset for each in call.request.offsets} for call in calls]  # type: ignore[attr-defined]


def test_a_commit_that_waits_does_not_undo_that_the_consumer_went_back() -> None:
    bench = reading(auto_commit=True)
    bench.core.commit_later(bench.core.commits({P0: 10, P1: 1}, ""), None, bench.now_ms)
    bench.poll()
    bench.core.completed(bench.commits.pop(), AddressUnreachableError("away"), bench.now_ms)
    bench.core._went_back(P0, 3)
    bench.poll()
    assert committed(bench) == [{0: 3}]
    bench.pass_ms(500)
    assert committed(bench) == [{0: 3}]
    answer(bench)
    bench.pass_ms(500)
    assert committed(bench) == [{1: 1}]


def test_a_commit_of_what_was_read_since_is_sent_after_that_the_consumer_went_back() -> None:
    bench = reading(auto_commit=True)
    bench.core._went_back(P0, 3)
    bench.poll()
    bench.core.commit_later(bench.core.commits({P0: 8}, ""), None, bench.now_ms)
    bench.poll()
    assert committed(bench) == [{0: 3}]
    answer(bench)
    bench.poll()
    assert committed(bench) == [{0: 8}]


def test_the_consumer_does_not_commit_that_it_went_back_while_an_earlier_commit_is_under_way() -> None:
    bench = reading(auto_commit=True)
    bench.core.commit_later(bench.core.commits({P0: 10}, ""), None, bench.now_ms)
    bench.poll()
    bench.core._went_back(P0, 3)
    bench.poll()
    assert committed(bench) == [{0: 10}]
    answer(bench)
    bench.poll()
    assert committed(bench) == [{0: 3}]


@pytest.mark.parametrize("auto_commit", [False, True])
def test_a_seek_is_committed_with_a_higher_number_than_all_that_was_sent_before_it(auto_commit: bool) -> None:
    """The answer to the commit before it was lost. The commit may arrive behind the reset, and its number
    alone shows the coordinator that it is from before."""
    bench = commit_under_way(auto_commit=auto_commit)
    lost = bench.commits.pop()
    bench.core.completed(lost, RequestTimeoutError("no answer came"), bench.now_ms)
    assert not bench.core.has_to_wait(seek(bench, P0))
    assert 0 < lost.request.sequence < next(bench.core.commit_sequences)  # type: ignore[attr-defined]


def test_that_the_consumer_went_back_is_committed_with_a_higher_number_than_what_was_sent_before_it() -> None:
    bench = reading(auto_commit=True)
    bench.core.commit_later(bench.core.commits({P0: 10}, ""), None, bench.now_ms)
    bench.poll()
    lost = bench.commits.pop()
    bench.core.completed(lost, RequestTimeoutError("no answer came"), bench.now_ms)
    bench.core._went_back(P0, 3)
    bench.poll()
    (back,) = bench.commits
    assert 0 < lost.request.sequence < back.request.sequence  # type: ignore[attr-defined]


def test_seek_sends_nothing_while_a_commit_from_before_it_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver's thread had made the commit and had not sent it yet. It arrived behind the seek, and after
    a restart the group skipped what the user had gone back to read."""
    sent: list[bool] = []
    earlier = OffsetCommit(topic=TOPIC, partition=0, generation=1, offset=10)
    request = CommitOffsetsRequest(group="readers", offsets=[earlier])

    with Consumer(NOBODY, group="readers", topics=TOPIC) as consumer:
        assert consumer._member is not None
        core = consumer._member.core
        commit = core._commit = IntervalCommit("co1:1", 5_000, request, 0)

        def end(_: float | None = None) -> None:
            result = OffsetCommitResult(topic=TOPIC, partition=0)
            core.completed(commit, CommitOffsetsResponse(offsets=[result]), 0.0)

        def send(_: Operation[Any]) -> dict[TopicPartition, HightideError]:
            sent.append(core._commit is None)
            return {}

        with consumer._changed:
            core.ownership.start(StartFetcher(streams=starts(0)))
        monkeypatch.setattr(consumer._changed, "wait", end)
        monkeypatch.setattr(consumer, "_run", send)
        consumer.seek(P0, 3)
        monkeypatch.undo()
    assert sent == [True]
