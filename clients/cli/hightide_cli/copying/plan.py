"""Where a copy of a topic goes on: notes of earlier runs and what the target's log remembers in, offsets out.
Pure.

Theory of operation. All runs of one copy are one writer to the target's log (`ProducerKey`), which counts the
records of a writer and refuses a count that is not the next. The notes say at which offset of the source the
count began, and are written before the first record is sent; so the source's offset of the next record is
that plus the count, however the last run ended. A log remembers a writer for a day. A run that came to its
end notes where it ended and begins a new count under the next version, so that nothing needs to be remembered
any more, and the same command a week later copies only what came since.

What the source deletes before it is copied is a hole, of which the count would know nothing. The user says
that it shall be left out (`--skip-deleted`), and then a new count begins behind it. Only a partition of which
nothing was ever copied begins at what the source has now, as a first run would.
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
    """A copy that cannot go on without writing records twice or leaving some out; says what to do."""


@dataclass(frozen=True, slots=True)
class CopyNotes:
    """What is known of the earlier runs. `bases`: by partition, the offset at which the count of `version`
    began. `is_finished`: the last run came to its end, at the bases; `noted_ms` is when this was written."""

    version: int = 0
    bases: Mapping[int, int] = field(default_factory=dict)
    is_finished: bool = False
    noted_ms: int = 0

    def begun(self, wanted: Sequence[OffsetRange], now_ms: int) -> "CopyNotes":
        """The notes of a run that begins now. Partitions that are new begin at what is wanted of them; the
        time stays that of the first run since one came to its end, as the log's memory counts from there."""
        bases = {**{each.partition: each.start for each in wanted}, **self.bases}
        is_first = self.is_finished or not self.bases
        return replace(self, bases=bases, is_finished=False, noted_ms=now_ms if is_first else self.noted_ms)

    def finished(self, copied: Sequence[OffsetRange], now_ms: int) -> "CopyNotes":
        """The notes of a run that has copied all of these ranges. What an earlier run left of other
        partitions is still counted under this version, so that it cannot end yet."""
        if {each.partition for each in copied} < self.bases.keys():
            return self
        bases = {**self.bases, **{each.partition: each.end for each in copied}}
        return CopyNotes(self.version + 1, bases, is_finished=True, noted_ms=now_ms)

    def behind(self, left: Sequence[OffsetRange], now_ms: int) -> "CopyNotes":
        """The notes of a run that begins a new count where each of these ranges begins, since something in
        front of them is left out. Raises CopyError where that of other partitions would be forgotten."""
        others = self.bases.keys() - {each.partition for each in left}
        if others:
            raise CopyError(
                f"a new count begins behind what the source has deleted, and {len(others)} other partitions "
                "of this copy are counted, too: copy all of them at once, without --partition"
            )
        bases = {each.partition: each.start for each in left}
        return CopyNotes(self.version + 1, bases, noted_ms=now_ms)


def deleted_of(left: Sequence[OffsetRange], earliest: Mapping[int, int]) -> list[OffsetRange]:
    """What is to be copied still, and is not in the source any more, whose partitions begin there now."""
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
    """What is to be copied without what is deleted. Raises CopyError where something was copied in front of
    it, so that the target would have a hole, unless that `is_agreed`."""
    holes = [each for each in deleted if notes.version or each.start > notes.bases[each.partition]]
    if holes and not is_agreed:
        records = sum(each.count for each in holes)
        first = holes[0]
        raise CopyError(
            f"{records:,} records of {topic} were deleted before they were copied, in partition "
            f"{first.partition} the offsets {first.start} to {first.end - 1}: say --skip-deleted to go on "
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
    """What of each wanted range is to be copied still. `known`: by partition, what the target remembers of
    this copy. Raises CopyError."""
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
    """How many records of this version of the copy the target holds."""
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
