"""Electing the leader of one partition, as a pure function of what is known (V3 A.3.2, B.1, mended).

`decide` compares what ZooKeeper holds with what it should hold, and returns the difference; None means that
all is as it should be. So it may be called at any time, for any partition, any number of times. Every event
of the controller ends in calls of it.

The leader epoch grows whenever the leader changes (also to none, and also to a new life of the same broker),
and only then. An ISR that merely shrinks keeps its leader and its epoch, so followers need not truncate or
reconnect.

The leader is chosen in this order:

1. A member of the ISR.
2. An eligible replica (KIP-966): it left an ISR that fell below min.insync.replicas and so commits nothing.
   The replica therefore still has all committed records.
3. If each of these has reported that it may have lost the end of its log (`recovered`), the one with the
   longest log, by (leader epoch, log end). As long as one has not reported, the partition waits for it.
4. The replica of an unclean election, if the topic or an operator allows one.
"""

from __future__ import annotations

from collections.abc import Collection

from hightide_runtime.znodes import in_sync
from hightide_runtime.znodes.recovered_log import RecoveredLog
from msgspec import Struct
from msgspec.structs import replace

from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, Partition

__all__ = [
    "Candidates",
    "best_recovered",
    "decide",
    "elected_uncleanly",
    "eligible_with",
    "isr_that_stays",
    "live_eligible",
    "recovered_with",
    "trusted_isr",
    "unclean_leader",
    "waited_for",
    "who_has_most",
]


class Candidates(Struct, frozen=True):
    """The brokers that can lead: `leaving` shut down, `bounced` died and came back since the last decision,
    `damaged` have damaged batches of the partition at rest."""

    live: frozenset[int]
    leaving: frozenset[int] = frozenset()
    bounced: frozenset[int] = frozenset()
    leaving_may_follow: bool = False
    """Brokers that leave stay in an ISR whose leader stays: it let them in again, and would do so for
    ever."""
    damaged: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    """Brokers that do not acknowledge. They lead only if no other in-sync replica can (silence.py)."""
    failed: frozenset[int] = frozenset()
    """Live brokers that cannot use their replica: they leave the ISR, and are not eligible either."""
    min_insync_replicas: int = 1
    """The topic's setting. A smaller ISR commits nothing, so a replica that leaves it stays eligible."""


def decide(
    partition: Partition,
    candidates: Candidates,
    controller_epoch: int,
    unclean: bool,
    first_leader_epoch: int = 0,
) -> LeaderAndIsr | None:
    """What to write for this partition, or None. `unclean`: the topic allows an unclean election.

    A NEW partition begins with `first_leader_epoch`, because its number may have been used before.
    """
    known = partition.leader_and_isr
    if known is None:
        return _initialise(partition, candidates, controller_epoch, first_leader_epoch)
    trusted = trusted_isr(known)
    isr = isr_that_stays(partition.replicas, trusted, candidates)
    leader = known.leader
    if candidates.leaving_may_follow and leader in isr and leader not in candidates.bounced:
        isr = isr_that_stays(partition.replicas, trusted, replace(candidates, leaving=frozenset()))
    if not isr:
        return _without_isr(partition, known, candidates, controller_epoch, unclean)
    if leader not in isr or leader in candidates.silent:
        leader = _elected(partition.replicas, isr, leader, candidates.silent)
    reborn = leader in candidates.bounced and leader == known.leader
    fails = not candidates.failed.isdisjoint(known.eligible)
    if leader == known.leader and isr == known.isr and not (reborn or fails):
        return None
    changed = leader != known.leader or reborn
    return LeaderAndIsr(
        leader,
        known.leader_epoch + changed,
        isr,
        controller_epoch,
        known.partition_epoch + 1,
        eligible_with(partition, known, isr, candidates),
        recovered_with(partition, known, isr, candidates),
        known.unclean_epoch,
    )


def _initialise(
    partition: Partition,
    candidates: Candidates,
    controller_epoch: int,
    leader_epoch: int,
) -> LeaderAndIsr | None:
    """Initialise a partition that never had a leader (V3 B.1): its live replicas are the ISR, and the first
    one leads."""
    live = tuple(broker_id for broker_id in partition.replicas if broker_id in candidates.live)
    isr = tuple(broker_id for broker_id in live if broker_id not in candidates.leaving) or live
    if not isr:
        return None
    leader = next((broker_id for broker_id in isr if broker_id not in candidates.silent), isr[0])
    return LeaderAndIsr(leader, leader_epoch, isr, controller_epoch, partition_epoch=0)


def trusted_isr(known: LeaderAndIsr) -> tuple[int, ...]:
    """The ISR without members that may have lost the end of their log."""
    if not known.recovered:
        return known.isr
    doubted = {log.broker_id for log in known.recovered}
    return tuple(broker_id for broker_id in known.isr if broker_id not in doubted)


def isr_that_stays(
    replicas: tuple[int, ...], isr: tuple[int, ...], candidates: Candidates
) -> tuple[int, ...]:
    """The live part of the ISR, without brokers that leave, bounced or are damaged, as long as another is
    left. A damaged one has nearly all records, and will have all again: it is the last to leave.

    A broker that is not in AR any more does not stay, for example after an operator has written the topic
    znode (KAFKA-9672).
    """
    live = tuple(broker_id for broker_id in isr if broker_id in candidates.live and broker_id in replicas)
    staying = tuple(broker_id for broker_id in live if broker_id not in candidates.leaving)
    steady = tuple(broker_id for broker_id in staying if broker_id not in candidates.bounced)
    left = steady or staying or live
    if not candidates.damaged:
        return left
    whole = tuple(broker_id for broker_id in left if broker_id not in candidates.damaged)
    return whole or left


def _elected(replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, silent: frozenset[int]) -> int:
    """The first replica in assignment order that is in the ISR and answers. If there is none, the leader
    stays if it can, else the first one leads."""
    in_sync = [broker_id for broker_id in replicas if broker_id in isr] or list(isr)
    answering = [broker_id for broker_id in in_sync if broker_id not in silent]
    if not answering and leader in isr:
        return leader
    return (answering or in_sync)[0]


def eligible_with(
    partition: Partition, known: LeaderAndIsr, isr: Collection[int], candidates: Candidates
) -> tuple[int, ...]:
    """The eligible replicas beside an ISR (KIP-966): none if the ISR is large enough to commit. Otherwise
    those that were eligible before or leave the ISR, unless their log is in doubt or cannot be used."""
    of = partition.replicas, candidates.min_insync_replicas
    return tuple(sorted(in_sync.eligible_beside(isr, known, *of) - candidates.failed))


def recovered_with(
    partition: Partition, known: LeaderAndIsr, isr: Collection[int], candidates: Candidates
) -> tuple[RecoveredLog, ...]:
    """The recorded log ends of replicas that may have lost some, beside an ISR."""
    return in_sync.recovered_beside(isr, known, partition.replicas, candidates.min_insync_replicas)


def live_eligible(partition: Partition, known: LeaderAndIsr, candidates: Candidates) -> tuple[int, ...]:
    """The eligible replicas that can lead now."""
    if not known.eligible:
        return ()
    trusted = in_sync.trusted(known, partition.replicas)
    return isr_that_stays(
        partition.replicas, tuple(each for each in known.eligible if each in trusted), candidates
    )


def best_recovered(partition: Partition, known: LeaderAndIsr, candidates: Candidates) -> int | None:
    """The replica with the longest log, if all replicas that had everything may have lost the ends of their
    logs. None if one has not reported yet, or if the one with the longest log is not alive."""
    if in_sync.trusted(known, partition.replicas):
        return None
    best = in_sync.longest_logs(known, partition.replicas) & candidates.live
    return next((each for each in partition.replicas if each in best), None)


def waited_for(partition: Partition) -> tuple[int, ...]:
    """The replicas for which a partition without a leader waits because logs may have lost their ends: any
    that had all committed records and has not reported what it has; or if all have reported, those with the
    longest log. Empty if no log is in doubt."""
    known = partition.leader_and_isr
    if known is None or known.leader != NO_LEADER or not known.recovered:
        return ()
    return tuple(sorted(who_has_most(partition, known)))


def who_has_most(partition: Partition, known: LeaderAndIsr) -> frozenset[int]:
    """The replicas that have all committed records, alive or not; or if all of them may have lost the ends of
    their logs, those with the longest log."""
    return in_sync.who_has_most(known, partition.replicas)


def unclean_leader(partition: Partition, known: LeaderAndIsr, candidates: Candidates) -> int | None:
    """The live replica whose election loses the least, as far as is known; None if none is alive."""
    ends = {log.broker_id: (log.leader_epoch, log.log_end_offset) for log in known.recovered}
    live = [each for each in partition.replicas if each in candidates.live]
    staying = [each for each in live if each not in candidates.leaving]
    # The first of the best, in assignment order.
    return max(staying or live, key=lambda each: ends.get(each, (-2, 0)), default=None)


def _without_isr(
    partition: Partition,
    known: LeaderAndIsr,
    candidates: Candidates,
    controller_epoch: int,
    unclean: bool,
) -> LeaderAndIsr | None:
    """Decide if no trusted ISR member is alive. An eligible one leads; or the one with the longest log, if
    all may have lost the ends of their logs. Otherwise the partition is offline and remembers all of them,
    unless the topic prefers an unclean election."""
    decided = replace(known, controller_epoch=controller_epoch, partition_epoch=known.partition_epoch + 1)
    epoch = known.leader_epoch + 1
    eligible = live_eligible(partition, known, candidates)
    if eligible:
        leader = _elected(partition.replicas, eligible, NO_LEADER, candidates.silent)
        rest = eligible_with(partition, known, (leader,), candidates)
        return replace(
            decided,
            leader=leader,
            leader_epoch=epoch,
            isr=(leader,),
            eligible=rest,
            recovered=recovered_with(partition, known, (leader,), candidates),
        )
    chosen = best_recovered(partition, known, candidates)
    if chosen is None and unclean:
        chosen = unclean_leader(partition, known, candidates)
    if chosen is not None:
        return elected_uncleanly(partition, known, chosen, candidates, controller_epoch)
    if known.leader == NO_LEADER:
        return None
    return replace(decided, leader=NO_LEADER, leader_epoch=epoch)


def elected_uncleanly(
    partition: Partition, known: LeaderAndIsr, leader: int, candidates: Candidates, controller_epoch: int
) -> LeaderAndIsr:
    """Elect a leader that may lack records. Its followers may truncate committed records, and learn the
    reason from the epoch."""
    return LeaderAndIsr(
        leader,
        known.leader_epoch + 1,
        (leader,),
        controller_epoch,
        known.partition_epoch + 1,
        recovered=recovered_with(partition, known, (leader,), candidates),
        unclean_epoch=known.leader_epoch + 1,
    )
