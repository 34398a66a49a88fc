"""The rule for believing a broker that says that committed records are not there.

Rules of this file: no clock, no I/O; time comes in as `now_ms`.

A broker that was stopped for a while, or is cut off and still reached by clients, answers from its old state:
it holds no lease on reading. A client that names the epoch of the records it has read learns that the broker
is behind (KIP-320). A client that cannot, because its position came from elsewhere, is told that the offset
lies beyond the log end.

So one such answer is never believed. The newest known leader is asked again, and meanwhile one broker after
the other is asked for the leader. The loss is certain when it was reported for LOSS_PATIENCE_MS without a
break, and a broker other than the one that reports it has answered meanwhile and knew of no newer leader. If
no other broker answers, it stays uncertain until the client's own budget ends. Shared by `RangeCore` and
`ConsumerCore`.
"""

from typing import Final

from hightide.cluster.metadata import ClusterMetadata
from hightide.errors import HightideError

LOSS_PATIENCE_MS: Final = 2_000


class LossPatience:
    """The reports of a loss at one position. Call `clear` after any other answer."""

    __slots__ = ("_kind", "_since_ms", "_since_version")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop the reports: as far as is known, nothing is lost."""
        self._kind: type[HightideError] | None = None
        self._since_ms = 0.0
        self._since_version = 0

    def is_certain(
        self, loss: HightideError, cluster: ClusterMetadata, now_ms: float, *, told_by: str | None = None
    ) -> bool:
        """Note a report of this loss. Returns whether it is to be believed by now. `told_by` is the address
        of the broker that reported it; None if the metadata says so."""
        if self._kind is not type(loss):
            self._kind, self._since_ms, self._since_version = type(loss), now_ms, cluster.version
            return False
        if now_ms - self._since_ms < LOSS_PATIENCE_MS:
            return False
        others = [] if told_by is None else [each for each in cluster.brokers.values() if each != told_by]
        return not others or any(cluster.answered_in(each) > self._since_version for each in others)
