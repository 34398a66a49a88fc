"""What a controller is worth: the same cluster with one and without one (V3 and V2), measured side by side.

    .venv/bin/python bench/paths/coordination_paths.py [--partitions 10,1000,10000] [--rounds 1] [--json]

Real brokers, ZooKeeper and clients, in turns for each size. One broker leads all partitions; it is killed,
and told to stop, while clients write. With the first size, the bench also creates and deletes 1,000 topics,
moves partitions, lets a broker be slow, and kills all controllers (where there are any), then a leader.
Figures are medians of the rounds; what they mean is in `coordination_round.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from coordination_round import Figures, Plan, Round
from hightide import Admin
from hightide_bench.measuring.statistics import medians, rounded
from hightide_local.cluster import LocalCluster
from hightide_runtime.znodes.coordination_znode import Coordination
from zookeeper_meter import LeaderWatch

_CALL_MS = 300_000
MODES = (Coordination.CONTROLLER, Coordination.LEADERS)


def measure(coordination: Coordination, plan: Plan) -> Figures:
    """One round on a cluster of its own."""

    def say(what: str) -> None:
        print(f"{coordination.value}: {what}", file=sys.stderr, flush=True)

    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(Path(directory), coordination=coordination) as cluster,
        Admin(cluster.bootstrap, timeout_ms=_CALL_MS) as admin,
        LeaderWatch(cluster.zookeeper, is_led=coordination is Coordination.LEADERS) as watch,
    ):
        return Round(cluster, admin, watch, plan, say).run()


def main() -> None:
    """Measure and print, each size as soon as it is measured."""
    parser = argparse.ArgumentParser(description="A cluster with a controller and one without, side by side.")
    parser.add_argument("--partitions", default="10,1000,10000", help="Sizes, the smallest first.")
    parser.add_argument("--topics", type=int, default=1_000, help="Created and deleted one by one; 0: none.")
    parser.add_argument("--idle-seconds", type=float, default=20.0, help="0: no idle figures.")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--coordination",
        type=Coordination,
        choices=MODES,
        nargs="+",
        default=MODES,
        help="The default: both.",
    )
    parser.add_argument("--json", action="store_true", help="One line of JSON for each size and way.")
    chosen = parser.parse_args()
    modes = chosen.coordination
    sizes = [int(size) for size in chosen.partitions.split(",")]
    for size in sizes:
        plan = Plan(size, chosen.topics if size == sizes[0] else 0, chosen.idle_seconds)
        rounds: dict[Coordination, list[Figures]] = {mode: [] for mode in modes}
        for _ in range(chosen.rounds):
            for mode in modes:
                rounds[mode].append(measure(mode, plan))
        found = {mode: rounded(medians(each)) for mode, each in rounds.items()}
        if chosen.json:
            for mode, figures in found.items():
                about = {
                    "benchmark": "coordination_paths",
                    "coordination": mode.value,
                    "partitions": size,
                    "topics": plan.topics,
                    "rounds": chosen.rounds,
                    "load_average": round(os.getloadavg()[0], 2),
                }
                print(json.dumps({**about, **figures}), flush=True)
            continue
        print(f"{size:,} partitions{'':<30}" + "".join(f"{mode.value:>14}" for mode in modes))
        for name in found[modes[0]]:
            values = (found[mode][name] for mode in modes)
            print(
                f"    {name:<36}" + "".join(f"{'' if v is None else format(v, ',.1f'):>14}" for v in values)
            )


if __name__ == "__main__":
    main()
