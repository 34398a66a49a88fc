"""Checks that numbered records came back as they were sent: each once, in order. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass

EXAMPLES_MAX = 5


@dataclass(frozen=True, slots=True)
class SequenceFindings:
    """The result, as numbers of records. `unsure` ones were sent and not acknowledged, and may be in the log
    or not. `examples` describe the first findings."""

    acknowledged: int
    unsure: int
    read: int
    lost: int
    duplicated: int
    reordered: int
    foreign: int
    examples: tuple[str, ...] = ()

    @property
    def is_perfect(self) -> bool:
        """Whether every acknowledged record came back once and in order, and no record of another producer
        did."""
        return not (self.lost or self.duplicated or self.reordered or self.foreign)


class SequenceCheck:
    """Takes the sequence numbers of records in the order in which they are read, which in each partition
    should be 0, 1, 2 and so on. `bench verify` calls it."""

    def __init__(self, partitions: int) -> None:
        self._next = [0] * partitions
        # Numbers that a later one came before. If they still come, they are reordered, else lost.
        self._missing: list[set[int]] = [set() for _ in range(partitions)]
        self._examples: list[str] = []
        self.read_count = self._duplicated = self._reordered = self._foreign = 0

    def read(self, partition: int, sequence: int) -> None:
        """Take the number of the next record that was read."""
        self.read_count += 1
        due = self._next[partition]
        if sequence == due:
            self._next[partition] = due + 1
        elif sequence > due:
            self._missing[partition].update(range(due, sequence))
            self._next[partition] = sequence + 1
        elif sequence in self._missing[partition]:
            self._missing[partition].discard(sequence)
            self._reordered += 1
            self._note(f"{sequence} of partition {partition} came after {due - 1}")
        else:
            self._duplicated += 1
            self._note(f"{sequence} of partition {partition} came again after {due - 1}")

    def read_foreign(self, partition: int, offset: int) -> None:
        """Note that a record was read which this run did not send."""
        self.read_count += 1
        self._foreign += 1
        self._note(f"the record at offset {offset} of partition {partition} is of somebody else")

    def result(self, sent: Iterable[int], unsure: Iterable[set[int]]) -> SequenceFindings:
        """Return the result. `sent` is the number of records that were sent, `unsure` the numbers of those
        that were not acknowledged, both by partition."""
        acknowledged = lost = unsure_count = 0
        for partition, (count, doubtful) in enumerate(zip(sent, unsure, strict=True)):
            gone = self._missing[partition] | set(range(self._next[partition], count))
            missing = sorted(gone - doubtful)
            lost += len(missing)
            unsure_count += len(doubtful)
            acknowledged += count - len(doubtful)
            if missing:
                self._note(
                    f"{len(missing)} of partition {partition} are lost, from {missing[0]} to {missing[-1]}"
                )
        return SequenceFindings(
            acknowledged,
            unsure_count,
            self.read_count,
            lost,
            self._duplicated,
            self._reordered,
            self._foreign,
            tuple(self._examples),
        )

    def _note(self, sentence: str) -> None:
        if len(self._examples) < EXAMPLES_MAX:
            self._examples.append(sentence)
