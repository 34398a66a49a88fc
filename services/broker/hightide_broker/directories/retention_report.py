"""What one round deleted from logs, and why: one line for operators, whatever the number of logs."""

from __future__ import annotations

from typing import Final

from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.storage import DeletedRecords

_NAMED_MAX: Final = 10


class RetentionReport:
    """The deletions of one round. Retention, and the code that carries out DeleteRecords, make one, note each
    log that they checked, and log the sentence."""

    def __init__(self) -> None:
        self._deleted = DeletedRecords()
        self._logs: list[str] = []
        self._more = 0

    def note(self, replica: HostedReplica, *, has_moved: bool = False) -> None:
        """Note what was deleted from this log since the last call. `has_moved`: its start has moved, even if
        no whole segment is below it."""
        deleted = replica.log.deleted.take()
        if not deleted.segments and not has_moved:
            return
        self._deleted.add(deleted)
        if len(self._logs) < _NAMED_MAX:
            self._logs.append(f"{replica} begins at {replica.log.log_start_offset}")
        else:
            self._more += 1

    def sentence(self) -> str:
        """The line for the log; empty if nothing was deleted."""
        if not self._logs:
            return ""
        why = ", ".join(f"{size} bytes {each.value}" for each, size in self._deleted.sizes.items())
        more = f", and {self._more} more" if self._more else ""
        return (
            f"{self._deleted.segments} segments deleted of {len(self._logs) + self._more} logs"
            f"{': ' if why else ''}{why}; {', '.join(self._logs)}{more}"
        )
