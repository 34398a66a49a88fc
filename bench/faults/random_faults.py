"""Random faults on a real cluster under load, judged by what clients saw and what lies on disk.

    .venv/bin/python bench/faults/random_faults.py --seed 5 --seconds 60

Kills, pauses and stops brokers, controllers and ZooKeeper in an order drawn from the seed, while a
producer (acks=all, idempotent) and a reader work; then everything is healed and compared. The seed fixes
what is done to whom, not how the machine schedules it. Exit code 1 where anything acknowledged is lost,
doubled, out of order, or differs between replicas.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from hightide_local.cluster import LocalCluster  # noqa: E402
from histories.anomalies import Kind  # noqa: E402
from histories.drill import Drill  # noqa: E402

HEALED_S = 40.0
PAUSES_S = (0.1, 0.5, 1.0, 2.0, 4.0)
"""How long a fault lasts. The longest is beyond the session timeout, so that a paused leader is replaced."""


class Faults:
    """What is broken at present, and how it is mended."""

    def __init__(self, cluster: LocalCluster, chance: random.Random) -> None:
        self._cluster = cluster
        self._chance = chance
        self._mends: list[tuple[str, Callable[[str], object]]] = []

    def strike(self) -> list[str]:
        """Do something to one to three processes; returns what, for the log."""
        done = []
        running = sorted(self._cluster.running())
        for name in self._chance.sample(running, min(len(running), self._chance.choice((1, 1, 1, 2, 2, 3)))):
            # ZooKeeper's JVM is not asked to stop in order: a kill is the harder case of it.
            deeds = ("kill", "pause") if name == "zookeeper" else ("kill", "kill", "pause", "terminate")
            deed = self._chance.choice(deeds)
            getattr(self._cluster, deed)(name)
            self._mends.append((name, self._cluster.resume if deed == "pause" else self._restart))
            done.append(f"{deed} {name}")
        return done

    def mend(self) -> None:
        """Undo all of it, in another order."""
        self._chance.shuffle(self._mends)
        for name, mend in self._mends:
            mend(name)
        self._mends.clear()

    def _restart(self, name: str) -> None:
        self._cluster.restart(name, wait=False)


def main() -> int:
    """Run the drill and print its verdict."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--flush", choices=("replicated", "fsync"), default="replicated")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(Path(directory), session_timeout_ms=2500, replica_lag_time_max_ms=1000) as cluster,
        # A leader that wakes up after its session ended may tell its old end to who still asks it.
        Drill(
            cluster,
            "random-faults",
            request_timeout_ms=2000,
            flush=arguments.flush,
            allowed=frozenset({Kind.END_BEHIND_ACKNOWLEDGED}),
        ) as drill,
    ):
        faults = Faults(cluster, chance)
        start = time.monotonic()
        while time.monotonic() - start < arguments.seconds:
            print(f"{time.monotonic() - start:6.1f} s  {', '.join(faults.strike())}", flush=True)
            time.sleep(chance.choice(PAUSES_S))
            faults.mend()
            if chance.random() < 0.5:
                drill.wait_for_progress(20, HEALED_S)
                drill.wait_for_isr(3, HEALED_S)
        drill.wait_for_progress(50, HEALED_S)
        drill.wait_for_isr(3, HEALED_S)
    counts = f"sent={len(drill.history.sends)} read={len(drill.history.reads)}"
    print(f"faults: seed={arguments.seed} {counts} anomalies=0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
