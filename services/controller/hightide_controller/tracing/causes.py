"""Causes: short texts that go through the core with an event and come out with its effects.

The core passes causes on and reads none of them. The shell makes them, each with a reason. By its cause the
shell knows the trace of an effect, and the reason for an election.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CauseNames", "cause_within", "reason_of", "traceparent_within"]

_WITHIN: Final = "within "
"""The beginning of a cause that names a trace directly. The traceparent of its root follows."""


class CauseNames:
    """Makes causes with numbers, so that each event has its own. One for each shell."""

    def __init__(self) -> None:
        self._count = 0

    def new(self, reason: str) -> str:
        """A new cause for one event, with this reason."""
        self._count += 1
        return f"{reason}-{self._count}"


def reason_of(cause: str) -> str:
    """The reason of a cause that `CauseNames.new` has made. Of other causes it is without meaning."""
    return cause.rpartition("-")[0]


def cause_within(traceparent: str) -> str:
    """The cause for effects that belong to the trace with this root."""
    return f"{_WITHIN}{traceparent}"


def traceparent_within(cause: str) -> str:
    """The traceparent in a cause that `cause_within` has made; empty for other causes."""
    return cause.removeprefix(_WITHIN) if cause.startswith(_WITHIN) else ""
