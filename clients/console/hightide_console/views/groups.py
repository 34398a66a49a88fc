"""Consumer groups: who reads what, how far behind, and why the last rebalance came. Pure."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hightide import GroupDescription, PartitionLag

from hightide_console.looks import Survey
from hightide_console.settings import HISTORY_POINTS, ROWS_MAX
from hightide_console.views import figures
from hightide_console.views.records import safe_text

_TONES: Final = {"stable": "ok", "empty": "quiet", "failed": "bad"}
#: Of so many groups the lag is remembered; of the one looked at longest ago it is forgotten first.
_GROUPS_REMEMBERED: Final = 20


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group in the list. `lag` counts the partitions with a committed offset."""

    name: str
    state: str
    tone: str
    members: int
    generation: int
    lag: str
    rate: str
    coordinator: str


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One consumer, and the partitions that it owns."""

    name: str
    peer: str
    state: str
    tone: str
    partitions: str
    count: int


@dataclass(frozen=True, slots=True)
class LagRow:
    """One partition of a group."""

    partition: str
    owner: str
    committed: str
    end: str
    lag: str
    is_behind: bool


@dataclass(frozen=True, slots=True)
class GroupView:
    """The page of one group."""

    name: str
    state: str
    tone: str
    reason: str
    facts: str
    total_lag: int
    members: tuple[MemberRow, ...]
    more_members: int
    partitions: tuple[LagRow, ...]
    more_partitions: int


def group_rows(survey: Survey | None) -> list[GroupRow]:
    """All groups, those with the most lag first."""
    if survey is None:
        return []
    paces = {each.name: each for each in survey.top.groups}
    rows = []
    for each in survey.groups:
        pace = paces.get(each.group)
        rows.append(
            GroupRow(
                each.group,
                each.state,
                _TONES.get(each.state, "warning"),
                each.member_count,
                each.generation,
                figures.count(pace.lag if pace else None),
                figures.rate(pace.records_per_s if pace else None),
                each.coordinator_address,
            )
        )
    return sorted(rows, key=lambda each: (-(paces[each.name].lag if each.name in paces else 0), each.name))


def group_view(group: GroupDescription, lags: Sequence[PartitionLag]) -> GroupView:
    """The page of one group, as its coordinator has just described it."""
    behind = sorted(lags, key=lambda each: (-(each.lag or 0), each.partition))
    members = sorted(group.members, key=lambda each: each.consumer_id)
    facts = [
        f"generation {group.generation}",
        f"{group.assignor} assignor",
        f"{group.rebalance_count:,} {'rebalance' if group.rebalance_count == 1 else 'rebalances'}",
        f"the last took {figures.took(group.last_rebalance_ms)}",
        f"coordinator {group.coordinator_id} at {group.coordinator_address}",
    ]
    return GroupView(
        group.group,
        group.state,
        _TONES.get(group.state, "warning"),
        safe_text(group.reason),
        " · ".join(facts),
        sum(each.lag or 0 for each in lags),
        tuple(
            MemberRow(
                safe_text(each.consumer_id),
                safe_text(each.peer),
                "connected" if each.is_connected else "away",
                "ok" if each.is_connected else "warning",
                _partitions_text([f"{place}" for place in sorted(each.partitions)]),
                len(each.partitions),
            )
            for each in members[:ROWS_MAX]
        ),
        max(0, len(members) - ROWS_MAX),
        tuple(
            LagRow(
                str(each.partition),
                safe_text(each.owner) if each.owner else "nobody",
                figures.count(each.committed),
                figures.count(each.end),
                figures.count(each.lag),
                bool(each.lag),
            )
            for each in behind[:ROWS_MAX]
        ),
        max(0, len(behind) - ROWS_MAX),
    )


class LagHistory:
    """The lag of the groups that were looked at, over the last minutes: a point for each survey."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[float, int]]] = {}

    def add(self, survey: Survey) -> None:
        """Take in one survey; surveys come in the order of time."""
        for pace in survey.top.groups[:_GROUPS_REMEMBERED]:
            points = self._points.pop(pace.name, None)
            if points is None:
                points = deque(maxlen=HISTORY_POINTS)
            self._points[pace.name] = points
            points.append((survey.at_ms / 1000, pace.lag))
        while len(self._points) > _GROUPS_REMEMBERED:
            self._points.pop(next(iter(self._points)))

    def columns(self, group: str) -> list[list[float]]:
        """Seconds and lags of one group."""
        points = self._points.get(group, ())
        return [[at_s for at_s, _ in points], [lag for _, lag in points]]


def _partitions_text(names: Sequence[str]) -> str:
    shown = ", ".join(names[:20])
    return f"{shown} and {len(names) - 20} more" if len(names) > 20 else shown or "none"
