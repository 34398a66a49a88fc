"""What a broker counts, and what it tells of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from adversary.batches import good_batch
from hightide.batch.header import iterate
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.contract.data_calls import PartitionAppended, PartitionRead, PartitionRefused
from hightide_broker.core.events import FollowerFetched, LeaderAndIsrDecided, ProduceArrived
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.metrics import METRICS, survey
from hightide_broker.replica.counters import OTHER_TOPICS, TOPICS_MAX, Counters, count_records
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.replica.shell import Payload, ReplicaShell
from hightide_broker.storage import DataDirectory, DirectorySettings
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.tracing import Telemetry

TOPIC_ID = bytes(range(16))
STAMP_BYTES = 16


def batch(records: int) -> bytes:
    return bytes(good_batch(TOPIC_ID, 0, (b"wave",) * records))


def read_of(*pieces: bytes) -> PartitionRead:
    return PartitionRead((TOPIC_ID, 0), 10, 0, pieces, sum(map(len, pieces)))


def test_records_are_counted_in_whole_batches_and_in_those_in_pieces() -> None:
    stamped = batch(3)
    in_two = stamped[:STAMP_BYTES], memoryview(stamped)[STAMP_BYTES:]
    assert count_records([batch(5) + batch(2)]) == 7
    assert count_records([*in_two, *in_two, batch(4)]) == 10
    assert count_records([]) == 0


@pytest.mark.parametrize("nonsense", [bytes(200), b"\xff" * 200, batch(1)[:9], b"x"])
def test_what_is_no_batch_is_not_counted_and_harms_nothing(nonsense: bytes) -> None:
    assert count_records([batch(2), nonsense]) == 2


def test_topics_are_counted_one_by_one_up_to_a_bound_and_all_in_the_total() -> None:
    counters = Counters()
    for number in range(TOPICS_MAX + 5):
        counters.append(f"topic-{number}", 100, 2)
    assert (counters.received.size_bytes, counters.received.records) == (100 * 105, 2 * 105)
    assert len(counters.topics) == TOPICS_MAX + 1
    assert counters.topics[OTHER_TOPICS].received.records == 10


def test_a_topic_that_is_gone_makes_room_for_another() -> None:
    counters = Counters()
    for number in range(TOPICS_MAX):
        counters.append(f"topic-{number}", 100, 2)
    counters.keep_topics(frozenset({"topic-7"}))
    counters.append("late", 100, 2)
    assert counters.topics.keys() == {"topic-7", "late"}


def test_what_is_sent_and_what_is_refused_are_told_apart() -> None:
    counters = Counters()
    refused = PartitionRefused(ErrorCode.ERROR_CODE_NOT_LEADER, "broker 2 leads")
    counters.fetched("tides", read_of(batch(3)))
    counters.fetched("tides", PartitionRead((TOPIC_ID, 0), -1, -1, (), 0, refused))
    counters.fetched("tides", read_of())
    counters.produced([PartitionAppended(0, 1, 0), refused, refused])
    assert counters.sent.records == counters.topics["tides"].sent.records == 3
    assert counters.refusals == {("fetch", "NOT_LEADER"): 1, ("produce", "NOT_LEADER"): 2}


def test_where_nobody_asks_for_metrics_no_batch_that_is_sent_is_looked_at() -> None:
    class Unread(bytes):
        def __len__(self) -> int:
            raise AssertionError("it was looked at")

    counters = Counters(counts_what_is_sent=False)
    counters.fetched("tides", PartitionRead((TOPIC_ID, 0), 10, 0, (Unread(batch(3)),), 200))
    assert (counters.sent.size_bytes, counters.sent.records) == (200, 0)


def test_a_leader_tells_who_is_missing_and_how_far_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        data = DataDirectory.open(tmp_path, "the-cluster", 1, DirectorySettings())
        shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), lambda _: None)
        settings = ReplicaSettings(1, min_insync_replicas=3)
        log = data.log(TOPIC_ID, 0, True, "tides", TopicSettings().log)
        replica = HostedReplica((TOPIC_ID, 0), "tides", TopicSettings(), Replica.opened(settings), log)
        shell.feed(replica, LeaderAndIsrDecided.dummy(1, 1, (1, 2), replicas=(1, 2, 3)))
        appended = batch(6)
        shell.feed(
            replica,
            ProduceArrived.dummy(record_count=6, acks_all=False),
            Payload(appended, [header for _, header in iterate(appended)]),
        )
        shell.feed(replica, FollowerFetched(2, 1, 0, SystemClock().monotonic_ms(), 0))
        found = survey([replica])
        assert (found.replicas, found.leaders, found.size_bytes) == (1, 1, len(appended))
        assert (found.under_replicated, found.under_min_isr, found.without_leader) == (1, 1, 0)
        assert found.lag_max == 6
        assert shell.counters.leaderships_begun == 1
        assert shell.counters.topics["tides"].received.records == 6
        shell.feed(replica, LeaderAndIsrDecided.dummy(-1, 2, (1,), replicas=(1, 2, 3)))
        found = survey([replica])
        assert (found.leaders, found.without_leader, found.under_replicated) == (0, 1, 0)
        assert shell.counters.leaderships_lost == 1
        shell.close()
        data.close()

    asyncio.run(scenario())


def test_names_begin_with_the_service_and_are_declared_once() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    assert all(name.startswith("hightide.broker.") for name in names)
