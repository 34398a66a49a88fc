"""The producer snapshots of one log: files `<offset>.producers`, each the states of producers up to that
offset.

No snapshot is synced, and neither is the removal of one. So after a power cut there may be one of records
that were cut off since, at an offset that the log has reached again with others. Each names the leader epoch
of its last record, and a snapshot holds for the log that has a record of that epoch there: leader epoch and
offset identify a record.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from hightide_broker.storage.checkpoints.leader_epochs import LeaderEpochs
from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.files.files import Files
from hightide_broker.storage.files.sealed_file import read_file, write_whole
from hightide_broker.storage.log.producer_states import ProducerStates
from hightide_broker.storage.segments.segment import Segment, offset_name

__all__ = ["ProducerSnapshots"]

_SUFFIX: Final = ".producers"


class ProducerSnapshots:
    """The snapshots in one log's directory."""

    __slots__ = ("_directory", "_epochs", "_files")

    def __init__(self, files: Files, directory: str, epochs: LeaderEpochs) -> None:
        """`epochs` are those of the log."""
        self._files = files
        self._directory = directory
        self._epochs = epochs

    def write(self, offset: int, states: ProducerStates) -> None:
        """Write a snapshot; called when a segment is closed and when the log is. Raises OSError."""
        contents = states.encode(self._epochs.epoch_before(offset))
        write_whole(self._files, self._path(offset), contents, durable=False)

    def restore(self, states: ProducerStates, segments: Sequence[Segment]) -> None:
        """Restore the states as of the end of the log: a snapshot, then the headers behind it. Raises
        OSError.

        Takes a microsecond or three a batch of the active segment, so that a log that crashed does it when
        opened.
        """
        base_offset, end_offset = segments[0].base_offset, segments[-1].next_offset
        start = max(self._restore_latest(states, base_offset, end_offset), base_offset)
        for segment in segments:
            if segment.next_offset <= start:
                continue
            position, first_offset = 0, None
            if start > segment.base_offset:
                position, header = segment.locate(start)
                first_offset = header.base_offset if position else None
            for _, header in segment.batches(position, first_offset):
                states.update(header)

    def _restore_latest(self, states: ProducerStates, base_offset: int, end_offset: int) -> int:
        """Restore the newest snapshot of the log between these offsets; give its offset, or -1 where there is
        none.

        Those that are damaged, or of other records, are removed on the way. Raises OSError.
        """
        for offset in reversed(self._offsets()):
            if offset > end_offset:
                continue
            try:
                leader_epoch = states.restore(read_file(self._files, self._path(offset)))
            except CorruptFile:
                self._files.remove(self._path(offset))
                continue
            # In front of the log nobody can compare. Those records were committed, so they were no others.
            if offset <= base_offset or leader_epoch == self._epochs.epoch_before(offset):
                return offset
            self._files.remove(self._path(offset))
        states.clear()
        return -1

    def prune(self, keep: Container[int], offset_max: int) -> None:
        """Remove snapshots behind `offset_max`, and those in front but for the newest and those in `keep`."""
        offsets = self._offsets()
        newest = max((offset for offset in offsets if offset <= offset_max), default=-1)
        for offset in offsets:
            if offset > offset_max or (offset != newest and offset not in keep):
                self._files.remove(self._path(offset))

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset_name(offset)}{_SUFFIX}"

    def _offsets(self) -> list[int]:
        """Offsets of all snapshots, rising."""
        try:
            names = self._files.names(self._directory)
        except FileNotFoundError:
            return []
        stems = (name.removesuffix(_SUFFIX) for name in names if _SUFFIX in name)
        return [int(stem) for stem in stems if stem.isascii() and stem.isdigit()]
