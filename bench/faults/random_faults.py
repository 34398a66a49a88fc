"""Random faults on a real cluster under load, judged by the clients' observations and the disks' content.

    .venv/bin/python bench/faults/random_faults.py --seed 5 --seconds 60

Kills, pauses, stops and cuts off brokers, controllers and ZooKeeper in an order drawn from the seed, while a
producer (acks=all, idempotent) and a reader work, and operators create, delete, grow, shrink, alter, move,
cancel, throttle and elect (`--calm`: nobody does; `--whole-links`: nothing is cut off). Then everything is
healed and compared. The seed fixes the faults and their targets, not how the machine schedules them. Exit
code 1 where anything acknowledged is lost, doubled, out of order, or differs between replicas, or where work
of operators stays half done: below /admin, on a disk, or as a partition that is not led by one of its
replicas, all in sync.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from hightide_local.cluster import LocalCluster  # noqa: E402
from hightide_local.histories.anomalies import READS_OF_A_DEPOSED_LEADER  # noqa: E402
from hightide_local.histories.drill import FaultDrill, replica_differences  # noqa: E402
from hightide_local.histories.faults import ClusterFaults, restart_ended  # noqa: E402
from hightide_local.histories.judgement import judge_replicas  # noqa: E402
from hightide_local.histories.violation import require  # noqa: E402
from hightide_local.histories.waiting import wait_until  # noqa: E402
from hightide_runtime.znodes.cluster_znodes import ADMIN  # noqa: E402
from histories.operator_walk import OperatorWalk  # noqa: E402
from integration.controller.zookeeper_operator import ZooKeeperOperator  # noqa: E402

HEALED_S = 40.0
PAUSES_S = (0.1, 0.5, 1.0, 2.0, 4.0)
"""How long a fault lasts. The longest is beyond the session timeout, so that a paused leader is replaced."""


def break_and_mend(
    drill: FaultDrill, walk: OperatorWalk, chance: random.Random, seconds: float, *, calm: bool, links: bool
) -> None:
    """Break and mend for this long, while operators work; sometimes let all heal in between."""
    faults = ClusterFaults(drill.cluster, chance, links=links)
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        done = [*([] if calm else walk.stir()), *faults.strike()]
        print(f"{time.monotonic() - start:6.1f} s  {', '.join(done)}", flush=True)
        time.sleep(chance.choice(PAUSES_S))
        faults.mend()
        if not calm:
            print(f"          {', '.join(walk.stir())}", flush=True)
        if chance.random() < 0.5:
            restart_ended(drill.cluster, print)
            drill.wait_for_progress(20, HEALED_S)
            wait_until("all are in sync", lambda: all(len(p.isr) >= 3 for p in drill.describe()), HEALED_S)
    restart_ended(drill.cluster, print)
    drill.wait_for_progress(50, HEALED_S)


def judge(operator: ZooKeeperOperator, walk: OperatorWalk) -> None:
    """Check that every order of the operators is done or was refused, and left no remains. Raises
    ViolationError."""
    walk.finish()
    operator.admin.set_reassignment_throttle(0)
    wait_until("nothing below /admin is left", lambda: operator.asked_for_in_full() == [], 3 * HEALED_S)
    if empty := operator.asked_for():
        print("left behind empty:", empty)
    for topic in operator.admin.describe_topics():
        operator.wait_until_led(topic.name, len(topic.partitions))
        judge_replicas(replica_differences(operator.cluster, topic.name))
        ends = operator.ends(topic.name, len(topic.partitions))
        for number, end in enumerate(ends):
            kept = walk.kept.get((topic.topic_id, number), 0)
            require((end or 0) >= kept, f"{topic.name}-{number} ends at {end}, but {kept} were acknowledged")
    wait_until("no replica lies where none belongs", lambda: strays(operator) == [], HEALED_S)
    wait_until("nothing is complained about", lambda: operator.complaints() == {}, HEALED_S)
    bugs = {ending: count for ending, count in walk.done.items() if "BUG" in ending}
    require(not bugs, "no operator meets with a bug", bugs.items())


def tell_what_is_left(operator: ZooKeeperOperator, walk: OperatorWalk) -> None:
    """Print the remains, for the search for the cause."""
    print("operators met with:", dict(walk.done))
    print("complaints:", operator.complaints())
    for kind, _, topic in (each.partition("/") for each in operator.asked_for()):
        path = f"{ADMIN}/{kind}/{topic}"
        below = [f"{path}/{name}" for name in operator.zookeeper.get_children(path)]
        print("left:", {each: operator.content(each) for each in below or [path]})
    for described in operator.admin.describe_topics():
        print(described.name, described.topic_id.hex(), *(f"\n  {each}" for each in described.partitions))
    for name in operator.cluster.names:
        print(f"--- {name}\n{operator.cluster.log_tail(name, 25)}")


def strays(operator: ZooKeeperOperator) -> list[str]:
    """Directories of partitions on brokers to which they are not assigned; quarantined ones do not count."""
    assigned = {
        (broker_id, f"{topic.topic_id.hex()}-{partition.partition}")
        for topic in operator.admin.describe_topics()
        for partition in topic.partitions
        for broker_id in partition.replicas
    }
    return sorted(
        f"broker {broker_id}: {path.name}"
        for broker_id in operator.cluster.brokers
        for directory in operator.cluster.data_directories(broker_id)
        for path in directory.glob("*-[0-9]*")
        if path.is_dir() and len(path.name.partition("-")[0]) == 32 and (broker_id, path.name) not in assigned
    )


def main() -> int:
    """Run the drill and print its verdict."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--calm", action="store_true", help="break processes and links only")
    parser.add_argument("--whole-links", action="store_true", help="break processes only")
    parser.add_argument("--flush", choices=("replicated", "fsync"), default="replicated")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(
            Path(directory),
            brokers=4,
            session_timeout_ms=2500,
            replica_lag_time_max_ms=1000,
            partitionable=not arguments.whole_links,
        ) as cluster,
        # A leader that resumes after the end of its session may give its old end to clients that still ask
        # it.
        FaultDrill(
            cluster,
            "random-faults",
            request_timeout_ms=2000,
            flush=arguments.flush,
            allowed=READS_OF_A_DEPOSED_LEADER,
        ) as drill,
    ):
        walk = OperatorWalk(cluster, drill.topic, len(drill.partitions), chance)
        operator = ZooKeeperOperator(cluster)
        try:
            links = not arguments.whole_links
            break_and_mend(drill, walk, chance, arguments.seconds, calm=arguments.calm, links=links)
            judge(operator, walk)
        except BaseException:
            tell_what_is_left(operator, walk)
            raise
        operator.close()
        drill.wait_for_isr(3, HEALED_S)
    print("; ".join(f"{ending} {count}" for ending, count in sorted(walk.done.items())))
    counts = f"sent={len(drill.history.sends)} read={len(drill.history.reads)}"
    print(f"faults: seed={arguments.seed} {counts} anomalies=0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
