"""Runs of `hightide demo`, and the processes that they have."""

import sys
from pathlib import Path

import psutil

ROWS = 20_000


def demo_command(directory: Path, *, seconds: int) -> list[str]:
    settings = ["--rows", str(ROWS), "--seconds", str(seconds), "--directory", str(directory)]
    return [sys.executable, "-m", "hightide_cli.main", "demo", *settings]


def processes_of(directory: Path) -> list[str]:
    """Return the command lines that name the demo's directory."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(directory) in line:
            found.append(line)
    return found
