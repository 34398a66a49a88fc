"""The faults of a campaign: their targets, when they are allowed, and how they are mended.

A strike is drawn by chance. It returns the fault and how to undo it, or None if it is not possible now.
Damage to files obeys the one rule under which no acknowledged record may be lost: one disk at a time, and
only while every partition is whole on all others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from hightide_local.cluster import ClusterError, LocalCluster

from hightide_bench.campaign import damage
from hightide_bench.campaign.hung_loops import HungLoops

Mend = Callable[[], None]

SWITCHES: Final = {
    "disk full": "ENOSPC",
    "disk read-only": "EROFS",
    "disk slow": "SLOW",
    "disk hangs": "HUNG",
    "syncs hang": "STUCK",
    "disk fails": "EIO",
}
"""Faults of a disk that last while a file exists beside the data directory (`broker_on_faulty_disks`)."""
SERVICES: Final = ("broker-", "controller-", "coordinator-", "zookeeper")


@dataclass(frozen=True, slots=True)
class DoneFault:
    """One fault that was done."""

    kind: str
    what: str
    mend: Mend


@dataclass(slots=True)
class StruckCluster:
    """The cluster under test, and the processes with a fault at present."""

    cluster: LocalCluster
    chance: random.Random
    is_whole: Callable[[], bool]
    """Whether every partition has all of its replicas in sync and no replica is known to be damaged."""
    hung_loops: HungLoops
    struck: set[str] = field(default_factory=set)

    def running(self, prefix: str = "") -> list[str]:
        """Names of running processes without a fault, in order."""
        return [
            name
            for name in sorted(self.cluster.running())
            if name.startswith(prefix) and name not in self.struck
        ]


Strike = Callable[[StruckCluster], DoneFault | None]


def _pick(site: StruckCluster, prefixes: tuple[str, ...] = SERVICES) -> str | None:
    """Choose a process at random, its kind first. Otherwise most faults would be those of brokers."""
    by_kind = [names for prefix in prefixes if (names := site.running(prefix))]
    return site.chance.choice(site.chance.choice(by_kind)) if by_kind else None


def kill(site: StruckCluster) -> DoneFault | None:
    """Send SIGKILL to one process; it is started again."""
    name = _pick(site)
    if name is None:
        return None
    site.struck.add(name)
    site.cluster.kill(name)
    return DoneFault("kill", f"kill {name}", partial(_start, site, name))


def kill_all_brokers(site: StruckCluster) -> DoneFault | None:
    """Send SIGKILL to all brokers. `mend` starts them in a random order."""
    names = site.running("broker-")
    if len(names) < len(site.cluster.brokers):
        return None
    for name in names:
        site.struck.add(name)
        site.cluster.kill(name)

    def mend() -> None:
        for name in site.chance.sample(names, len(names)):
            _start(site, name)

    return DoneFault("kill all brokers", "kill all brokers", mend)


def terminate(site: StruckCluster) -> DoneFault | None:
    """Send SIGTERM to one service; it is started again."""
    name = _pick(site, SERVICES[:3])
    if name is None:
        return None
    site.struck.add(name)
    try:
        site.cluster.terminate(name)
        what = f"stop {name}"
    except ClusterError as error:
        # It did not end on SIGTERM, because it waits for a process that is paused.
        site.cluster.kill(name)
        what = f"stop {name}, which had to be killed: {str(error).splitlines()[0]}"
    return DoneFault("stop", what, partial(_start, site, name))


def pause(site: StruckCluster) -> DoneFault | None:
    """Send SIGSTOP to one process; `mend` resumes it."""
    name = _pick(site)
    if name is None:
        return None
    site.struck.add(name)
    site.cluster.pause(name)

    def mend() -> None:
        site.cluster.resume(name)
        site.struck.discard(name)

    return DoneFault("pause", f"pause {name}", mend)


def hang_loop(site: StruckCluster) -> DoneFault | None:
    """Let the event loop of one service stand still, while its other threads go on."""
    name = _pick(site, SERVICES[:3])
    if name is None:
        return None
    site.struck.add(name)
    go_on = site.hung_loops.hang(site.cluster.running()[name])

    def mend() -> None:
        go_on()
        site.struck.discard(name)

    return DoneFault("loop hangs", f"the loop of {name} hangs", mend)


def cut(site: StruckCluster) -> DoneFault | None:
    """Cut the links of one process, to all others or to one, both ways or one way."""
    name = _pick(site)
    if name is None:
        return None
    others = [each for each in sorted(site.cluster.running()) if each != name]
    one_way = site.chance.random() < 0.3
    whom = None if site.chance.random() < 0.4 else site.chance.choice(others)
    site.cluster.partition(name, whom, one_way=one_way)
    what = f"cut {name} {'to' if one_way else 'from'} {whom or 'everybody'}"
    return DoneFault("links cut", what, site.cluster.heal)


def refuse(site: StruckCluster) -> DoneFault | None:
    """Make the port of one service refuse connections for a while, though it lives."""
    name = _pick(site, SERVICES[:3])
    if name is None:
        return None
    site.cluster.refuse_connections(name)
    return DoneFault("port refused", f"the port of {name} refuses", site.cluster.heal)


def switch(kind: str, site: StruckCluster) -> DoneFault | None:
    """Make the disk of a broker full, read-only, slow, hung, hung at syncs or broken for a while."""
    name = _pick(site, SERVICES[:1])
    if name is None:
        return None
    site.struck.add(name)
    directory = site.cluster.data_directory(int(name.removeprefix("broker-")))
    mark = directory.with_name(f"{directory.name}.{SWITCHES[kind]}")
    mark.touch()

    def mend() -> None:
        mark.unlink()
        # A broker ends when its last disk fails.
        if name not in site.cluster.running():
            site.cluster.restart(name, wait=False)
        site.struck.discard(name)

    return DoneFault(kind, f"{kind} of {name}", mend)


def damage_live(kind: str, site: StruckCluster) -> DoneFault | None:
    """Damage closed segments of a running broker."""
    name = _whole_broker(site)
    if name is None:
        return None
    directory = site.cluster.data_directory(int(name.removeprefix("broker-")))
    what = damage.LIVE[kind](directory, site.chance)
    return DoneFault(kind, f"{name}: {what}", lambda: None) if what else None


def damage_stopped(kind: str, site: StruckCluster) -> DoneFault | None:
    """Stop or kill a broker and damage its files; then start it."""
    name = _whole_broker(site)
    if name is None:
        return None
    site.struck.add(name)
    if site.chance.random() < 0.5:
        site.cluster.kill(name)
    else:
        site.cluster.terminate(name)
    what = _damage(kind, site, name)
    return DoneFault(kind, f"{name}: {what}", partial(_start, site, name))


def damage_one_of_all(kind: str, site: StruckCluster) -> DoneFault | None:
    """Kill all brokers, damage the files of one, and start that one first, then the others."""
    name = _whole_broker(site)
    names = site.running("broker-")
    if name is None or len(names) < len(site.cluster.brokers):
        return None
    for each in names:
        site.struck.add(each)
        site.cluster.kill(each)
    what = _damage(kind, site, name)
    _start(site, name)

    def mend() -> None:
        for each in names:
            if each != name:
                _start(site, each)

    return DoneFault(f"all killed, {kind}", f"all killed, and {name} first: {what}", mend)


def _damage(kind: str, site: StruckCluster, name: str) -> str:
    directory = site.cluster.data_directory(int(name.removeprefix("broker-")))
    return damage.OFFLINE[kind](directory, site.chance) or "nothing to damage"


def _whole_broker(site: StruckCluster) -> str | None:
    """A broker whose files may be damaged: all others are whole, and no process has a fault."""
    names = site.running("broker-")
    if site.struck or len(names) < len(site.cluster.brokers) or not site.is_whole():
        return None
    return site.chance.choice(names)


def _start(site: StruckCluster, name: str) -> None:
    site.cluster.restart(name, wait=False)
    site.struck.discard(name)


def strikes() -> Mapping[str, tuple[Strike, ...]]:
    """All faults, by the group that `--only` names."""
    return {
        "processes": (kill, kill, kill_all_brokers, terminate, pause, pause, hang_loop),
        "links": (cut, cut, refuse),
        "disks": tuple(partial(switch, kind) for kind in SWITCHES),
        "files": (
            *(partial(damage_live, kind) for kind in damage.LIVE),
            *(partial(damage_stopped, kind) for kind in damage.OFFLINE),
            *(partial(damage_one_of_all, kind) for kind in damage.OFFLINE),
        ),
    }
