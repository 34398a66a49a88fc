"""All of ZooKeeper goes away under load, for a while, and comes back: what was served meanwhile, what heals.

Shared by the integration test (an outage longer than any session) and bench/faults/zookeeper_outage.py (a
minute of it).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from hightide import Admin, TopicDescription
from hightide.errors import HightideError
from hightide_local.histories.drill import FaultDrill
from hightide_local.histories.history import SendOutcome
from hightide_local.histories.waiting import wait_until

HEALED_S = 60.0


@dataclass(frozen=True, slots=True)
class Outage:
    """Figures of one outage; milliseconds count from when ZooKeeper was there again."""

    away_s: float
    acknowledged: int
    """Records, while it was away."""
    slowest_ms: float
    """The longest that any record waited, until all had healed."""
    refusal: str
    """The type of the error that a create was refused with while it was away."""
    controller_ms: float
    """A controller is active."""
    created_ms: float
    """A topic was created and is led."""
    in_sync_ms: float
    """ISR is AR everywhere."""
    leader_changes: int


def without_zookeeper(drill: FaultDrill, seconds: float, how: Literal["kill", "pause"]) -> Outage:
    """Take ZooKeeper away for so long. A kill keeps sessions, a pause lets all of them be overdue at once."""
    cluster = drill.cluster
    epochs_before = [each.leader_epoch for each in drill.describe()]
    (cluster.kill if how == "kill" else cluster.pause)("zookeeper")
    gone_s = time.monotonic()
    before = _acknowledged(drill)
    refusal = _refused_create(cluster.bootstrap)
    drill.wait_for_progress()
    while time.monotonic() < gone_s + seconds:
        drill.wait_for_progress()
    acknowledged, away_s = _acknowledged(drill) - before, time.monotonic() - gone_s
    if how == "kill":
        cluster.restart("zookeeper", wait=False)
    else:
        cluster.resume("zookeeper")
    back_s = time.monotonic()
    cluster.active_controller(HEALED_S)
    controller_ms = _since_ms(back_s)
    name = f"{drill.topic}-after"
    wait_until("a topic can be created", lambda: _created(drill.admin, name), HEALED_S)
    created_ms = _since_ms(back_s)
    drill.wait_for_isr(3, HEALED_S)
    in_sync_ms = _since_ms(back_s)
    drill.wait_for_progress()
    epochs = [each.leader_epoch for each in drill.describe()]
    changes = sum(now - then for now, then in zip(epochs, epochs_before, strict=True))
    return Outage(
        away_s,
        acknowledged,
        drill.load.slowest_ms,
        refusal,
        controller_ms,
        created_ms,
        in_sync_ms,
        changes,
    )


def _acknowledged(drill: FaultDrill) -> int:
    return drill.history.count(SendOutcome.ACKNOWLEDGED)


def _refused_create(bootstrap: str) -> str:
    """What a create in the dark comes to, within a few seconds; its topic is another one than those after."""
    with Admin(bootstrap, timeout_ms=3_000) as admin:
        try:
            admin.create_topic("in-the-dark", 1, 1)
        except HightideError as error:
            return type(error).__name__
    return ""


def _created(admin: Admin, name: str) -> bool:
    try:
        admin.create_topic(name, 3, 3)
    except HightideError:
        return name in {each.name for each in _topics(admin)}
    return True


def _topics(admin: Admin) -> list[TopicDescription]:
    try:
        return admin.describe_topics()
    except HightideError:
        return []


def _since_ms(start_s: float) -> float:
    return (time.monotonic() - start_s) * 1000
