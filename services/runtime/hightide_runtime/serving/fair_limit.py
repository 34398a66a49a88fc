"""A limit that many share, so that none of them can use it up."""

from typing import Final, NamedTuple

from hightide_runtime.access.principals import Role, current_caller
from hightide_runtime.serving.interceptors.interceptor import Context

PART: Final = 4
"""A connection may hold a quarter of what is free: a fifth of the whole limit if it is the only one."""


class Holder(NamedTuple):
    """Who holds a part of a limit."""

    #: As gRPC writes it: `ipv4:127.0.0.1:50144`.
    connection: str
    #: `client/alice`; empty if nobody knows who it is.
    principal: str = ""


def holder_of(context: Context) -> Holder:
    """Who makes the current call."""
    caller = current_caller()
    return Holder(context.peer(), "" if caller.role is Role.ANONYMOUS else str(caller))


class FairLimit:
    """A limit for what is unfinished: calls, requests that wait, bytes. Each connection may hold a part of
    what is free, and each principal as much as is free, over all its connections: half of the whole limit if
    it is the only one. Belongs to the event loop's thread.

    So the share of a holder falls as others take more, and what is left for the next one does not fall to
    nothing at once: ten connections that hold all they can leave a tenth, twenty a hundredth. And of one
    principal no number of connections leaves less than half. Source: Choudhury and Hahne, "Dynamic queue
    length thresholds for shared-memory packet switches" (1998).

    Nothing here waits. So what holds a place in one limit and needs one in another is refused or has it, and
    two limits cannot block each other.
    """

    def __init__(self, limit: int, part: int = PART) -> None:
        """`part`: a connection may hold one in so many of those that are free."""
        assert limit >= 1, limit
        self.limit: Final = limit
        self._part = part
        self._held: dict[str, int] = {}
        self._held_by_principal: dict[str, int] = {}
        self._connections: dict[str, int] = {}
        """How many connections of a principal hold something."""
        self.taken = 0
        """What all of them hold; read on any thread."""

    def held(self, holder: Holder) -> int:
        """What one connection holds."""
        return self._held.get(holder.connection, 0)

    def held_by_principal(self, principal: str) -> int:
        """What all connections of a principal hold; of "": those of which nobody knows whose they are."""
        return self._held_by_principal.get(principal, 0)

    def connections_of(self, principal: str) -> int:
        """How many connections of a principal hold something."""
        return self._connections.get(principal, 0)

    def room(self, holder: Holder) -> int:
        """How much more it may take now."""
        free = self.limit - self.taken
        room = -(-free // self._part) - self.held(holder)
        if holder.principal:
            room = min(room, free - self.held_by_principal(holder.principal))
        return max(0, room)

    def fits(self, holder: Holder, amount: int) -> bool:
        """Whether there is room for `amount`. A piece that is larger than the share of its holder fits while
        nobody holds anything."""
        return not self.taken or amount <= self.room(holder)

    def take(self, holder: Holder, amount: int = 1) -> bool:
        """Take `amount` if it fits."""
        assert amount >= 0, amount
        if not self.fits(holder, amount):
            return False
        self._add(holder, amount)
        return True

    def _add(self, holder: Holder, amount: int) -> None:
        if not amount:
            return
        connection, principal = holder
        before = self._held.get(connection, 0)
        self._held[connection] = before + amount
        self._held_by_principal[principal] = self._held_by_principal.get(principal, 0) + amount
        if not before:
            self._connections[principal] = self._connections.get(principal, 0) + 1
        self.taken += amount

    def give_back(self, holder: Holder, amount: int = 1) -> None:
        """Return what `take` took; exactly once for each."""
        if not amount:
            return
        connection, principal = holder
        if _take_off(self._held, connection, amount):
            _take_off(self._connections, principal, 1)
        _take_off(self._held_by_principal, principal, amount)
        self.taken -= amount


def _take_off(held: dict[str, int], name: str, amount: int) -> bool:
    """Count less. Returns whether nothing is left."""
    left = held[name] - amount
    assert left >= 0, (name, left)
    if left:
        held[name] = left
    else:
        del held[name]
    return not left
