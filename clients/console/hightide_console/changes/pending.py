"""Changes that were shown, and wait for a yes. Pure.

Only what was shown can be done, and only once: whoever says yes names the ticket of what was shown, which
nobody can guess. Another site could not have it, and a button that is pressed twice does nothing twice.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hightide_console.changes.change import Change, Command

PENDING_MAX: Final = 64
_LASTS_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Shown:
    """A change as it was shown, and the command that a yes carries out."""

    change: Change
    command: Command
    values: dict[str, str]
    at_s: float


class PendingChanges:
    """The newest of them, by ticket."""

    def __init__(self, ticket: Callable[[], str] = lambda: secrets.token_urlsafe(32)) -> None:
        self._ticket = ticket
        self._shown: dict[str, Shown] = {}

    def add(self, shown: Shown) -> str:
        """Remember what was shown. Returns its ticket. The oldest is forgotten where there are too many."""
        while len(self._shown) >= PENDING_MAX:
            self._shown.pop(next(iter(self._shown)))
        ticket = self._ticket()
        self._shown[ticket] = shown
        return ticket

    def take(self, ticket: str, now_s: float) -> Shown | None:
        """What was shown under this ticket, once; None if nothing was, or too long ago."""
        shown = self._shown.pop(ticket, None)
        return shown if shown is not None and now_s - shown.at_s <= _LASTS_S else None
