"""Which random schedules a simulation runs: a few in `make test`, one again by `--seed N`, any number by
`--schedules N --first-seed M`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

import pytest

SHARES: Final = 10
"""So that xdist can run them side by side."""


class Walk(Protocol):
    """One random schedule, made from its seed."""

    def run(self) -> object:
        """Run it; raises where an invariant breaks."""
        ...


W = TypeVar("W", bound=Walk)


def run_share(
    walk: Callable[[int], W],
    story: Callable[[W], Iterable[str]],
    share: int,
    smoke: int,
    config: pytest.Config,
    take_apart: Callable[[W], None] = lambda _: None,
) -> None:
    """Run the schedules of one share: of `smoke` in all, unless the command line says otherwise. What has run
    well is taken apart, so that its memory is free for the next."""
    seed = config.getoption("--seed", default=None)
    if seed is not None:
        if share == 0:
            _run(walk, seed, story)
        return
    count = config.getoption("--schedules", default=None) or smoke
    first = config.getoption("--first-seed", default=0)
    for number in range(first + share, first + count, SHARES):
        take_apart(_run(walk, number, None))


def _run(walk: Callable[[int], W], seed: int, story: Callable[[W], Iterable[str]] | None) -> W:
    """Where it fails, its seed is what to tell."""
    made = walk(seed)
    try:
        made.run()
    except Exception as error:
        error.add_note(f"this was --seed {seed}")
        raise
    finally:
        if story is not None:
            print("\n".join(story(made)))
    return made
