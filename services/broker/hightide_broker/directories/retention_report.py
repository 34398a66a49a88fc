"""What one round deleted from logs, and why: one line for operators, whatever the number of logs."""

from __future__ import annotations

from typing import Final

from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.storage import Deleted

_NAMED_MAX: Final = 10


class RetentionReport:
    """The cuts of one round. `retention` and whoever carries out DeleteRecords make one, note each log that
    they looked at, and log the sentence."""

    def __init__(self) -> None:
        self._deleted = Deleted()
        self._logs: list[str] = []
        self._more = 0

    def note(self, replica: HostedReplica, *, has_moved: bool = False) -> None:
        """What went of this log since it was last asked. `has_moved`: its start has, also where no whole
        segment lies below."""
        deleted = replica.log.deleted.take()
        if not deleted.segments and not has_moved:
            return
        self._deleted.add(deleted)
        if len(self._logs) < _NAMED_MAX:
            self._logs.append(f"{replica} begins at {replica.log.log_start_offset}")
        else:
            self._more += 1

    def sentence(self) -> str:
        """Empty where nothing went."""
        if not self._logs:
            return ""
        why = ", ".join(f"{size} bytes {each.value}" for each, size in self._deleted.sizes.items())
        more = f", and {self._more} more" if self._more else ""
        return (
            f"{self._deleted.segments} segments deleted of {len(self._logs) + self._more} logs"
            f"{': ' if why else ''}{why}; {', '.join(self._logs)}{more}"
        )
