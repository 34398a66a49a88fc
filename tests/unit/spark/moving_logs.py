"""A topic whose logs move between the questions of a stream, and a group that is busy at first."""

from collections.abc import Iterable, Sequence
from typing import Any

from hightide.errors import GroupNotEmptyError, UnknownPartitionError
from hightide.records import PartitionDescription, TopicDescription, TopicPartition

TOPIC_ID = bytes(16)


class MovingLogs:
    """Topic t. Each time its ends are asked for, the next ones are told; the last ones again and again."""

    def __init__(self, *ends: Sequence[int]) -> None:
        self._ends = list(ends)

    def describe_topics(self, names: Iterable[str] | None) -> list[TopicDescription]:
        partitions = tuple(PartitionDescription(at, 1, 1, (1,), (1,), 1) for at in range(len(self._ends[0])))
        return [TopicDescription("t", TOPIC_ID, partitions, {})]

    def list_offsets(self, partitions: Iterable[TopicPartition], when: Any) -> dict[TopicPartition, int]:
        assert when == "latest"
        ends = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        return {each: ends[each.partition] for each in partitions}


class HardOfHearing(MovingLogs):
    """The first broker that is asked has not heard of the partitions."""

    def list_offsets(self, partitions: Iterable[TopicPartition], when: Any) -> dict[TopicPartition, int]:
        if self._heard:
            return super().list_offsets(partitions, when)
        self._heard = True
        raise UnknownPartitionError("topic t has the partitions 0 to 0, not 1")

    _heard = False


class BusyGroup:
    """A group that refuses the first positions, and remembers the others."""

    def __init__(self) -> None:
        self.refused: list[dict[TopicPartition, int]] = []
        self.told: list[dict[TopicPartition, int]] = []

    def commit_group_offsets(self, group: str, offsets: dict[TopicPartition, int]) -> None:
        if not self.refused:
            self.refused.append(offsets)
            raise GroupNotEmptyError(f"group {group} has members")
        self.told.append(offsets)


def at(*ends: int) -> dict[str, Any]:
    return {"t": {"id": TOPIC_ID.hex(), "offsets": {str(number): end for number, end in enumerate(ends)}}}
