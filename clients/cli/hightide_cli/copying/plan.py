"""The point at which a copy of a topic goes on. The notes of earlier runs and the target's producer state
come in, offsets go out. Pure.

Theory of operation. All runs of one copy are one writer to the target's log (`ProducerKey`), which counts the
records of a writer and refuses a count that is not the next. The notes say at which offset of the source the
count began, and are written before the first record is sent; so the source's offset of the next record is
that plus the count, however the last run ended. A log remembers a writer for a day. A run that came to its
end notes where it ended and begins a new count under the next version. So the log need not remember anything
any more, and the same command a week later copies only later records.

Records that the source deletes before they are copied leave a hole, which the count does not know. If the
user agrees to leave them out (`--skip-deleted`), a new count begins after the hole. Only a partition that was
never copied begins at the source's present start, as in a first run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from hightide_cli.records.ranges import OffsetRange

if TYPE_CHECKING:
    from hightide import ProducerState

# Sequences wrap there; a run that copies more of one partition could not tell where it is.
RECORDS_A_RUN_MAX: Final = 1 << 31
# Logs forget a writer a day after it wrote last; some time is left for clocks that differ.
REMEMBERED_MS: Final = 20 * 3600 * 1000


class CopyError(Exception):
    """A copy that cannot go on without writing records twice or leaving some out; the message says what to
    do."""


@dataclass(frozen=True, slots=True)
class CopyNotes:
    """The state of the earlier runs. `bases` has, by partition, the offset at which the count of `version`
    began. `is_finished` means that the last run came to its end, at the bases. `noted_ms` is when this was
    written."""

    version: int = 0
    bases: Mapping[int, int] = field(default_factory=dict)
    is_finished: bool = False
    noted_ms: int = 0

    def begun(self, wanted: Sequence[OffsetRange], now_ms: int) -> "CopyNotes":
        """The notes of a run that begins now. New partitions begin at the start of their wanted range. The
        time stays that of the first run since one came to its end, because the log's memory counts from
        there."""
        bases = {**{each.partition: each.start for each in wanted}, **self.bases}
        is_first = self.is_finished or not self.bases
        return replace(self, bases=bases, is_finished=False, noted_ms=now_ms if is_first else self.noted_ms)

    def finished(self, copied: Sequence[OffsetRange], now_ms: int) -> "CopyNotes":
        """The notes of a run that has copied all of these ranges. If an earlier run left records of other
        partitions, they are still counted under this version, which then cannot end yet."""
        if {each.partition for each in copied} < self.bases.keys():
            return self
        bases = {**self.bases, **{each.partition: each.end for each in copied}}
        return CopyNotes(self.version + 1, bases, is_finished=True, noted_ms=now_ms)

    def behind(self, left: Sequence[OffsetRange], now_ms: int) -> "CopyNotes":
        """The notes of a run that begins a new count at the start of each of these ranges, since records
        before it are left out. Raises CopyError if the count of other partitions would be lost."""
        others = self.bases.keys() - {each.partition for each in left}
        if others:
            raise CopyError(
                f"a new count begins behind what the source has deleted, and {len(others)} other partitions "
                "of this copy are counted, too: copy all of them at once, without --partition"
            )
        bases = {each.partition: each.start for each in left}
        return CopyNotes(self.version + 1, bases, noted_ms=now_ms)


def deleted_of(left: Sequence[OffsetRange], earliest: Mapping[int, int]) -> list[OffsetRange]:
    """The records that are still to be copied, but are no longer in the source, whose partitions now begin at
    `earliest`."""
    ends = {each.partition: min(each.end, earliest.get(each.partition, 0)) for each in left}
    return [
        OffsetRange(each.partition, each.start, ends[each.partition])
        for each in left
        if each.start < ends[each.partition]
    ]


def skipping(
    topic: str,
    left: Sequence[OffsetRange],
    deleted: Sequence[OffsetRange],
    notes: CopyNotes,
    *,
    is_agreed: bool,
) -> list[OffsetRange]:
    """The ranges to copy without the deleted records. Raises CopyError if records before them were copied, so
    that the target would have a hole, unless `is_agreed`."""
    holes = [each for each in deleted if notes.version or each.start > notes.bases[each.partition]]
    if holes and not is_agreed:
        records = sum(each.count for each in holes)
        first = holes[0]
        raise CopyError(
            f"{records:,} records of {topic} were deleted before they were copied, in partition "
            f"{first.partition} the offsets {first.start} to {first.end - 1}: give --skip-deleted to go on "
            "behind them, so that the target never has them, or copy into another topic"
        )
    ends = {each.partition: each.end for each in deleted}
    return [OffsetRange(each.partition, ends.get(each.partition, each.start), each.end) for each in left]


def going_on(
    target: str,
    wanted: Sequence[OffsetRange],
    notes: CopyNotes | None,
    known: Mapping[int, "ProducerState"],
    now_ms: int,
) -> list[OffsetRange]:
    """The part of each wanted range that is still to be copied. `known` has, by partition, the target's state
    of this copy. Raises CopyError."""
    if notes is None:
        if known:
            raise CopyError(
                f"topic {target} holds records of an earlier run of this copy, whose notes are not on this "
                "machine: bring them here with --notes FILE, or copy into another topic"
            )
        return list(wanted)
    left = []
    for each in wanted:
        base = notes.bases.get(each.partition)
        state = known.get(each.partition)
        if base is None:
            left.append(each)
            continue
        start = base + _count(target, each, notes, state, now_ms)
        if each.end - base >= RECORDS_A_RUN_MAX:
            raise CopyError(
                f"partition {each.partition} has {each.end - base:,} records to be copied, more than can be "
                f"counted in one run: copy fewer of them first, with --until {base + RECORDS_A_RUN_MAX - 1}"
            )
        left.append(OffsetRange(each.partition, start, max(start, each.end)))
    return left


def _count(
    target: str, wanted: OffsetRange, notes: CopyNotes, state: "ProducerState | None", now_ms: int
) -> int:
    """The number of records of this version of the copy in the target."""
    place = f"{target}-{wanted.partition}"
    if state is not None and state.producer_epoch > notes.version:
        raise CopyError(
            f"{place} holds records of a later run of this copy than the notes tell of: use the notes of "
            "that run, with --notes FILE, or copy into another topic"
        )
    if state is not None and state.producer_epoch == notes.version:
        return state.next_sequence
    has_records = wanted.end > notes.bases[wanted.partition]
    if has_records and not notes.is_finished and now_ms - notes.noted_ms > REMEMBERED_MS:
        raise CopyError(
            f"the last run of this copy did not come to its end, and {place} has forgotten meanwhile what it "
            "wrote: copy into another topic"
        )
    return 0
