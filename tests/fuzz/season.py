"""One season: a new cluster, an attack on it, and the judgement."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from fuzz.plan import SCRAPE, AttackPlan, Port
from fuzz.service_with_all_ports import METRICS, OUTSIDE, program
from fuzz.watch import NormalClient, ProcessUsage, ProcessWatch, mistakes_of
from hightide import Admin
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import FaultDrill
from hightide_local.histories.history import SendOutcome
from hightide_local.histories.violation import ViolationError
from hightide_local.histories.waiting import wait_until

TESTS: Final = Path(__file__).parents[1]
_JUDGED, _PROBED = "judged", "probed"
_ATTACKER_S: Final = 200.0
"""An attacker ends by itself that long after its time at the latest."""


class Ground(Enum):
    """The cluster that is attacked, and what the attackers may do there."""

    PLAINTEXT = "clients, plaintext"
    TLS = "clients with certificates"
    COMMANDED = "whoever reaches the internal listener"
    ZOOKEEPER = "whoever may write into ZooKeeper"

    @property
    def is_judged(self) -> bool:
        """Whether clients are promised anything there: not where anybody may command the cluster."""
        return self in (Ground.PLAINTEXT, Ground.TLS)


@dataclass(slots=True)
class SeasonResult:
    """What was done, what processes used and a client waited meanwhile, and what was found."""

    ground: Ground
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    usage: dict[str, ProcessUsage] = field(default_factory=dict)
    waits_ms: dict[str, float] = field(default_factory=dict)
    acknowledged: int = 0
    findings: list[str] = field(default_factory=list)


def run_season(ground: Ground, seed: int, seconds: float, directory: Path) -> SeasonResult:
    """Start a cluster in this directory, attack it for so long, judge it and stop it."""
    result = SeasonResult(ground)
    cluster = LocalCluster(
        directory,
        controllers=2,
        coordinators=1,
        tls=ground is Ground.TLS,
        broker_program=program("hightide_broker.main"),
        controller_program=program("hightide_controller.main"),
        coordinator_program=program("hightide_coordinator.main"),
        broker_arguments=("--scrub-interval-ms", "5000"),
    )
    with cluster, _environment(cluster.client_environment):
        plan = plan_for(cluster, ground, seed, seconds)
        if ground.is_judged:
            _make_probed_topic(cluster)
        pids = {name: pid for name, pid in cluster.running().items() if name != "zookeeper"}
        watch = ProcessWatch(pids)
        try:
            with watch, ExitStack() as clients:
                drill = normal = None
                if ground.is_judged:
                    drill = clients.enter_context(FaultDrill(cluster, _JUDGED))
                    normal = clients.enter_context(NormalClient(cluster.bootstrap, _PROBED))
                _attack(plan, cluster, result)
                _wait_until_attackers_are_gone(watch)
            if drill is not None and normal is not None:
                _note_clients(drill, normal, result)
        except ViolationError as error:
            result.findings.append(f"judged: {error}")
        result.usage = watch.usage
        result.findings += watch.findings()
    result.findings += mistakes_of(cluster.log_directory)
    return result


def plan_for(cluster: LocalCluster, ground: Ground, seed: int, seconds: float) -> AttackPlan:
    """The plan of an attack on a cluster that runs."""
    ports: list[Port] = []
    for name in cluster.names:
        if name != "zookeeper":
            host, _, number = cluster.address_of(name).rpartition(":")
            ports += [
                Port(name, host, int(number)),
                Port(name, OUTSIDE, int(number), is_external=True),
                Port(name, METRICS, int(number), SCRAPE),
            ]
    tls: tuple[str, ...] = ()
    if cluster.certificates is not None:
        files = cluster.certificates.issue("client/mallory")
        tls = (str(files.ca), str(files.certificate), str(files.key))
    return AttackPlan(
        seed=seed,
        seconds=seconds,
        bootstrap=cluster.bootstrap,
        ports=tuple(ports),
        tls=tls,
        may_command=ground is Ground.COMMANDED,
        zookeeper=cluster.zookeeper if ground is Ground.ZOOKEEPER else "",
    )


def _make_probed_topic(cluster: LocalCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(_PROBED, 1, 3, configs={"min.insync.replicas": "2"})


def _attack(plan: AttackPlan, cluster: LocalCluster, result: SeasonResult) -> None:
    import json

    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    if plan.tls:
        names = cluster.client_environment
        environment |= dict(zip(names, plan.tls, strict=True))
    attacker = subprocess.Popen(
        [sys.executable, "-m", "fuzz.attacker"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = attacker.communicate(plan.encode() + "\n", timeout=plan.seconds + _ATTACKER_S)
    except subprocess.TimeoutExpired:
        attacker.kill()
        out, err = attacker.communicate()
    if attacker.returncode:
        result.findings.append(f"the attacker ended with {attacker.returncode}: {err[-3_000:]}")
        return
    told: dict[str, Any] = json.loads(out)
    result.outcomes = {name: Counter(counts) for name, counts in told["outcomes"].items()}
    result.findings += told["findings"]


def _wait_until_attackers_are_gone(watch: ProcessWatch) -> None:
    """Give the processes time to see that the connections are closed, but no longer than a call may take."""

    def is_quiet() -> bool:
        return all(each.descriptors.last <= each.descriptors.first + 50 for each in watch.usage.values())

    try:
        wait_until("the attackers' connections are closed", is_quiet, 15)
    except ViolationError:
        return  # What is left is judged by its bound.


def _note_clients(drill: FaultDrill, normal: NormalClient, result: SeasonResult) -> None:
    result.acknowledged = drill.history.count(SendOutcome.ACKNOWLEDGED)
    result.waits_ms = {
        "p50": normal.wait_ms(0.5),
        "p99": normal.wait_ms(0.99),
        "slowest": normal.wait_ms(1.0),
        "slowest of the judged": drill.load.slowest_ms,
    }
    result.findings += [f"the normal client met {error!r}" for error in normal.errors]
    if not normal.waits_ms:
        result.findings.append("the normal client got no record through")


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
