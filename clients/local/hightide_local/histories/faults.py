"""Processes of a cluster that are killed, stopped, stood still and cut off in an order drawn from a seed."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence

from hightide_local.cluster import ClusterError, LocalCluster

_READY_S = 40.0


class Faults:
    """What is broken at present, and how it is mended."""

    def __init__(
        self,
        cluster: LocalCluster,
        chance: random.Random,
        kinds: Sequence[str] = ("",),
        *,
        links: bool = False,
    ) -> None:
        """`kinds` are how the names of those begin that may be struck; `links`: also cut what connects them,
        which the cluster must be made for."""
        self._cluster = cluster
        self._chance = chance
        self._kinds = tuple(kinds)
        self._links = links
        self._mends: list[tuple[str, Callable[[str], object]]] = []

    def strike(self, counts: Sequence[int] = (1, 1, 1, 2, 2, 3)) -> list[str]:
        """Do something to one to three processes; returns what, for the log."""
        done = []
        running = [name for name in sorted(self._cluster.running()) if name.startswith(self._kinds)]
        if self._links and self._chance.random() < 0.5:
            return [self._cut(running)]
        for name in self._chance.sample(running, min(len(running), self._chance.choice(counts))):
            # ZooKeeper's JVM is not asked to stop in order: a kill is the harder case of it.
            deeds = ("kill", "pause") if name == "zookeeper" else ("kill", "kill", "pause", "terminate")
            deed = self._chance.choice(deeds)
            try:
                getattr(self._cluster, deed)(name)
            except ClusterError as error:
                # It waits for one that is paused at the same time.
                done.append(f"{name} has to be killed: {error.args[0].splitlines()[0]}")
                self._cluster.kill(name)
            self._mends.append((name, self._cluster.resume if deed == "pause" else self._restart))
            done.append(f"{deed} {name}")
        return done

    def mend(self) -> None:
        """Undo all of it, in another order."""
        if self._links:
            self._cluster.heal()
        self._chance.shuffle(self._mends)
        for name, mend in self._mends:
            mend(name)
        self._mends.clear()

    def _cut(self, running: Sequence[str]) -> str:
        """Cut off one from all others, or two from each other, both ways or one way."""
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


def start_what_gave_up(cluster: LocalCluster, say: Callable[[str], None]) -> None:
    """A service that loses ZooKeeper while it starts ends, and asks whoever runs it to start it again; `say`
    is told of each."""
    for _ in range(5):
        for name in sorted(set(cluster.names) - cluster.running().keys()):
            say(f"{name} is started again: {cluster.log_tail(name, 1).strip()}")
            cluster.restart(name, wait=False)
        with contextlib.suppress(ClusterError):
            cluster.wait_ready(_READY_S)
            return
    cluster.wait_ready(_READY_S)
