"""What a judge raises: a promise that does not hold.

An error of its own and no `assert`: those vanish under `python -O`, and a judge that is silent then finds
every cluster innocent.
"""

from collections.abc import Iterable
from typing import Final

__all__ = ["NotInTimeError", "ViolationError", "require"]

TOLD_MOST: Final = 10


class ViolationError(Exception):
    """Something that was promised is not so. Raised by all judges; `hightide bench faults` ends with the
    first.

    `promise` is what does not hold, `seen` what was seen instead, the first few of which the message tells.
    """

    def __init__(self, promise: str, seen: Iterable[object] = ()) -> None:
        self.promise = promise
        self.seen = tuple(seen)
        lines = [promise, *map(str, self.seen[:TOLD_MOST])]
        if len(self.seen) > TOLD_MOST:
            lines.append(f"… and {len(self.seen) - TOLD_MOST} more")
        super().__init__("\n".join(lines))


class NotInTimeError(ViolationError):
    """Something did not become so within the time that it may take. Raised by `waiting`."""


def require(holds: object, promise: str, seen: Iterable[object] = ()) -> None:
    """Raise ViolationError unless it holds."""
    if not holds:
        raise ViolationError(promise, seen)
