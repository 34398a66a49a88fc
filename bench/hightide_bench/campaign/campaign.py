"""One campaign: seasons of load and faults, each judged by the clients' observations and the disks'
content."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hightide import HightideError
from hightide_local.cluster import LocalCluster
from hightide_local.histories.anomalies import READS_OF_A_DEPOSED_LEADER
from hightide_local.histories.drill import FaultDrill, replica_differences
from hightide_local.histories.faults import restart_ended
from hightide_local.histories.history import SendOutcome
from hightide_local.histories.violation import ViolationError
from hightide_local.histories.waiting import wait_until

from hightide_bench.campaign.hung_loops import HungLoops
from hightide_bench.campaign.strikes import DoneFault, Strike, StruckCluster

HEALED_S: Final = 90.0
PAUSES_S: Final = (0.1, 0.5, 1.0, 2.0, 4.0)
"""How long a fault lasts. The longest is beyond the session timeout, so that a paused leader is replaced."""
AT_ONCE: Final = (1, 1, 1, 2, 2, 3)
"""Faults at the same time."""
CONFIGS: Final = {"segment.bytes": "65536"}
"""Small segments, so that there are closed ones to damage."""


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """The faults and their duration. `groups` are lists of strikes; one group is drawn, then one of its
    list."""

    seconds: float
    season_s: float
    groups: Sequence[Sequence[Strike]]
    flush: str


@dataclass(slots=True)
class CampaignResult:
    """The result. `violation` is the first one found; the campaign ends with it."""

    seconds: float = 0.0
    seasons: int = 0
    acknowledged: int = 0
    read: int = 0
    slowest_ms: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    violation: str = ""


class Campaign:
    """Strikes a cluster until the time is over or something is wrong."""

    def __init__(
        self,
        cluster: LocalCluster,
        plan: CampaignPlan,
        chance: random.Random,
        say: Callable[[float, str], None],
        hung_loops: HungLoops,
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._chance = chance
        self._say = say
        self._hung_loops = hung_loops
        self._found = CampaignResult()
        self._started_s = time.monotonic()

    def run(self) -> CampaignResult:
        """Run all seasons, and return the findings."""
        self._started_s = time.monotonic()
        while (left_s := self._plan.seconds - self._elapsed_s()) > 0 and not self._found.violation:
            self._found.seasons += 1
            try:
                self._season(min(left_s, self._plan.season_s))
            except ViolationError as error:
                self._found.violation = str(error)
        self._found.seconds = self._elapsed_s()
        return self._found

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    def _season(self, seconds: float) -> None:
        topic = f"faults-{self._found.seasons}"
        drill = FaultDrill(
            self._cluster,
            topic,
            flush=self._plan.flush,
            request_timeout_ms=2_000,
            delivery_timeout_ms=240_000,
            configs=CONFIGS,
            allowed=READS_OF_A_DEPOSED_LEADER,
        )
        site = StruckCluster(self._cluster, self._chance, lambda: is_whole(drill), self._hung_loops)
        with drill:
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                self._strike(site)
                if self._chance.random() < 0.6:
                    self._heal(drill)
            self._heal(drill)
        self._found.acknowledged += drill.history.count(SendOutcome.ACKNOWLEDGED)
        self._found.read += len(drill.history.reads)
        self._found.slowest_ms = max(self._found.slowest_ms, drill.load.slowest_ms)
        self._tell(
            f"{topic} is judged: {drill.history.count(SendOutcome.ACKNOWLEDGED)} acknowledged, all well"
        )
        drill.drop()

    def _strike(self, site: StruckCluster) -> None:
        done: list[DoneFault] = []
        for _ in range(self._chance.choice(AT_ONCE)):
            strike = self._chance.choice(self._chance.choice(self._plan.groups))
            struck = strike(site)
            if struck is None:
                continue
            done.append(struck)
            self._found.faults[struck.kind] += 1
            self._tell(struck.what)
        time.sleep(self._chance.choice(PAUSES_S))
        self._chance.shuffle(done)
        for each in done:
            each.mend()

    def _heal(self, drill: FaultDrill) -> None:
        def is_healed() -> bool:
            # A broker whose disk failed may take seconds to give up, longer than its disk is broken.
            restart_ended(self._cluster, self._tell)
            return is_whole(drill)

        wait_until("every replica is in sync and whole", is_healed, HEALED_S)
        drill.wait_for_progress(20, HEALED_S)

    def _tell(self, what: str) -> None:
        self._say(self._elapsed_s(), what)


def is_whole(drill: FaultDrill) -> bool:
    """Whether all replicas of the topic are in sync, there are no complaints, and the disks have the same
    bytes. So damage counts even if no broker has noticed it yet."""
    try:
        in_sync = all(len(each.isr) == len(each.replicas) for each in drill.describe())
        if not in_sync or drill.admin.describe_cluster().complaints:
            return False
        return not replica_differences(drill.cluster, drill.topic)
    except HightideError:
        return False
