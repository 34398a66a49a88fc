"""Options of the simulations: `--seed N` runs one schedule again, `--schedules N` runs as many as wanted."""

from __future__ import annotations

import pytest
from hypothesis import settings

# As for unit tests.
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption(
        "--seed", type=int, default=None, help="run this one random schedule, and print its story"
    )
    group.addoption("--schedules", type=int, default=None, help="how many random schedules to run")
    group.addoption("--first-seed", type=int, default=0, help="where the seeds begin")
    group.addoption("--rewrite", action="store_true", help="write the outcomes of the transcripts anew")
