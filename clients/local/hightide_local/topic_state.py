"""Asks the active controller for the leaders and ISRs of a topic, and waits for them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hightide_local.errors import ClusterError
from hightide_local.processes.readiness import ReadinessChannels

_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of one partition. `leader` is a broker's id, or -1 if there is none."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    def __str__(self) -> str:
        """The text for errors."""
        return f"{self.partition}: leader {self.leader}, ISR {list(self.isr)} of {list(self.replicas)}"


def wait_for_partitions(
    topic: str,
    controllers: Callable[[], Sequence[str]],
    open_questions: Callable[[], ReadinessChannels],
    wanted: Callable[[Sequence[PartitionState]], bool],
    what: str,
    timeout_s: float,
) -> tuple[PartitionState, ...]:
    """Ask until the partitions of a topic are `wanted`, and return them. `controllers` gives the addresses to
    ask, of which only the active one answers. `open_questions` gives the means to ask them.
    Raises ClusterError with `what` and the present states.

    `LocalCluster.wait_isr` and `LocalCluster.leader_of` call it.
    """
    deadline = time.monotonic() + timeout_s
    latest: tuple[PartitionState, ...] = ()
    with open_questions() as questions:
        while True:
            for address in controllers():
                states = tuple(
                    PartitionState(each.partition, each.leader, tuple(each.replicas), tuple(each.isr))
                    for each in questions.partitions_of(address, topic)
                )
                # A controller on standby gives no partitions.
                latest = states or latest
                if states and wanted(states):
                    return states
            if time.monotonic() > deadline:
                state = "; ".join(map(str, latest)) or "no controller answers as the active one"
                raise ClusterError(f"{topic}: not {what} within {timeout_s:g} s; {state}")
            time.sleep(_POLL_S)
