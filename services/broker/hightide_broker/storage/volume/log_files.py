"""The health of one log's files, as `disk_health` is that of a whole directory: their problems concern this
log alone.

Theory of operation. A disk that fails reports an I/O error. A disk that has lost or changed data reports
nothing: a batch fails its check, or a file is missing. As long as the data directory itself exists, that is
damage of one log (`DamagedLog`), which its peers can mend; no other log has to stop for it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from hightide.batch.errors import BatchError

from hightide_broker.storage.errors import CorruptFile, DamagedLog, DiskFull, LogClosed
from hightide_broker.storage.files.disk_health import DiskHealth
from hightide_broker.storage.files.files import Files
from hightide_broker.storage.volume.identity import is_there

__all__ = ["LogFiles"]


class LogFiles:
    """A context around calls on the files of one log; it holds no state of a call. Any thread."""

    __slots__ = (
        "_disk",
        "_files",
        "_on_damage",
        "_partition",
        "_path",
        "_topic",
        "_topic_id",
        "is_closed",
        "is_damaged",
        "unkept",
    )

    def __init__(
        self,
        files: Files,
        disk: DiskHealth,
        path: str,
        topic: str,
        topic_id: bytes,
        partition: int,
        on_damage: Callable[[DamagedLog], None],
    ) -> None:
        """`path` is that of the data directory. `on_damage` is called for each damage, on the thread that met
        it."""
        self._files = files
        self._disk = disk
        self._path = path
        self._topic = topic
        self._topic_id = topic_id
        self._partition = partition
        self._on_damage = on_damage
        self.is_closed = False
        """Whether the log was closed or put into quarantine: its files that are then missing are no
        damage."""
        self.is_damaged = False
        """Whether damage is known that is not mended. The checkpoints tell the next life of it."""
        self.unkept: Callable[[], None] | None = None
        """Keeps aside what recovery cut off, for which there was no room; None if nothing is left there. It
        raises OSError."""

    @property
    def was_full(self) -> bool:
        """Whether the directory had no room the last time that somebody looked."""
        return self._disk.was_full

    def has_room(self) -> None:
        """Somebody looked, and there is room."""
        self._disk.was_full = False

    def check_usable(self) -> None:
        """Raise StorageFailed after the directory's first final error."""
        self._disk.check_usable()

    def check_changeable(self) -> None:
        """Raise DiskFull if a change could meet what recovery cut off; called before every change of a
        segment."""
        if self.unkept is not None:
            raise DiskFull(
                f"{self._topic}-{self._partition} takes nothing before what recovery cut off is kept aside, "
                f"for which data directory {self._path} had no room; free or add space"
            )

    def keep_aside(self) -> None:
        """Try again to keep aside what recovery cut off. Waits for the disk, without the log's lock: nobody
        changes the log meanwhile. Raises DiskFull, StorageFailed, LogClosed."""
        if self.unkept is not None:
            with self:
                self.unkept()
            self.unkept = None

    def damaged(self, reason: object, segment: int = -1, offset: int = -1) -> DamagedLog:
        """Report damage. The caller raises the returned error."""
        damage = DamagedLog(self._topic, self._topic_id, self._partition, str(reason), segment, offset)
        self._on_damage(damage)
        return damage

    def is_damage(self, error: BaseException) -> bool:
        """Whether an error of a file call means that this log is damaged."""
        if isinstance(error, FileNotFoundError):
            # Where the directory is gone as well, a disk was taken away.
            return is_there(self._files, self._path)
        return isinstance(error, BatchError | CorruptFile)

    def __enter__(self) -> LogFiles:
        self._disk.check_usable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        if self.is_closed and isinstance(error, FileNotFoundError):
            raise LogClosed(f"{self._topic}-{self._partition} was closed meanwhile") from error
        if self.is_damage(error):
            raise self.damaged(error) from error
        self._disk.__exit__(kind, error, trace)
