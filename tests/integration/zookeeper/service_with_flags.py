"""A service with more flags than its cluster gives it: those in a file, read when it starts.

Run as a program: the module of the service, the file, and the flags of the service. So a test restarts the
services of a running cluster with other settings. Flags in the file take the place of those on the line.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path


def pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """Each flag with its value: all of them have one here."""
    assert len(words) % 2 == 0, words
    return list(zip(words[::2], words[1::2], strict=True))


if __name__ == "__main__":
    module, file, *given = sys.argv[1:]
    more = pairs(Path(file).read_text().split())
    replaced = {flag for flag, _ in more}
    kept = [pair for pair in pairs(given) if pair[0] not in replaced]
    sys.argv[1:] = [word for pair in (*kept, *more) for word in pair]
    importlib.import_module(module).main()
