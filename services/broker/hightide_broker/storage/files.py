"""The operating system's files, as storage sees them: the one seam at which tests make a disk fail or lose
writes."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Files"]


class Files(Protocol):
    """The file calls that storage makes."""
