"""Sentences about thousands of names: the first few, and the number of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["NAMED_MAX", "first_few"]

NAMED_MAX: Final = 3


def first_few(names: Sequence[str]) -> str:
    """`a, b, c and 2997 more`."""
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
