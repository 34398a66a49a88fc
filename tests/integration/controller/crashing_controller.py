"""The controller, with points at which a test makes its process die: its own main with another shell.

Run as a program with the flags of `hightide-controller`. The file that CRASH_PLAN names holds a line: `before
KIND N` (the N-th effect or event of that kind from then on, about to be acted upon) or `after KIND N` (just
acted upon). Whoever comes to that point takes the file away and is gone as by SIGKILL, so that of several
controllers one dies, once. Without the file nobody does.

    before StoreWrites 1     decided, and not written down
    before StoreCommitted 1  written down, and nobody told: V3's gap between step 3 and step 4
    after SendLeaderAndIsr 1 handed over, and perhaps on its way

With `SIGSTOP` behind it the process stands still there instead, to go on by SIGCONT when it was replaced.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import hightide_controller.main as controller
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.shell import ControllerShell

CRASH_PLAN = "HIGHTIDE_TEST_CRASH_PLAN"


def plan_crash(plan: Path, point: str) -> None:
    """Have a controller die at this point. Whole at once: controllers read the file at each step."""
    new = plan.with_suffix(".new")
    new.write_text(point)
    new.rename(plan)


class CrashingShell(ControllerShell):
    """Counts what it comes by, and dies where the plan says so."""

    _seen = 0

    def _take(self, event: ev.Event, arrived_us: int) -> None:
        self._pass("before", event)
        super()._take(event, arrived_us)
        self._pass("after", event)

    def _perform(self, effect: ef.Effect) -> None:
        self._pass("before", effect)
        super()._perform(effect)
        self._pass("after", effect)

    def _pass(self, moment: str, step: ev.Event | ef.Effect) -> None:
        plan = Path(os.environ[CRASH_PLAN])
        try:
            when, kind, nth, *sent = plan.read_text().split()
        except FileNotFoundError:
            CrashingShell._seen = 0
            return
        if (when, kind) != (moment, type(step).__name__):
            return
        CrashingShell._seen += 1
        if CrashingShell._seen == int(nth):
            try:
                plan.unlink()
            except FileNotFoundError:
                return  # Another controller came to that point at the same moment.
            os.kill(os.getpid(), signal.Signals[sent[0]] if sent else signal.SIGKILL)


if __name__ == "__main__":
    # Main must use this name, or else no controller would die.
    assert controller.ControllerShell is ControllerShell  # type: ignore[attr-defined]
    controller.ControllerShell = CrashingShell  # type: ignore[attr-defined]
    controller.main()
