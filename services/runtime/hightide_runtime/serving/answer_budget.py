"""The bytes of answers that were made and have not left yet, because their clients do not read them.

gRPC takes an answer whole and sends it as fast as the client's flow control lets it. Until then it is in
memory twice: as Python made it, and as gRPC copied it. What gRPC has handed to a connection beyond that is
bounded by its windows and the socket's buffer. `ServicerContext.add_done_callback` tells when an answer has
left, its client has cancelled, its deadline is over, or its connection is gone.
"""

from typing import Protocol

from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.fair_limit import PART, FairLimit, Holder
from hightide_runtime.serving.interceptors.interceptor import Plane


class Waiting(Protocol):
    """A call that waits for room for its answer."""

    def wake(self) -> None:
        """Let it look again. May be called twice."""
        ...


class AnswerBudget(FairLimit):
    """The bytes of unread answers of one plane of a server, shared by its connections and principals.
    Belongs to the event loop's thread.

    The interceptor counts each answer. It refuses a large one of a method that only describes, if there is no
    room. A method that reads records asks for `room` first, makes a smaller answer, or waits. No other answer
    is refused, since its method has done something by then; such answers are no larger than their requests.

    A call that waits here holds nothing of this budget, and an answer leaves without taking anything. So
    waiting calls never wait for each other.
    """

    def __init__(self, plane: Plane, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self._plane = plane
        self._waiting: dict[Holder, dict[Waiting, None]] = {}
        self.waits = 0
        """How often a call waited for room."""
        self.refusals = 0
        """Answers that were refused because there was none."""

    def wait(self, holder: Holder, call: Waiting) -> None:
        """Wake the call when there may be room for its connection. `leave` must follow."""
        self.waits += 1
        self._waiting.setdefault(holder, {})[call] = None

    def leave(self, holder: Holder, call: Waiting) -> None:
        """Wake the call no more."""
        waiting = self._waiting[holder]
        del waiting[call]
        if not waiting:
            del self._waiting[holder]

    def refusal(self, holder: Holder) -> ServiceError:
        """Count an answer for which there is no room, and say why."""
        self.refusals += 1
        return ServiceError(
            ErrorCode.ERROR_CODE_OVERLOADED,
            f"the server has {self.taken} bytes of answers of the {self._plane} plane that were not read "
            f"yet, {self.held(holder)} of them for this connection; it keeps {self.limit}, for each "
            f"connection one in {PART} of those that are free, and for each principal as many as are free. "
            "Read the answers that you wait for, or ask for less at a time, and try again after a pause",
            {
                "plane": self._plane.value,
                "answer_bytes_max": str(self.limit),
                "unread_answer_bytes": str(self.taken),
                "unread_answer_bytes_of_connection": str(self.held(holder)),
            },
        )

    def count(self, holder: Holder, amount: int) -> None:
        """Count an answer, whether there is room for it or not."""
        self._add(holder, amount)

    def give_back(self, holder: Holder, amount: int = 1) -> None:
        """Return what an answer took, and wake one call of each connection that has room now."""
        super().give_back(holder, amount)
        for other, calls in self._waiting.items():
            if self.room(other):
                first = next(iter(calls))
                first.wake()
                # The next room is for the next one, if this one comes to nothing.
                calls[first] = calls.pop(first)


def answer_budgets(limit_bytes: int) -> dict[Plane, AnswerBudget]:
    """A budget for each plane, all of one size. For who builds a server."""
    return {plane: AnswerBudget(plane, limit_bytes) for plane in Plane}
