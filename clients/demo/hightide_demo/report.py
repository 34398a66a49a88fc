"""The demo's findings: as tables, as its last line, and as a document."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from hightide_bench.measuring.comparison import Comparison
from hightide_cli.printing.rendering import Cell, Json, table
from hightide_local.traces.trace_lookup import FailoverSummary

from hightide_demo.group_history import GroupFindings
from hightide_demo.script import BrokerReturn, Failover, GroupKill, KilledProcess
from hightide_demo.spark import SparkFindings

FAILOVERS_EXPECTED = 2
# A consumer and a coordinator.
GROUP_KILLS_EXPECTED = 2
# One when the group formed, and one when a consumer was killed.
REBALANCES_MIN = 2


@dataclass(frozen=True, slots=True)
class MeasuredFailover:
    """One kill, with its figures from the traces and from the producer's acknowledgements."""

    failover: Failover
    trace: FailoverSummary | None
    waits_ms: Sequence[float]
    """The longest time without an acknowledgement after the kill, of each partition."""


@dataclass(frozen=True, slots=True)
class DemoReport:
    """All findings of the demo. `run_demo` returns it."""

    rows_total: int
    comparison: Comparison
    failovers: Sequence[MeasuredFailover]
    returns: Sequence[BrokerReturn]
    group: GroupFindings
    group_kills: Sequence[GroupKill]
    spark: SparkFindings
    coordinator_trace_id: str | None = None

    @property
    def is_well(self) -> bool:
        """Whether all promises held, which is also the exit code: over both failovers every row came back
        once and in order, over both kills the group read every row and each partition had one owner at a
        time, and Spark found every row."""
        return (
            self.group.is_sound
            and self.group.rebalances >= REBALANCES_MIN
            and len(self.group_kills) == GROUP_KILLS_EXPECTED
            and self.comparison.is_perfect
            and self.comparison.produced == self.comparison.consumed == self.rows_total
            and len(self.failovers) == FAILOVERS_EXPECTED
            and self.spark.is_whole(self.rows_total)
        )

    def last_line(self) -> str:
        """Return the last line of the demo's output."""
        found = self.comparison
        return (
            f"demo: produced={found.produced} consumed={found.consumed} lost={found.lost} "
            f"duplicated={found.duplicated + found.foreign} reordered={found.reordered} "
            f"failovers={len(self.failovers)} unavailable_ms_max={self.unavailable_ms_max:.0f} "
            f"{self.group.line()} {self.spark.line()}"
        )

    def table(self) -> str:
        """Return the table of failovers. Milliseconds count from the kill."""
        headings = [
            "killed", "at row", "leaders lost", "successor", "detected ms", "elected ms", "first commit ms",
            "clients waited ms",
        ]  # fmt: skip
        return table(headings, [_cells(each) for each in self.failovers])

    def group_table(self) -> str:
        """Return the table of the group's kills."""
        headings = ["killed", "at row", "partitions", "successor", "group recovered ms"]
        rows = [
            (each.name, each.rows_before, each.partitions, each.successors, f"{each.recovered_ms:.0f}")
            for each in self.group_kills
        ]
        return table(headings, rows)

    def remarks(self) -> str:
        """Return the lines after the tables: the broker's return, unusual findings, and the commands that
        show more."""
        lines = [
            f"{each.name} was in sync again {each.in_sync_ms:.0f} ms after its start" for each in self.returns
        ]
        if self.group.vanished:
            lines.append(f"{self.group.vanished} records that the group read are not in the log")
        if self.comparison.foreign:
            lines.append(f"{self.comparison.foreign} rows read back were never written")
        if self.spark.flaws:
            lines.append(f"{self.spark.flaws} gaps or overlaps are in what Spark archived")
        lines.append(f"the delays by week and weather: {self.spark.chart}")
        traced = [*(each.trace.trace_id for each in self.failovers if each.trace), self.coordinator_trace_id]
        shown = [f"hightide trace show {trace_id[:8]}" for trace_id in traced if trace_id]
        return "\n".join([*lines, *([f"every step: {', '.join(shown)}"] if shown else [])])

    def document(self) -> dict[str, Json]:
        """Return all findings for `-o json`."""
        found = self.comparison
        kills: list[Json] = [
            {
                "killed": each.failover.name,
                "rows_before": each.failover.rows_before,
                "successor": each.failover.successor,
                "recovered_ms": each.failover.recovered_ms,
                "waits_ms": list(each.waits_ms),
            }
            for each in self.failovers
        ]
        return {
            "produced": found.produced,
            "consumed": found.consumed,
            "lost": found.lost,
            "duplicated": found.duplicated,
            "reordered": found.reordered,
            "foreign": found.foreign,
            "failovers": len(self.failovers),
            "unavailable_ms_max": self.unavailable_ms_max,
            "kills": kills,
            "spark": {
                "rows": self.spark.rows,
                "archived": self.spark.archived,
                "flaws": self.spark.flaws,
                "chart": self.spark.chart,
            },
            "groups": {
                "rebalances": self.group.rebalances,
                "double_owned": self.group.double_owned,
                "skipped": self.group.skipped,
                "redelivered": self.group.redelivered,
                "vanished": self.group.vanished,
                "kills": [
                    {
                        "killed": each.name,
                        "rows_before": each.rows_before,
                        "partitions": each.partitions,
                        "successor": each.successors,
                        "recovered_ms": each.recovered_ms,
                    }
                    for each in self.group_kills
                ],
            },
        }

    @property
    def unavailable_ms_max(self) -> float:
        """The longest time after a kill in which a partition acknowledged nothing."""
        return max((wait for each in self.failovers for wait in each.waits_ms), default=0.0)


def _cells(measured: MeasuredFailover) -> list[Cell]:
    failover, trace = measured.failover, measured.trace
    if failover.victim is KilledProcess.BROKER:
        detected = None if trace is None else trace.detect_ms
        elected = None if trace is None else _elected_ms(trace)
        commit = (
            trace.first_commit_ms if trace is not None and trace.first_commit_ms else failover.recovered_ms
        )
    else:
        # The standby is elected as soon as it notices the death, and creates the new topic first.
        detected = None if trace is None else trace.detect_ms
        elected, commit = failover.active_ms, failover.recovered_ms
    waits = f"max {max(measured.waits_ms):.0f}, median {median(measured.waits_ms):.0f}"
    return [
        failover.name, failover.rows_before, failover.led, failover.successor,
        *(_ms(value) for value in (detected, elected, commit)), waits,
    ]  # fmt: skip


def _elected_ms(trace: FailoverSummary) -> float | None:
    """Return the milliseconds from the kill until the new leaders were in ZooKeeper; None if not known."""
    if trace.detect_ms is None or trace.elect_ms is None:
        return None
    return trace.detect_ms + trace.elect_ms


def _ms(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f}"
