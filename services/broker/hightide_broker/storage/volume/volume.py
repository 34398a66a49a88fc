"""The parts that all logs of a data directory share: its files, its health, and the memory for its logs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from hightide_broker.storage.errors import DamagedLog
from hightide_broker.storage.files.disk_health import DiskHealth
from hightide_broker.storage.files.files import Files
from hightide_broker.storage.files.open_files import OpenFiles
from hightide_broker.storage.settings import DirectorySettings
from hightide_broker.storage.volume.ageing import AgeingClock
from hightide_broker.storage.volume.quarantine import Quarantine
from hightide_broker.storage.volume.tail import TailMemory

__all__ = ["DamageListener", "LoadedIndexes", "Volume"]

_INDEXES_MAX: Final = 64


class IndexHolder(Protocol):
    """A segment, whose indexes can be read again."""

    def unload_indexes(self) -> None:
        """Drop the indexes in memory."""
        ...


class LoadedIndexes:
    """Closed segments whose indexes are in memory: the ones used last, at most 64. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: OrderedDict[int, IndexHolder] = OrderedDict()

    def used(self, segment: IndexHolder) -> None:
        """Note that a segment loaded or used its indexes."""
        with self._lock:
            self._loaded[id(segment)] = segment
            self._loaded.move_to_end(id(segment))
            if len(self._loaded) > _INDEXES_MAX:
                _, oldest = self._loaded.popitem(last=False)
                oldest.unload_indexes()

    def forget(self, segment: IndexHolder) -> None:
        """Drop a segment that is active again, or removed."""
        with self._lock:
            self._loaded.pop(id(segment), None)


class DamageListener:
    """The listener for damage to a log. Any thread."""

    def __init__(self) -> None:
        self._on_damage: Callable[[DamagedLog], None] | None = None

    def tell(self, on_damage: Callable[[DamagedLog], None]) -> None:
        """Call this at each damage, on the thread that met it."""
        self._on_damage = on_damage

    def ring(self, damage: DamagedLog) -> None:
        """Report damage."""
        if self._on_damage is not None:
            self._on_damage(damage)


@dataclass(frozen=True, slots=True)
class Volume:
    """The shared parts, made once by the data directory."""

    path: str
    files: Files
    disk: DiskHealth
    damage: DamageListener
    open_files: OpenFiles
    tails: TailMemory
    indexes: LoadedIndexes
    settings: DirectorySettings
    clock: AgeingClock
    quarantine: Quarantine

    @classmethod
    def make(cls, path: str, files: Files, settings: DirectorySettings, clock: AgeingClock) -> Volume:
        """The shared parts of one data directory."""
        return cls(
            path=path,
            files=files,
            disk=DiskHealth(path),
            damage=DamageListener(),
            open_files=OpenFiles(files, settings.open_files_max),
            tails=TailMemory(settings.tail_bytes_max, settings.tail_bytes_per_log_max),
            indexes=LoadedIndexes(),
            settings=settings,
            clock=clock,
            quarantine=Quarantine(files, path),
        )
