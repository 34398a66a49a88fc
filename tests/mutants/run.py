"""Puts each mutant of the table into a copy of the tree, and runs the tests that must go red: `make mutants`.

The working tree is never touched. Each worker has a copy of its own, whose packages come before the installed
ones; the run checks first that they do, by a mutant that nothing survives. Then it checks that the tests are
green without any mutant. It ends with 1 where a mutant has survived or does not apply any more.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from mutants.table import ROOT, Mutant, Stale, read_table

_SELF_CHECK: Final = Mutant(
    "runtime",
    "self-check",
    "services/runtime/hightide_runtime/__init__.py",
    "",
    "",
    "The copy is what is tested.",
    ("tests/unit/runtime/znodes/test_znodes.py",),
)
_BASELINE_LIMIT_S: Final = 1200
_BAD_USAGE, _NOTHING_SELECTED = 4, 5
"""Exit codes of pytest."""


class Verdict(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    STALE = "STALE"
    HUNG = "HUNG"
    EQUIVALENT = "equivalent"
    WRONGLY_EXCUSED = "KILLED, THOUGH CALLED EQUIVALENT"

    @property
    def is_good(self) -> bool:
        """Whether the gate lets it pass."""
        return self in (Verdict.KILLED, Verdict.EQUIVALENT)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant, and what tells so."""

    mutant: Mutant
    verdict: Verdict
    why: str
    took_s: float

    def __str__(self) -> str:
        return f"{self.verdict.value:10} {self.mutant.name}: {self.why} ({self.took_s:.1f} s)"


@dataclass(frozen=True, slots=True)
class TestRun:
    """What pytest said."""

    exit_code: int | None
    """None: it had not ended within its time."""
    failed: tuple[str, ...]
    output: str


class TreeCopy:
    """A copy of the tree, for one worker."""

    _moments = count(1)

    def __init__(self, directory: Path) -> None:
        self._root = directory
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in listed.split("\0"):
            if name and (ROOT / name).is_file():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, directory / name)
        venv = ROOT / ".venv"
        if venv.is_dir():
            (directory / ".venv").symlink_to(venv)

    @property
    def packages(self) -> list[Path]:
        """The folders that its packages lie in."""
        return sorted([*self._root.glob("clients/*"), *self._root.glob("services/*")])

    @contextmanager
    def with_bug(self, mutant: Mutant) -> Iterator[None]:
        """Let the bug be there for a while. Raises Stale."""
        mutated = mutant.put_into(self._root)
        path = self._root / mutant.file
        original, stat = path.read_text(), path.stat()
        path.write_text(mutated)
        # Python takes a module for compiled by its size and by the second that it was written in.
        moment = stat.st_mtime + next(self._moments)
        os.utime(path, (moment, moment))
        try:
            yield
        finally:
            path.write_text(original)
            os.utime(path, (stat.st_mtime, stat.st_mtime))

    def cripple(self, mutant: Mutant) -> Mutant:
        """The mutant that ends whoever imports the copy's package."""
        source = (self._root / mutant.file).read_text()
        bug = 'raise SystemExit("this is the copy")\n'
        return replace(mutant, text=source, becomes=source + bug)

    def pytest(self, tests: Iterable[str], limit_s: float, *options: str) -> TestRun:
        """Run these tests in the copy."""
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, self.packages)),
            "PYTHONHASHSEED": "0",
        }
        arguments = ["-q", "-rfE", "--tb=line", "--no-header", "-p", "no:cacheprovider", *options, *tests]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=self._root, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return TestRun(None, (), output)
        failed = re.findall(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", output, re.MULTILINE)
        return TestRun(process.returncode, tuple(dict.fromkeys(failed)), output)


def judge(tree: TreeCopy, mutant: Mutant) -> Outcome:
    """Run the tests of one mutant."""
    began = time.monotonic()

    def outcome(verdict: Verdict, why: str) -> Outcome:
        return Outcome(mutant, verdict, why, time.monotonic() - began)

    try:
        with tree.with_bug(mutant):
            run = tree.pytest(mutant.killed_by, mutant.limit_s, "-x")
    except Stale as stale:
        return outcome(Verdict.STALE, str(stale))
    if run.exit_code in (_BAD_USAGE, _NOTHING_SELECTED):
        return outcome(Verdict.STALE, f"no such tests: {' '.join(mutant.killed_by)}")
    if run.exit_code == 0:
        if mutant.equivalent:
            return outcome(Verdict.EQUIVALENT, mutant.equivalent)
        return outcome(Verdict.SURVIVED, f"{mutant.breaks} Not seen by {' '.join(mutant.killed_by)}")
    if run.exit_code is None:
        # Perhaps they hang, perhaps the machine is slow: nobody has seen a bug.
        return outcome(Verdict.HUNG, f"no test was red within {mutant.limit_s} s")
    by = " ".join(run.failed) or _last_line(run.output)
    return outcome(Verdict.WRONGLY_EXCUSED if mutant.equivalent else Verdict.KILLED, f"by {by}")


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or ["nothing"])[-1]


def check_the_copy(tree: TreeCopy) -> None:
    """End the run where the installed packages are tested instead of the copy's."""
    with tree.with_bug(tree.cripple(_SELF_CHECK)):
        run = tree.pytest(_SELF_CHECK.killed_by, _SELF_CHECK.limit_s)
    if "this is the copy" not in run.output:
        sys.exit(f"the tests do not run on the copy of the tree, so no mutant would be seen:\n{run.output}")


def check_without_bugs(tree: TreeCopy, mutants: Sequence[Mutant], workers: int) -> None:
    """End the run where a test is red without any mutant: it would kill them all."""
    asked = {test for mutant in mutants for test in mutant.killed_by}
    tests = sorted(test for test in asked if "::" not in test or test.split("::")[0] not in asked)
    run = tree.pytest(tests, _BASELINE_LIMIT_S, "-n", str(workers), "--dist", "loadfile")
    if run.exit_code != 0:
        sys.exit(f"the tests are red without any mutant:\n{run.output}")


def run_all(mutants: Sequence[Mutant], workers: int) -> list[Outcome]:
    """Judge all, and print each as soon as it is known."""
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        trees: SimpleQueue[TreeCopy] = SimpleQueue()
        for number in range(workers):
            trees.put(TreeCopy(Path(directory, str(number))))
        tree = trees.get()
        check_the_copy(tree)
        check_without_bugs(tree, mutants, workers)
        trees.put(tree)

        def judge_in_some_copy(mutant: Mutant) -> Outcome:
            free = trees.get()
            try:
                return judge(free, mutant)
            finally:
                trees.put(free)

        with ThreadPoolExecutor(workers) as pool:
            for outcome in pool.map(judge_in_some_copy, mutants):
                print(outcome, flush=True)
                outcomes.append(outcome)
    return outcomes


def chosen(table: Sequence[Mutant], patterns: Sequence[str]) -> list[Mutant]:
    """The mutants of these parts or names, which may hold wildcards; all where none is given."""
    if not patterns:
        return list(table)
    mutants = [
        each
        for each in table
        if any(each.part == pattern or fnmatch.fnmatch(each.name, pattern) for pattern in patterns)
    ]
    if not mutants:
        sys.exit(f"no mutant, and no part, is called {' or '.join(patterns)}; --list tells their names")
    return mutants


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="parts, or mutants, where * stands for anything; all where none is named"
    )
    parser.add_argument("--list", action="store_true", help="tell the mutants and run nothing")
    parser.add_argument("--workers", type=int, default=2, help="how many at once; 2 unless told")
    options = parser.parse_args()
    mutants = chosen(read_table(), options.names)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.part}: {mutant.name}: {mutant.breaks} ({mutant.file})")
        return 0
    began = time.monotonic()
    outcomes = run_all(mutants, options.workers)
    counts = Counter(outcome.verdict for outcome in outcomes)
    summary = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    print(f"{len(outcomes)} mutants: {summary}, in {time.monotonic() - began:.0f} s")
    return 0 if all(outcome.verdict.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
