"""What GetMetadata says of a topic, made once for all who ask."""

from __future__ import annotations

from typing import Final, NamedTuple

from hightide.v1 import metadata_pb2

from hightide_broker.cluster.metadata import LeaderChange, MetadataCache, TopicView

_PRUNED_ABOVE: Final = 64


class _Answer(NamedTuple):
    topic: TopicView
    message: metadata_pb2.TopicMetadata
    changes: tuple[LeaderChange, ...]
    """The traces that the message names."""


class TopicAnswers:
    """The messages of topics that were asked for and have not changed since. One for each broker; on the
    event loop's thread.

    When a leader is gone, all clients of its topics ask at once, and the answer is as large as the topics: so
    it is made for each change, and not for each client.
    """

    def __init__(self, cache: MetadataCache) -> None:
        self.cache = cache
        self._answers: dict[str, _Answer] = {}
        self._pruned_above = _PRUNED_ABOVE

    def __len__(self) -> int:
        return len(self._answers)

    def of(self, topic: TopicView) -> metadata_pb2.TopicMetadata:
        """What to say of a topic of the cache. The caller copies it."""
        answer = self._answers.get(topic.topic)
        # The cache replaces a topic that changes. Only the trace of a change ends without that.
        if answer is None or answer.topic is not topic or not all(e.traceparent for e in answer.changes):
            self._prune()
            answer = self._answers[topic.topic] = _answer(topic)
        return answer.message

    def _prune(self) -> None:
        """Forget topics that are gone, each time that twice as many are held as were left the last time."""
        if len(self._answers) > self._pruned_above:
            known = ((name, answer) for name, answer in self._answers.items() if self.cache.topic(name))
            self._answers = dict(known)
            self._pruned_above = max(_PRUNED_ABOVE, 2 * len(self._answers))


def _answer(topic: TopicView) -> _Answer:
    message = metadata_pb2.TopicMetadata(
        topic=topic.topic,
        topic_id=topic.topic_id,
        configs=topic.configs,
        partitions=[
            metadata_pb2.PartitionMetadata(
                partition=each.partition,
                leader=each.leader,
                leader_epoch=each.leader_epoch,
                replicas=each.replicas,
                isr=each.isr,
                partition_epoch=each.partition_epoch,
                traceparent="" if each.change is None else each.change.traceparent,
            )
            for each in topic.partitions
        ],
    )
    changes = {each.change: None for each in topic.partitions if each.change and each.change.traceparent}
    return _Answer(topic, message, tuple(changes))
