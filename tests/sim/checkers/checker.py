"""What a checker is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sim.world import World


class Violation(AssertionError):
    """An invariant does not hold; the message names it first."""

    def __init__(self, invariant: str, message: str, story: Sequence[str]) -> None:
        self.invariant = invariant
        told = "\n".join(story[-60:])
        super().__init__(f"{invariant}: {message}\n--- the last orders:\n{told}")


class Checker:
    """Looks at a world after each order."""

    def __init__(self, world: World) -> None:
        self.world = world

    def check(self) -> None:
        """Raise Violation where the invariant does not hold."""
        raise NotImplementedError

    def violated(self, message: str) -> NoReturn:
        """Say what does not hold."""
        raise Violation(type(self).__name__, message, self.world.story)
