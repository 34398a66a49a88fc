"""Injects random faults into the processes and links of a cluster, in an order that follows from a seed."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence

from hightide_local.cluster import ClusterError, LocalCluster

_READY_S = 40.0


class ClusterFaults:
    """The faults of the moment, and the way to undo each."""

    def __init__(
        self,
        cluster: LocalCluster,
        chance: random.Random,
        kinds: Sequence[str] = ("",),
        *,
        links: bool = False,
    ) -> None:
        """`kinds` are prefixes of the names of processes that may get a fault. With `links`, links are cut,
        too, for which the cluster must be partitionable."""
        self._cluster = cluster
        self._chance = chance
        self._kinds = tuple(kinds)
        self._links = links
        self._mends: list[tuple[str, Callable[[str], object]]] = []

    def strike(self, counts: Sequence[int] = (1, 1, 1, 2, 2, 3)) -> list[str]:
        """Inject a fault into one to three processes, or cut a link. Return their descriptions, for the
        log."""
        done = []
        running = [name for name in sorted(self._cluster.running()) if name.startswith(self._kinds)]
        if self._links and self._chance.random() < 0.5:
            return [self._cut(running)]
        for name in self._chance.sample(running, min(len(running), self._chance.choice(counts))):
            # ZooKeeper gets no SIGTERM, since SIGKILL is the harder case.
            actions = ("kill", "pause") if name == "zookeeper" else ("kill", "kill", "pause", "terminate")
            action = self._chance.choice(actions)
            try:
                getattr(self._cluster, action)(name)
            except ClusterError as error:
                # It did not end on SIGTERM, because it waits for a process that is paused.
                done.append(f"{name} has to be killed: {error.args[0].splitlines()[0]}")
                self._cluster.kill(name)
            self._mends.append((name, self._cluster.resume if action == "pause" else self._restart))
            done.append(f"{action} {name}")
        return done

    def mend(self) -> None:
        """Undo all faults, in a random order."""
        if self._links:
            self._cluster.heal()
        self._chance.shuffle(self._mends)
        for name, mend in self._mends:
            mend(name)
        self._mends.clear()

    def _cut(self, running: Sequence[str]) -> str:
        """Cut one process off from all others, or two from each other, in both directions or in one."""
        name = self._chance.choice(running)
        other = self._chance.choice([each for each in sorted(self._cluster.running()) if each != name])
        one_way = self._chance.random() < 0.3
        if self._chance.random() < 0.4:
            self._cluster.partition(name, one_way=one_way)
            other = "everybody"
        else:
            self._cluster.partition(name, other, one_way=one_way)
        return f"cut {name} {'to' if one_way else 'from'} {other}"

    def _restart(self, name: str) -> None:
        self._cluster.restart(name, wait=False)


def restart_ended(cluster: LocalCluster, say: Callable[[str], None]) -> None:
    """Start the processes again that have ended by themselves: a service that loses ZooKeeper while it starts
    ends, and expects its supervisor to start it again. `say` gets a line for each."""
    for _ in range(5):
        for name in sorted(set(cluster.names) - cluster.running().keys()):
            say(f"{name} is started again: {cluster.log_tail(name, 1).strip()}")
            cluster.restart(name, wait=False)
        with contextlib.suppress(ClusterError):
            cluster.wait_ready(_READY_S)
            return
    cluster.wait_ready(_READY_S)
