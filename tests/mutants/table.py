"""The table of mutants: one-line bugs in lines that keep records safe, each of which a test must see.

One TOML file a part of the product, beside this module; CONTRIBUTING.md says how to add a mutant. Read by
`mutants.run`, which puts each into a copy of the tree, and by tests/unit/test_mutants.py.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["ROOT", "Mutant", "Stale", "read_table"]

ROOT: Final = Path(__file__).resolve().parents[2]


class Stale(Exception):
    """A mutant does not apply any more."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug."""

    part: str
    """Of the product; the name of its TOML file."""
    name: str
    file: str
    """Where it is, from the root of the tree."""
    text: str
    """What stands there, exactly once."""
    becomes: str
    """What stands there with the bug."""
    breaks: str
    """The rule that it breaks, in a sentence."""
    killed_by: tuple[str, ...]
    """What pytest is given: files of tests, or node ids. One of these tests must go red."""
    equivalent: str = ""
    """Why no test can see it; empty for all others."""
    limit_s: int = 180
    """How long its tests may take, on a busy machine too. What hangs for longer counts as seen by none."""

    def put_into(self, tree: Path) -> str:
        """The whole file with the bug; nothing is written. Raises Stale."""
        path = tree / self.file
        if not path.is_file():
            raise Stale(f"{self.file} is not there")
        source = path.read_text()
        if (count := source.count(self.text)) != 1:
            raise Stale(f"its text stands {count} times in {self.file}; it must stand there once")
        return source.replace(self.text, self.becomes)


def read_table() -> tuple[Mutant, ...]:
    """All mutants, in the order of the files and within them. Raises TypeError where a key is unknown or is
    missing."""
    return tuple(
        _mutant(path.stem, each)
        for path in sorted(Path(__file__).parent.glob("*.toml"))
        for each in tomllib.loads(path.read_text())["mutant"]
    )


def _mutant(part: str, entry: dict[str, Any]) -> Mutant:
    killed_by = tuple(entry.pop("killed_by"))
    return Mutant(part=part, killed_by=killed_by, **entry)
