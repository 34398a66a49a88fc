"""DescribeProducers: the state of idempotent producers in the logs that this broker leads (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final

from hightide.batch.errors import BatchError
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError

from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.contract.data_calls import PartitionRefused, ProducersQuestion
from hightide_broker.core.leader import refuse_client
from hightide_broker.data import partition_errors
from hightide_broker.replica.held_replicas import HostedReplicas
from hightide_broker.storage import ProducerState, StorageError

PARTITIONS_MAX: Final = 1_000
PRODUCER_IDS_MAX: Final = 1_000
DESCRIPTIONS_MAX: Final = 20_000
"""Producers in one answer, for all partitions together. A larger answer would delay the event loop."""


class ProducerDescriptions:
    """Answers DescribeProducers. One for each broker; belongs to the event loop's thread."""

    def __init__(
        self, broker_id: int, replicas: HostedReplicas, metadata: MetadataCache, disk: Executor
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._metadata = metadata
        self._disk = disk

    async def describe(
        self, questions: Sequence[ProducersQuestion], producer_ids: Sequence[int]
    ) -> list[list[ProducerState] | PartitionRefused]:
        """One answer for each question, in order; about these producers, or about all if none is named.

        Raises ServiceError for a fault of the whole request.
        """
        _check(len(questions), PARTITIONS_MAX, "partitions")
        _check(len(producer_ids), PRODUCER_IDS_MAX, "producers")
        wanted = frozenset(producer_ids)
        answers: list[list[ProducerState] | PartitionRefused] = []
        described_count = 0
        for question in questions:
            answer = await self._answer(question, wanted)
            if not isinstance(answer, PartitionRefused):
                described_count += len(answer)
            if described_count > DESCRIPTIONS_MAX:
                raise ServiceError(
                    ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
                    f"the partitions remember more than {DESCRIPTIONS_MAX} producers, the most for one "
                    "answer; name fewer partitions, or name the producers",
                )
            answers.append(answer)
        return answers

    async def _answer(
        self, question: ProducersQuestion, producer_ids: frozenset[int]
    ) -> list[ProducerState] | PartitionRefused:
        replica = self._replicas.get(question.key)
        if replica is None:
            return partition_errors.not_hosted(self._broker_id, self._metadata, question.key)
        refusal = refuse_client(replica.state, question.leader_epoch)
        if refusal is not None:
            return partition_errors.by_core(replica, refusal)
        loop = asyncio.get_running_loop()
        try:
            # A log that was truncated or closed recently is read from disk.
            found = await loop.run_in_executor(self._disk, replica.log.describe_producers, producer_ids)
        except (BatchError, StorageError) as error:
            return partition_errors.by_storage(replica, error)
        # A broker that does not lead any more may have truncated its log meanwhile.
        refusal = refuse_client(replica.state, question.leader_epoch)
        return found if refusal is None else partition_errors.by_core(replica, refusal)


def _check(count: int, count_max: int, what: str) -> None:
    if count > count_max:
        raise ServiceError(
            ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
            f"the request names {count} {what}; send at most {count_max}",
        )
