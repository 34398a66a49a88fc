"""The ways in which records that a stream was to read can be lost, and where the stream can go on."""

from collections.abc import Callable

from hightide_spark.core.stream_offsets import StreamOffsets, TopicOffsets
from hightide_spark.errors import (
    DataLossError,
    PartitionsRemovedLossError,
    RecordsLostError,
    TopicDeletedLossError,
    TopicRecreatedLossError,
)

Selects = Callable[[str, int], bool]


def find_losses(start: StreamOffsets, now: StreamOffsets, selects: Selects) -> list[DataLossError]:
    """The losses of a stream at `start`, if the logs end at `now`. Partitions that are no longer selected do
    not count. Records that retention deleted are found when they are read."""
    losses: list[DataLossError] = []
    for topic, before in start.items():
        numbers = sorted(number for number in before.offsets if selects(topic, number))
        if not numbers:
            continue
        there = now.get(topic)
        if there is None:
            losses.append(TopicDeletedLossError(f"topic {topic} was deleted while it was read", topic=topic))
        elif there.topic_id != before.topic_id:
            message = (
                f"topic {topic} was deleted and created again while it was read: its id was "
                f"{before.topic_id} and is {there.topic_id}"
            )
            losses.append(TopicRecreatedLossError(message, topic=topic))
        else:
            losses += _in_topic(topic, {number: before.offsets[number] for number in numbers}, there)
    return losses


def _in_topic(topic: str, read: dict[int, int], there: TopicOffsets) -> list[DataLossError]:
    gone = [number for number in read if number not in there.offsets]
    losses: list[DataLossError] = []
    if gone:
        message = f"topic {topic} has {len(there.offsets)} partitions that are read; {gone} were removed"
        losses.append(PartitionsRemovedLossError(message, topic=topic))
    for number, offset in read.items():
        end = there.offsets.get(number)
        if end is not None and end < offset:
            message = (
                f"the log of {topic}-{number} ends at {end}, but it was read up to {offset}: an unclean "
                "election lost the records between"
            )
            losses.append(RecordsLostError(message, topic=topic, partition=number))
    return losses


def without_lost(start: StreamOffsets, now: StreamOffsets, selects: Selects) -> StreamOffsets:
    """The position at which a stream that tolerates the losses goes on: without lost partitions and, if a log
    ends earlier, at its end. A topic that was created again is new, and so begins at 0."""
    return {
        topic: TopicOffsets(
            before.topic_id,
            {
                number: min(offset, there.offsets[number])
                for number, offset in before.offsets.items()
                if number in there.offsets and selects(topic, number)
            },
        )
        for topic, before in start.items()
        if (there := now.get(topic)) is not None and there.topic_id == before.topic_id
    }
