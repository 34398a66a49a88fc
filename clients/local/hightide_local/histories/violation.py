"""The errors of checks: a promise that does not hold.

Checks raise errors instead of `assert`, which `python -O` removes, so that every check would pass.
"""

from collections.abc import Iterable
from typing import Final

__all__ = ["NotInTimeError", "ViolationError", "require"]

SHOWN_MAX: Final = 10


class ViolationError(Exception):
    """A promise does not hold. All checks raise it, and `hightide bench faults` ends with the first one.

    `promise` is the promise, `seen` the observations against it. The message has the first SHOWN_MAX of them.
    """

    def __init__(self, promise: str, seen: Iterable[object] = ()) -> None:
        self.promise = promise
        self.seen = tuple(seen)
        lines = [promise, *map(str, self.seen[:SHOWN_MAX])]
        if len(self.seen) > SHOWN_MAX:
            lines.append(f"… and {len(self.seen) - SHOWN_MAX} more")
        super().__init__("\n".join(lines))


class NotInTimeError(ViolationError):
    """A condition did not become true within its timeout. `waiting` raises it."""


def require(holds: object, promise: str, seen: Iterable[object] = ()) -> None:
    """Raise ViolationError unless the promise holds."""
    if not holds:
        raise ViolationError(promise, seen)
