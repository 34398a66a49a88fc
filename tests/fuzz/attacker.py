"""The process that attacks. It is one of its own, so that its threads take no time from the client that is
watched, and that what a batch does to a reader it does here.

Reads a plan (`fuzz.plan`) from standard input. Writes one line of JSON: what was done, and what was found.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import threading
from collections import Counter

from fuzz.attack import Attack
from fuzz.calls import CallAttack
from fuzz.connections import ConnectionAttack
from fuzz.live_cluster import LiveCluster
from fuzz.plan import AttackPlan
from fuzz.records import RecordAttack
from fuzz.znodes import ZnodeAttack

_END_S = 120.0


def attack(plan: AttackPlan) -> dict[str, object]:
    """Carry the plan out, with all attacks at the same time."""
    live = LiveCluster(plan)
    live.begin()
    attacks: list[Attack] = [
        *(CallAttack(f"calls-{number}", plan, live) for number in range(3)),
        *(ConnectionAttack(f"connections-{number}", plan) for number in range(2)),
    ]
    if plan.zookeeper:
        attacks.append(ZnodeAttack("znodes", plan))
    elif not plan.may_command:
        attacks.append(RecordAttack("records", plan))
    crashes: list[str] = []
    threading.excepthook = lambda told: crashes.append(
        f"{told.thread and told.thread.name}: {told.exc_value!r}"
    )
    for each in attacks:
        each.begin(plan.seconds)
    for each in attacks:
        each.thread.join(plan.seconds + _END_S)
    live.end()
    hung = [f"{each.name} does not end" for each in attacks if each.thread.is_alive()]
    outcomes: dict[str, Counter[str]] = {}
    for each in attacks:
        outcomes.setdefault(each.name.partition("-")[0], Counter()).update(each.outcomes)
    findings = [finding for each in attacks for finding in each.findings]
    return {"outcomes": outcomes, "findings": [*findings, *crashes, *hung]}


if __name__ == "__main__":
    faulthandler.enable()
    print(json.dumps(attack(AttackPlan.decode(sys.stdin.readline()))), flush=True)
