"""A limit that many share, so that none of them can use it up."""

from typing import Final

PART: Final = 4
"""A holder may hold a quarter of what is free: a fifth of the whole limit if it is the only one."""


class FairLimit:
    """A limit for what is unfinished: calls, requests that wait, bytes. Each holder, such as a connection,
    may hold a part of what is free. Belongs to the event loop's thread.

    So the share of a holder falls as others take more, and what is left for the next one does not fall to
    nothing at once: ten that hold all they can leave a tenth, twenty a hundredth. Source: Choudhury and
    Hahne, "Dynamic queue length thresholds for shared-memory packet switches" (1998).

    Nothing here waits. So what holds a place in one limit and needs one in another is refused or has it, and
    two limits cannot block each other.
    """

    def __init__(self, limit: int) -> None:
        assert limit >= 1, limit
        self.limit: Final = limit
        self._held: dict[str, int] = {}
        self.taken = 0
        """What all of them hold; read on any thread."""

    def held(self, holder: str) -> int:
        """What one of them holds."""
        return self._held.get(holder, 0)

    def room(self, holder: str) -> int:
        """How much more it may take now."""
        free = self.limit - self.taken
        return max(0, -(-free // PART) - self.held(holder))

    def fits(self, holder: str, amount: int) -> bool:
        """Whether there is room for `amount`. A piece that is larger than the share of its holder fits while
        nobody holds anything."""
        return not self.taken or amount <= self.room(holder)

    def take(self, holder: str, amount: int = 1) -> bool:
        """Take `amount` if it fits."""
        assert amount >= 0, amount
        if not self.fits(holder, amount):
            return False
        self._add(holder, amount)
        return True

    def _add(self, holder: str, amount: int) -> None:
        self._held[holder] = self.held(holder) + amount
        self.taken += amount

    def give_back(self, holder: str, amount: int = 1) -> None:
        """Return what `take` took; exactly once for each."""
        left = self._held[holder] - amount
        assert left >= 0, (holder, left)
        self.taken -= amount
        if left:
            self._held[holder] = left
        else:
            del self._held[holder]
