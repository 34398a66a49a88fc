"""Attacks real clusters with what nobody would send, and watches them: `make fuzz`, a part of `make soak`.

Seasons follow each other, each on a new cluster. Nothing may come of the attacks of clients, without and with
certificates. Attackers who may command brokers or write into ZooKeeper may lose records; the processes must
outlive them. The seed gives the same attacks again; when each of them comes is up to the machine. Ends with 1
if something is found.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, cycle
from pathlib import Path
from typing import Final

from fuzz.season import Ground, SeasonResult, run_season

SEASON_S: Final = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seasons, and print a table. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="fuzz.run", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=600, help="how long to attack, starts and ends left out"
    )
    parser.add_argument("--season-seconds", type=float, default=SEASON_S)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[each.name.lower() for each in Ground], help="one kind of cluster")
    chosen = parser.parse_args(arguments)
    grounds = [Ground[chosen.only.upper()]] if chosen.only else list(Ground)
    results: list[SeasonResult] = []
    left_s = chosen.seconds
    for number, ground in zip(count(), cycle(grounds)):
        if left_s <= 0:
            break
        season_s = min(left_s, chosen.season_seconds)
        left_s -= season_s
        directory = Path(tempfile.mkdtemp(prefix="hightide-fuzz-"))
        began_s = time.monotonic()
        result = run_season(ground, chosen.seed + number, season_s, directory)
        results.append(result)
        print(
            f"season {number + 1}, seed {chosen.seed + number}, {ground.value}: "
            f"{total(result)} attacks in {time.monotonic() - began_s:.0f} s, {len(result.findings)} findings",
            flush=True,
        )
        for finding in result.findings:
            print(f"  FOUND {finding}", flush=True)
        if result.findings:
            print(f"  the cluster lies in {directory}", flush=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    print("\n".join(report(results)))
    return int(any(result.findings for result in results))


def total(result: SeasonResult) -> int:
    """How many attacks there were."""
    return sum(each.total() for each in result.outcomes.values())


def report(results: Sequence[SeasonResult]) -> Iterator[str]:
    """The table at the end: attacks and outcomes, clients, processes."""
    outcomes: dict[str, Counter[str]] = {}
    for result in results:
        for name, counts in result.outcomes.items():
            outcomes.setdefault(name, Counter()).update(counts)
    yield ""
    for name, counts in sorted(outcomes.items()):
        told = ", ".join(f"{what} {times}" for what, times in counts.most_common())
        yield f"{name:12} {counts.total():8}  {told}"
    for result in results:
        if result.waits_ms:
            waits = ", ".join(f"{what} {ms:.0f} ms" for what, ms in result.waits_ms.items())
            yield f"{result.ground.value}: {result.acknowledged} records judged; a client waits {waits}"
    yield f"{'process':15} {'RSS MiB':>16} {'threads':>14} {'open files':>16}   first / most / last"
    for name in sorted({name for result in results for name in result.usage}):
        used = [result.usage[name] for result in results if name in result.usage]
        columns = [
            " / ".join(
                str(max(getattr(getattr(each, what), when) for each in used))
                for when in ("first", "most", "last")
            )
            for what in ("rss_mib", "threads", "descriptors")
        ]
        yield f"{name:15} {columns[0]:>16} {columns[1]:>14} {columns[2]:>16}"
    yield f"{sum(len(result.findings) for result in results)} findings"


if __name__ == "__main__":
    sys.exit(main())
