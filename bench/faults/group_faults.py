"""Random faults under a working consumer group, judged by its consumers' reports and ZooKeeper's content.

    .venv/bin/python bench/faults/group_faults.py --seed 5 --seconds 60

It kills, stops and pauses consumers (with automatic and explicit commits), coordinators, brokers, controllers
and ZooKeeper, and cuts these services off, in an order that follows from the seed, while a load writes
records. The seed fixes the faults and their targets, not how the machine schedules them. The exit code is 1
if a partition had two owners, an offset was skipped or went back, a commit was lost, or the group did not
recover.
"""

import argparse
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from hightide_local.cluster import LocalCluster  # noqa: E402
from histories.group_drill import GroupDrill  # noqa: E402
from histories.group_storm import GroupStorm  # noqa: E402

KINDS = ("coordinator", "broker", "controller", "zookeeper")


def main() -> int:
    """Run the storm and print its verdict."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--session-timeout-ms", type=int, default=1_500, help="of the consumers")
    parser.add_argument("--kinds", nargs="+", default=[KINDS[0], *KINDS], help="the services to strike")
    parser.add_argument("--whole-links", action="store_true", help="cut nobody off")
    parser.add_argument("--keep", type=Path, help="where logs and reports are to stay")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        with LocalCluster(
            directory / "cluster",
            brokers=3,
            controllers=2,
            coordinators=2,
            session_timeout_ms=2_000,
            replica_lag_time_max_ms=1_000,
            coordinator_arguments=("--commit-interval-ms", "300"),
            partitionable=not arguments.whole_links,
        ) as cluster:
            drill = GroupDrill(
                cluster, directory, "group-faults", session_timeout_ms=arguments.session_timeout_ms
            )
            try:
                with drill:
                    say = partial(print, flush=True)
                    chance, kinds = random.Random(arguments.seed), tuple(arguments.kinds)
                    storm = GroupStorm(drill, chance, say, kinds, links=not arguments.whole_links)
                    storm.rage(arguments.seconds)
            except BaseException:
                print(*drill.tell(), sep="\n")
                for name in cluster.names:
                    print(f"--- {name}\n{cluster.log_tail(name, 25)}")
                raise
    read = sum(drill.history.ends.values())
    again = drill.history.redelivered()
    print(f"group faults: seed={arguments.seed} read={read} redelivered={again} anomalies=0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
