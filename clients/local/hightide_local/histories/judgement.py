"""Checks the observations of a drill: anomalies, errors of clients, and that there are observations at
all."""

from collections.abc import Collection, Iterable

from hightide_local.histories.anomalies import AnomalyKind, find_anomalies
from hightide_local.histories.history import History, SendOutcome
from hightide_local.histories.violation import ViolationError, require


def judge_clients(history: History, errors: Iterable[object]) -> None:
    """Check that clients saw no error, that each record was acknowledged, and that there are sends, reads and
    high watermarks. `Drill` calls it when the load has ended. Raises ViolationError."""
    seen = tuple(errors)
    require(not seen, "no client sees an error", seen)
    readers = {read.reader for read in history.reads}
    require(readers == {"tail"}, "one reader reads along", sorted(readers))
    require(history.ends, "somebody watches the high watermark")
    require(history.sends, "something is sent")
    lacking = [send for send in history.sends if send.outcome is not SendOutcome.ACKNOWLEDGED]
    require(not lacking, "each record is acknowledged", lacking)


def judge_records(history: History, allowed: Collection[AnomalyKind] = ()) -> None:
    """Check that each acknowledged record is there, once, in order and under its offset. Anomalies of the
    `allowed` kinds are ignored. `Drill` calls it when the topic was read once more. Raises ViolationError."""
    found = [each for each in find_anomalies(history) if each.kind not in allowed]
    require(not found, f"a log keeps its promises; {len(found)} anomalies", found)


def judge_replicas(differences: Iterable[str]) -> None:
    """Check that there are no `differences` between replicas. Raises ViolationError."""
    if seen := tuple(differences):
        raise ViolationError("all replicas hold the same bytes", seen)
