"""Faults in the order that a seed draws, under a consumer group at work: consumers, coordinators, brokers,
controllers and ZooKeeper are killed, stopped and stood still.

Shared by the integration test (half a minute) and bench/faults/group_faults.py (as long as one likes).
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable

from hightide_local.histories.faults import ClusterFaults, restart_ended
from histories.group_drill import GroupDrill, Reader

READERS_MOST = 6
READERS_LEAST = 2
PARTITIONS_MOST = 10
_PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0, 3.5)
"""How long a fault lasts: shorter and longer than the session timeouts of consumers and coordinators."""


class GroupStorm:
    """Breaks and mends."""

    def __init__(
        self,
        drill: GroupDrill,
        chance: random.Random,
        say: Callable[[str], None],
        kinds: tuple[str, ...] = ("coordinator", "coordinator", "broker", "zookeeper", "controller"),
        *,
        links: bool = False,
    ) -> None:
        """`kinds` of services that are struck, one of them at a time; `links`: what connects them, too."""
        self._drill, self._chance, self._say = drill, chance, say
        self._kinds = kinds
        self._links = links
        self._stopped: list[Reader] = []
        self._began_s = time.monotonic()
        self._pause = threading.Event()

    def rage(self, seconds: float) -> None:
        """Break and mend for so long, and let all heal now and then, and in the end."""
        until_s = time.monotonic() + seconds
        self._fill()
        self._drill.wait_until_whole()
        while time.monotonic() < until_s:
            kind = self._chance.choice(self._kinds)
            faults = ClusterFaults(self._drill.cluster, self._chance, (kind,), links=self._links)
            done = self._stir_readers() if self._chance.random() < 0.7 else []
            if not done or self._chance.random() < 0.6:
                done += faults.strike((1, 1, 1, 2))
            pause_s = self._chance.choice(_PAUSES_S)
            self._say(f"{time.monotonic() - self._began_s:6.1f} s  {', '.join(done)}; for {pause_s} s")
            self._pause.wait(pause_s)
            faults.mend()
            self._wake()
            if self._chance.random() < 0.35:
                self.heal()
                self._grow()
        self.heal()

    def heal(self) -> None:
        """Nothing is broken any more: the group is whole, and reads on."""
        restart_ended(self._drill.cluster, self._say)
        self._fill()
        self._drill.wait_until_whole()
        self._drill.wait_for_progress()
        self._say(f"{time.monotonic() - self._began_s:6.1f} s  healed")

    def _grow(self) -> None:
        """The next fault may strike before the new partition has an owner."""
        if self._drill.partition_count < PARTITIONS_MOST and self._chance.random() < 0.3:
            self._drill.grow(self._drill.partition_count + 1)
            self._say(f"          {self._drill.partition_count} partitions")

    def _stir_readers(self) -> list[str]:
        """Kill, stop, let leave, or add one or two."""
        done = []
        for _ in range(self._chance.choice((1, 1, 2))):
            awake = [each for each in self._drill.alive() if each not in self._stopped]
            deed = self._chance.choice(("kill", "pause", "pause", "leave", "join"))
            if deed == "join" or len(awake) <= READERS_LEAST:
                if len(awake) >= READERS_MOST:
                    continue
                by_hand = self._chance.random() < 0.5
                reader = self._drill.start(by_hand=by_hand)
                done.append(f"{reader.name} joins{' and commits by hand' if by_hand else ''}")
                continue
            reader = self._chance.choice(awake)
            if deed == "kill":
                self._drill.kill(reader)
            elif deed == "leave":
                reader.process.terminate()
            else:
                reader.signal(signal.SIGSTOP)
                self._stopped.append(reader)
            done.append(f"{deed} {reader.name}")
        return done

    def _wake(self) -> None:
        for reader in self._stopped:
            if reader.process.poll() is None:
                reader.signal(signal.SIGCONT)
        self._stopped.clear()

    def _fill(self) -> None:
        while len(self._drill.alive()) < READERS_LEAST + 1:
            self._drill.start(by_hand=self._chance.random() < 0.5)
