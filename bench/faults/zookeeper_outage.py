"""An outage of all of ZooKeeper for a minute under load: the leaders' service meanwhile, and the healing.

    .venv/bin/python bench/faults/zookeeper_outage.py --seconds 60 [--how pause] [--json]

Three brokers, two controllers, sessions of 2.5 s, one producer (acks=all, idempotent) and two readers. While
the ISR need not change, no broker needs ZooKeeper. Then everything is compared: exit code 1 where anything
acknowledged is lost, doubled, out of order, or differs between replicas, or a client saw an error.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from hightide_local.cluster import LocalCluster  # noqa: E402
from hightide_local.histories.drill import FaultDrill  # noqa: E402
from histories.zookeeper_outage import without_zookeeper  # noqa: E402


def main() -> int:
    """Run one outage and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--how", choices=("kill", "pause"), default="kill")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(Path(directory), session_timeout_ms=2_500, replica_lag_time_max_ms=1_000) as cluster,
        FaultDrill(cluster, "zookeeper-away") as drill,
    ):
        outage = without_zookeeper(drill, arguments.seconds, arguments.how)
    # All that was promised was judged when the with-block ended.
    if arguments.json:
        print(json.dumps(asdict(outage)))
        return 0
    print(
        f"ZooKeeper away ({arguments.how}) for {outage.away_s:.1f} s: {outage.acknowledged} records "
        f"acknowledged meanwhile; a create was refused: {outage.refusal}\n"
        f"back: controller active after {outage.controller_ms:.0f} ms, a topic created after "
        f"{outage.created_ms:.0f} ms, ISR = AR after {outage.in_sync_ms:.0f} ms\n"
        f"{outage.leader_changes} leader changes, the slowest record waited {outage.slowest_ms:.0f} ms; "
        "nothing lost, doubled or split"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
