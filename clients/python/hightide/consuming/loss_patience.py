"""When a client believes a broker that says that what was committed is not there.

Rules of this file: no clock, no I/O; time comes in as `now_ms`.

A broker that was stopped for a while, or is cut off and still reached by clients, answers as of then: it
holds no lease on reading. To whoever names the epoch of what it has read it says that it is behind (KIP-320).
Whoever cannot, because its position came from elsewhere, is told that the offset lies beyond the log end.

So one such answer is never believed. The newest leader that is known is asked again, and meanwhile one broker
after the other who leads. The loss is certain when it was told for LOSS_PATIENCE_MS without a break, and
another broker than the one that tells it has answered meanwhile and knew of no newer leader. Where no other
one answers, it stays uncertain until the client's own budget ends. Shared by `RangeCore` and `ConsumerCore`.
"""

from typing import Final

from hightide.cluster.metadata import Cluster
from hightide.errors import HightideError

LOSS_PATIENCE_MS: Final = 2_000


class LossPatience:
    """One a position. `clear` whenever anything else was answered."""

    __slots__ = ("_kind", "_since_ms", "_since_version")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Nothing is lost, as far as is known."""
        self._kind: type[HightideError] | None = None
        self._since_ms = 0.0
        self._since_version = 0

    def is_certain(
        self, loss: HightideError, cluster: Cluster, now_ms: float, *, told_by: str | None = None
    ) -> bool:
        """Note that this loss was told, and say whether it is to be believed by now. `told_by` is the address
        of the broker that told it; None where it is the metadata that says so."""
        if self._kind is not type(loss):
            self._kind, self._since_ms, self._since_version = type(loss), now_ms, cluster.version
            return False
        if now_ms - self._since_ms < LOSS_PATIENCE_MS:
            return False
        others = [] if told_by is None else [each for each in cluster.brokers.values() if each != told_by]
        return not others or any(cluster.answered_in(each) > self._since_version for each in others)
