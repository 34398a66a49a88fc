"""DescribeProducers: who is told what, by whom, and how much of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from adversary.batches import good_batch
from hightide.batch.header import iterate
from hightide.v1.broker_service_pb2 import DescribeProducersPartition, DescribeProducersRequest
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.contract.convert_producers import producers_in, producers_out
from hightide_broker.contract.data_calls import PartitionRefused, ProducersQuestion
from hightide_broker.core.events import DirectoryFailed, LeaderAndIsrDecided, ProduceArrived
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.data import describe_producers
from hightide_broker.data.describe_producers import ProducerDescriptions
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import Payload, ReplicaShell
from hightide_broker.storage import DataDirectory, DirectorySettings, ProducerState
from hightide_runtime.errors import ServiceError
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.tracing import Telemetry

TOPIC_ID = bytes(range(16))
EPOCH = 3
Answers = list[list[ProducerState] | PartitionRefused]


class Leader:
    """Leads partition 0, to which producers 7 and 1 << 62 have written."""

    def __init__(self, data: DataDirectory) -> None:
        self._hosted = HostedReplicas()
        topic = TopicSettings()
        self.replica = HostedReplica(
            (TOPIC_ID, 0), "flights", topic, Replica.opened(ReplicaSettings(1)),
            data.log(TOPIC_ID, 0, True, "flights", topic.log),
        )  # fmt: skip
        self._hosted.add(self.replica)

    async def lead(self) -> None:
        self.shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), lambda _: None)
        self.shell.feed(self.replica, LeaderAndIsrDecided.dummy(1, EPOCH, (1,), replicas=(1,)))
        for producer_id, epoch, sequence in ((1 << 62, 4, 0), (7, 0, 0), (1 << 62, 4, 2), (1 << 62, 5, 0)):
            batch = good_batch(
                TOPIC_ID,
                0,
                [b"a", b"b"],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            headers = [header for _, header in iterate(batch)]
            self.shell.feed(self.replica, ProduceArrived.dummy(2, acks_all=False), Payload(batch, headers))

    async def describe(self, *asked: tuple[int, int], ids: Sequence[int] = ()) -> Answers:
        with ThreadPoolExecutor(1) as disk:
            described = ProducerDescriptions(
                1, self._hosted, MetadataCache("the-cluster", controller_epoch=1), disk
            )
            return await described.describe(
                [ProducersQuestion((TOPIC_ID, partition), epoch) for partition, epoch in asked], ids
            )


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leader]:
    data = DataDirectory.open(tmp_path, "the-cluster", 1, DirectorySettings())
    yield Leader(data)
    data.close()


def ask(leader: Leader, *asked: tuple[int, int], ids: Sequence[int] = (), failed: bool = False) -> Answers:
    async def scenario() -> Answers:
        await leader.lead()
        if failed:
            leader.shell.feed(leader.replica, DirectoryFailed())
        answers = await leader.describe(*asked, ids=ids)
        leader.shell.close()
        return answers

    return asyncio.run(scenario())


SMALL = ProducerState(7, 0, 0, 2, 2, 4)
KEYED = ProducerState(1 << 62, 5, 0, 6, 2, 8)


@pytest.mark.parametrize(
    ("epoch", "ids", "told"),
    [(-1, [], [SMALL, KEYED]), (EPOCH, [1 << 62, 5, 1 << 62], [KEYED]), (-1, [5], [])],
)
def test_a_leader_tells_of_all_producers_or_of_those_that_are_named(
    leader: Leader, epoch: int, ids: list[int], told: list[ProducerState]
) -> None:
    assert ask(leader, (0, epoch), ids=ids) == [told]


def test_each_partition_is_refused_by_name(leader: Leader) -> None:
    answers = ask(leader, (0, EPOCH - 1), (0, EPOCH + 1), (1, -1))
    assert [answer.code for answer in answers if isinstance(answer, PartitionRefused)] == [
        ErrorCode.ERROR_CODE_FENCED_LEADER_EPOCH,
        ErrorCode.ERROR_CODE_UNKNOWN_LEADER_EPOCH,
        ErrorCode.ERROR_CODE_UNKNOWN_TOPIC,
    ]
    (failed,) = ask(leader, (0, -1), failed=True)
    assert isinstance(failed, PartitionRefused)
    assert failed.code == ErrorCode.ERROR_CODE_STORAGE_FAILED


def test_what_is_asked_and_what_is_told_at_once_is_bounded(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [(0, -1)]
    with pytest.raises(ServiceError, match="1001 partitions"):
        ask(leader, *(asked * 1001))
    with pytest.raises(ServiceError, match="1001 producers"):
        ask(leader, *asked, ids=range(1001))
    monkeypatch.setattr(describe_producers, "DESCRIPTIONS_MAX", 3)
    with pytest.raises(ServiceError, match="more than 3 producers"):
        ask(leader, *(asked * 2))


def test_the_contract_hears_it_in_the_order_of_the_request() -> None:
    here, gone = (DescribeProducersPartition(topic_id=TOPIC_ID, partition=n, leader_epoch=n) for n in (0, 1))
    questions = producers_in(DescribeProducersRequest(partitions=[here, gone]))
    assert questions == (ProducersQuestion((TOPIC_ID, 0), 0), ProducersQuestion((TOPIC_ID, 1), 1))
    told = producers_out(questions, [[KEYED], PartitionRefused(ErrorCode.ERROR_CODE_NOT_LEADER, "not here")])
    (producer,) = told.partitions[0].producers
    assert (producer.producer_id, producer.producer_epoch, producer.first_sequence) == (1 << 62, 5, 0)
    assert (producer.first_offset, producer.next_sequence, producer.end_offset) == (6, 2, 8)
    assert (told.partitions[1].partition, told.partitions[1].error_code) == (1, 40)
    assert told.partitions[1].error_message == "not here"
