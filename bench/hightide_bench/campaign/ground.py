"""The cluster on which a campaign takes place: small segments, short sessions, disks that fail on demand."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from hightide_local.cluster import LocalCluster

from hightide_bench.campaign.campaign import Campaign, CampaignPlan, CampaignResult
from hightide_bench.campaign.hung_loops import processes_that_can_hang
from hightide_bench.campaign.strikes import strikes

BROKER_PROGRAM: Final = (sys.executable, "-m", "hightide_bench.campaign.broker_on_faulty_disks")
SESSION_TIMEOUT_MS: Final = 2_500
LAG_TIME_MAX_MS: Final = 1_000
BROKER_ARGUMENTS: Final = (
    *("--high-watermark-checkpoint-interval-ms", "1000"),
    *("--flush-interval-ms", "5000"),
    *("--scrub-interval-ms", "2000"),
    *("--scrub-bytes-per-s", "100000000"),
)
"""Settings that make events of minutes or hours happen several times between two faults."""


def run_campaign(
    *,
    seconds: float,
    season_s: float,
    seed: int,
    groups: Sequence[str],
    flush: str,
    directory: Path | None,
    say: Callable[[float, str], None],
) -> tuple[CampaignResult, Path]:
    """Start a cluster, run the campaign on it, and stop it. Returns the findings and the cluster's directory.

    `groups` are names of `strikes()`. Without a `directory` the cluster is removed if all was well. Raises
    ClusterError if it does not start.
    """
    place = directory or Path(tempfile.mkdtemp(prefix="hightide-faults-"))
    all_strikes = strikes()
    plan = CampaignPlan(seconds, season_s, [all_strikes[group] for group in groups], flush)
    with (
        processes_that_can_hang() as hung_loops,
        LocalCluster(
            place,
            brokers=3,
            controllers=2,
            coordinators=1,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            replica_lag_time_max_ms=LAG_TIME_MAX_MS,
            broker_arguments=BROKER_ARGUMENTS,
            broker_program=BROKER_PROGRAM,
            partitionable=True,
        ) as cluster,
    ):
        found = Campaign(cluster, plan, random.Random(seed), say, hung_loops).run()
    if directory is None and not found.violation:
        shutil.rmtree(place, ignore_errors=True)
    return found, place
