"""What an event comes from, as a short text that goes through the core and comes out with its effects.

The core passes causes on and reads none of them. The shell gives them, with the reason in front, and knows by
them to which trace an effect belongs, and for what reason a leader was elected.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CauseNames", "cause_within", "reason_of", "traceparent_within"]

_WITHIN: Final = "within "
"""Begins the cause of what belongs to a trace that no request waits for; the root of the trace stands
behind."""


class CauseNames:
    """One for each shell: numbers them, so that no two events have the same."""

    def __init__(self) -> None:
        self._count = 0

    def new(self, reason: str) -> str:
        """The cause of one event."""
        self._count += 1
        return f"{reason}-{self._count}"


def reason_of(cause: str) -> str:
    """The reason with which `CauseNames.new` made it; anything else of a cause that was made otherwise."""
    return cause.rpartition("-")[0]


def cause_within(traceparent: str) -> str:
    """The cause of what belongs to the trace with this root."""
    return f"{_WITHIN}{traceparent}"


def traceparent_within(cause: str) -> str:
    """The root of the trace that `cause_within` named; empty for other causes."""
    return cause.removeprefix(_WITHIN) if cause.startswith(_WITHIN) else ""
