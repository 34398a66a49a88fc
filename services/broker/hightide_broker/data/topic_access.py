"""Which partitions of a request its caller may use, if the cluster has ACLs.

What the caller may not use is answered here, and does not reach the part that does the work. It costs one
look-up for each topic of a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.access.call_access import CallAccess, current_access, why_not

from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.contract.data_calls import PartitionRefused
from hightide_broker.data import partition_errors

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class TopicAccess:
    """Asks for each topic of a call whether its caller may use it. One for each broker."""

    def __init__(self, broker_id: int, metadata: MetadataCache) -> None:
        self._broker_id = broker_id
        self._metadata = metadata

    async def for_permitted(
        self,
        operation: str,
        asked: Sequence[Asked],
        key_of: Callable[[Asked], PartitionKey],
        answer: Callable[[Sequence[Asked]], Awaitable[Sequence[Answer]]],
    ) -> Sequence[Answer | PartitionRefused]:
        """The answers for those partitions that the caller may use, and a refusal for each of the others, in
        the order of the request."""
        refusals = self.refusals(operation, map(key_of, asked))
        if not any(refusals):
            return await answer(asked)
        permitted = [each for each, refusal in zip(asked, refusals, strict=True) if refusal is None]
        answers = iter(await answer(permitted) if permitted else ())
        return [next(answers) if refusal is None else refusal for refusal in refusals]

    def refusals(self, operation: str, keys: Iterable[PartitionKey]) -> list[PartitionRefused | None]:
        """For each partition, why the caller may not use it; nothing at all without ACLs."""
        access = current_access()
        if access is None:
            return []
        by_topic: dict[bytes, PartitionRefused | None] = {}
        refusals = []
        for topic_id, partition in keys:
            if topic_id not in by_topic:
                by_topic[topic_id] = self._refusal(access, operation, (topic_id, partition))
            refusals.append(by_topic[topic_id])
        return refusals

    def _refusal(self, access: CallAccess, operation: str, key: PartitionKey) -> PartitionRefused | None:
        topic_id = key[0]
        topic = self._metadata.topic_by_id(topic_id)
        name = self._metadata.name_of_deleted(topic_id) if topic is None else topic.topic
        if not name:
            return partition_errors.not_hosted(self._broker_id, self._metadata, key)
        match access.refused(operation, name):
            case None:
                return None
            case ErrorCode.ERROR_CODE_UNKNOWN_TOPIC:
                return partition_errors.no_such_topic(self._broker_id, topic_id)
            case code:
                return PartitionRefused(code, why_not(access.principal, operation, "topic", name))
