"""The offsets of a stream, which Spark keeps in a checkpoint and shows in a query's progress.

    {"flights": {"id": "0f3c…", "offsets": {"0": 1200, "1": 1180}}}

Each offset is that of the next record to read. The topic's id (32 hexadecimal digits) is kept, so that a
topic that was deleted and created again differs from one that goes on. Spark takes two offsets for the same
if their JSON is equal, so topics are sorted by name and partitions by number.

Option `groupId`: the stream reader itself commits the positions after every finished micro-batch. This
includes the last one of Trigger.AvailableNow, because Spark then asks it once more for the latest offsets,
from those positions.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hightide.records import TopicPartition

from hightide_spark.errors import UnreadableOffsetsError

_ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """The positions in one topic: its id, and for each partition the offset of the next record."""

    topic_id: str
    offsets: Mapping[int, int] = field(default_factory=dict)


StreamOffsets = Mapping[str, TopicOffsets]


def as_json_object(offsets: StreamOffsets) -> dict[str, Any]:
    """The offsets as Spark takes them from a stream reader."""
    return {
        topic: {
            "id": offsets[topic].topic_id,
            "offsets": {
                str(number): offsets[topic].offsets[number] for number in sorted(offsets[topic].offsets)
            },
        }
        for topic in sorted(offsets)
    }


def parse(offsets: object) -> dict[str, TopicOffsets]:
    """The offsets as Spark gives them back: the object, or its JSON text as in `sources[].endOffset` of a
    query's progress. Raises UnreadableOffsetsError."""
    if isinstance(offsets, str):
        try:
            offsets = json.loads(offsets)
        except (ValueError, RecursionError) as error:
            raise UnreadableOffsetsError(f"the offsets {str(offsets)[:200]!r} are not JSON") from error
    if not isinstance(offsets, dict):
        raise UnreadableOffsetsError(f"the offsets {str(offsets)[:200]!r} name no topics")
    return {str(topic): _parse_topic(str(topic), value) for topic, value in offsets.items()}


def _parse_topic(topic: str, value: object) -> TopicOffsets:
    if isinstance(value, dict):
        topic_id, offsets = value.get("id"), value.get("offsets")
        if isinstance(topic_id, str) and len(topic_id) == _ID_DIGITS and isinstance(offsets, dict):
            numbers = {str(number): offset for number, offset in offsets.items()}
            if all(
                number.isascii() and number.isdigit() and type(offset) is int and offset >= 0
                for number, offset in numbers.items()
            ):
                return TopicOffsets(topic_id, {int(number): offset for number, offset in numbers.items()})
    raise UnreadableOffsetsError(f"the offsets of topic {topic} are {str(value)[:200]!r}", topic=topic)


def positions(offsets: StreamOffsets) -> dict[TopicPartition, int]:
    """The offset of the next record of each partition."""
    return {
        TopicPartition(topic, number): offset
        for topic, each in offsets.items()
        for number, offset in each.offsets.items()
    }
