"""Who leads and who is in sync, as the active controller of a cluster says."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hightide_local.errors import ClusterError
from hightide_local.processes.readiness import Questions

_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition; `leader` is -1 where it has none."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    def __str__(self) -> str:
        """As people want to read it in an error."""
        return f"{self.partition}: leader {self.leader}, ISR {list(self.isr)} of {list(self.replicas)}"


def wait_for_partitions(
    topic: str,
    controllers: Callable[[], Sequence[str]],
    wanted: Callable[[Sequence[PartitionState]], bool],
    what: str,
    timeout_s: float,
) -> tuple[PartitionState, ...]:
    """Ask the controllers (addresses, the one that is active answers) until the partitions of a topic are as
    wanted, and return them. ClusterError with `what` and what they are instead.

    Called by `LocalCluster.wait_isr` and `LocalCluster.leader_of`.
    """
    deadline = time.monotonic() + timeout_s
    told: tuple[PartitionState, ...] = ()
    with Questions() as questions:
        while True:
            for address in controllers():
                heard = tuple(
                    PartitionState(each.partition, each.leader, tuple(each.replicas), tuple(each.isr))
                    for each in questions.partitions_of(address, topic)
                )
                # One on standby tells nothing.
                told = heard or told
                if heard and wanted(heard):
                    return heard
            if time.monotonic() > deadline:
                state = "; ".join(map(str, told)) or "no controller answers as the active one"
                raise ClusterError(f"{topic}: not {what} within {timeout_s:g} s; {state}")
            time.sleep(_POLL_S)
