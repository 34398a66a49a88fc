"""Which replicas of a partition have all committed records, as is written about it: its ISR, the eligible
replicas beside it (KIP-966), and what the logs have that may have lost their ends.

Whoever decides about leaders goes by these rules, with a controller and without one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from hightide_runtime.znodes.recovered_log import RecoveredLog


class KnownIsr(Protocol):
    """What is written about a partition."""

    @property
    def isr(self) -> tuple[int, ...]:
        """The replicas in sync."""
        ...

    @property
    def eligible(self) -> tuple[int, ...]:
        """Replicas out of the ISR that have all committed records."""
        ...

    @property
    def recovered(self) -> tuple[RecoveredLog, ...]:
        """What the logs have that may have lost their ends."""
        ...


def trusted(known: KnownIsr, replicas: Collection[int]) -> frozenset[int]:
    """The assigned replicas that have all committed records, alive or not: the ISR and the eligible, but for
    those whose logs are in doubt."""
    doubted = (log.broker_id for log in known.recovered)
    return frozenset((*known.isr, *known.eligible)).intersection(replicas).difference(doubted)


def who_has_most(known: KnownIsr, replicas: Collection[int]) -> frozenset[int]:
    """The assigned replicas that have all committed records, alive or not; or if all of them may have lost
    the ends of their logs, those with the longest log."""
    return trusted(known, replicas) or longest_logs(known, replicas)


def longest_logs(known: KnownIsr, replicas: Collection[int]) -> frozenset[int]:
    """The assigned replicas with the longest log among those that have said what they still have, by leader
    epoch and log end."""
    logs = [log for log in known.recovered if log.broker_id in replicas]
    most = max(((log.leader_epoch, log.log_end_offset) for log in logs), default=None)
    return frozenset(log.broker_id for log in logs if (log.leader_epoch, log.log_end_offset) == most)


def eligible_beside(
    isr: Collection[int], known: KnownIsr, replicas: Collection[int], min_insync_replicas: int
) -> frozenset[int]:
    """The eligible replicas beside an ISR: none if it is large enough to commit. Otherwise those that were
    eligible before or leave the ISR, unless their log is in doubt."""
    if len(isr) >= min(min_insync_replicas, len(replicas)):
        return frozenset()
    return trusted(known, replicas).difference(isr)


def recovered_beside(
    isr: Collection[int], known: KnownIsr, replicas: Collection[int], min_insync_replicas: int
) -> tuple[RecoveredLog, ...]:
    """The recorded log ends of replicas that may have lost some: none beside an ISR that is large enough to
    commit, otherwise those of replicas out of it. They may be all that is left, if the few of this ISR lose
    theirs."""
    if not known.recovered or len(isr) >= min(min_insync_replicas, len(replicas)):
        return ()
    return tuple(log for log in known.recovered if log.broker_id not in isr)
