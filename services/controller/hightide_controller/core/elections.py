"""Who leads: the decision about one partition, as a pure function of what is known (V3 A.3.2, B.1, mended).

`decide` compares what ZooKeeper holds with what should hold and says the difference; None means that all
is as it should be. So it may be asked at any time, about any partition, any number of times: every event
of the controller boils down to asking it again.

The leader epoch grows whenever the leader changes (also to none, and also to a new life of the same
broker), and only then: an ISR that merely shrinks keeps its leader and its epoch, so followers need not
truncate or reconnect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hightide_controller.core.mends import Mends
from hightide_controller.core.partition import NO_LEADER, LeaderAndIsr, Partition

__all__ = ["Candidates", "decide", "isr_that_stays"]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Which brokers can lead: `leaving` shut down, `bounced` died and came back since the last decision,
    `damaged` have batches of the partition at rest that are not what was written."""

    live: frozenset[int]
    leaving: frozenset[int] = frozenset()
    bounced: frozenset[int] = frozenset()
    leaving_may_follow: bool = False
    """Those that leave stay in an ISR whose leader stays: it let them in again, and would do so for ever."""
    damaged: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    """They do not acknowledge what they are told: they lead where nobody else in sync can (silence.py)."""


def decide(
    partition: Partition,
    candidates: Candidates,
    controller_epoch: int,
    mends: Mends,
    unclean: bool,
    first_leader_epoch: int = 0,
) -> LeaderAndIsr | None:
    """What to write for this partition, or None. `unclean`: the topic allows an unclean election.

    A NEW partition begins with `first_leader_epoch`: its number may have been in use before.
    """
    known = partition.leader_and_isr
    if known is None:
        return _initialise(partition, candidates, controller_epoch, first_leader_epoch, partition_epoch=0)
    if known.leader == NO_LEADER and not mends.new_is_not_offline:
        return _initialise(
            partition, candidates, controller_epoch, known.leader_epoch + 1, known.partition_epoch + 1
        )
    isr = isr_that_stays(partition.replicas, known.isr, candidates)
    leader = known.leader
    if candidates.leaving_may_follow and leader in isr and leader not in candidates.bounced:
        isr = isr_that_stays(partition.replicas, known.isr, replace(candidates, leaving=frozenset()))
    if not isr:
        leader, isr = _without_isr(partition, known, candidates, mends, unclean)
    elif leader not in isr or leader in candidates.silent:
        leader = _elected(partition.replicas, isr, leader, candidates.silent)
    reborn = leader in candidates.bounced and leader == known.leader
    if leader == known.leader and isr == known.isr and not reborn:
        return None
    changed = leader != known.leader or reborn
    return LeaderAndIsr(
        leader, known.leader_epoch + changed, isr, controller_epoch, known.partition_epoch + 1
    )


def _initialise(
    partition: Partition,
    candidates: Candidates,
    controller_epoch: int,
    leader_epoch: int,
    partition_epoch: int,
) -> LeaderAndIsr | None:
    """V3 B.1, for a partition that never had a leader: its live replicas are its ISR, the first one leads."""
    live = tuple(broker_id for broker_id in partition.replicas if broker_id in candidates.live)
    isr = tuple(broker_id for broker_id in live if broker_id not in candidates.leaving) or live
    if not isr:
        return None
    leader = next((broker_id for broker_id in isr if broker_id not in candidates.silent), isr[0])
    return LeaderAndIsr(leader, leader_epoch, isr, controller_epoch, partition_epoch)


def isr_that_stays(
    replicas: tuple[int, ...], isr: tuple[int, ...], candidates: Candidates
) -> tuple[int, ...]:
    """The live part of the ISR, without those that leave, bounced or are damaged as long as anyone else is
    left. One that is damaged has all but little, and will have that again: it is the last to leave.

    Nobody stays who is not in AR any more, as after a hand has written the topic znode (KAFKA-9672).
    """
    live = tuple(broker_id for broker_id in isr if broker_id in candidates.live and broker_id in replicas)
    staying = tuple(broker_id for broker_id in live if broker_id not in candidates.leaving)
    steady = tuple(broker_id for broker_id in staying if broker_id not in candidates.bounced)
    whole = tuple(broker_id for broker_id in steady if broker_id not in candidates.damaged)
    return whole or steady or staying or live


def _elected(replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, silent: frozenset[int]) -> int:
    """The first replica in assignment order that is in the ISR and answers; where none does, the leader stays
    if it can, else the first one."""
    in_sync = [broker_id for broker_id in replicas if broker_id in isr] or list(isr)
    answering = [broker_id for broker_id in in_sync if broker_id not in silent]
    if not answering and leader in isr:
        return leader
    return (answering or in_sync)[0]


def _without_isr(
    partition: Partition, known: LeaderAndIsr, candidates: Candidates, mends: Mends, unclean: bool
) -> tuple[int, tuple[int, ...]]:
    """No ISR member is alive: offline with the ISR remembered, unless an unclean election is allowed."""
    if unclean or not mends.clean_elections:
        for broker_id in partition.replicas:
            if broker_id in candidates.live:
                return broker_id, (broker_id,)
    return NO_LEADER, known.isr if mends.last_isr_remembered else ()
