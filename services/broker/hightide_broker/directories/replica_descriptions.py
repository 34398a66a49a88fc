"""DescribeReplicas: the replicas of this broker, for plans and for the progress of moves.

Read from memory; no file is touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError

from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.contract.descriptions import DescribedReplica
from hightide_broker.core.replica import Role
from hightide_broker.directories.log_directories import LogDirectories
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas

DESCRIBED_MAX: Final = 50_000
"""Replicas in one answer, which stays well below the limit of a message."""
BREATHE_EVERY: Final = 500


class ReplicaDescriptions:
    """Answers DescribeReplicas. One for each broker; belongs to the event loop's thread."""

    def __init__(
        self, replicas: HostedReplicas, metadata: MetadataCache, directories: LogDirectories
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._directories = directories

    async def describe(self, topics: Sequence[str]) -> list[DescribedReplica]:
        """The replicas of these topics, or of all topics if none is named, by topic and partition.

        A topic without a replica here is left out. Raises ServiceError(LIMIT_EXCEEDED).
        """
        chosen = self._of_topics(topics) if topics else list(self._replicas)
        if len(chosen) > DESCRIBED_MAX:
            raise ServiceError(
                ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
                f"this broker holds {len(chosen)} replicas of these topics, and describes at most "
                f"{DESCRIBED_MAX} in one answer; name fewer topics",
            )
        described = []
        for done, replica in enumerate(sorted(chosen, key=_place), start=1):
            described.append(self._describe(replica))
            if done % BREATHE_EVERY == 0:
                await asyncio.sleep(0)
        return described

    def _of_topics(self, topics: Sequence[str]) -> list[HostedReplica]:
        known = [found for name in topics if (found := self._metadata.topic(name)) is not None]
        return [replica for topic in known for replica in self._replicas.of_topic(topic.topic_id)]

    def _describe(self, replica: HostedReplica) -> DescribedReplica:
        state = replica.state
        return DescribedReplica(
            replica.key, replica.topic, state.is_leader, state.leader_epoch, state.log_start_offset,
            state.log_end_offset, state.high_watermark, replica.log.size_bytes,
            max(0, self._directories.number_of(replica.key)), state.role is Role.FAILED,
        )  # fmt: skip


def _place(replica: HostedReplica) -> tuple[str, int]:
    return replica.topic, replica.key[1]
