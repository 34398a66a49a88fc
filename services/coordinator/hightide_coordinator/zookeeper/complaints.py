"""Complaints about invalid znodes, each logged once. The znodes are left alone."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["Complaints"]

_log = logging.getLogger(__name__)

_REMEMBERED_MAX: Final = 10_000


class Complaints:
    """Logs each fault of a znode once, and again if the fault changes. One for each process."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def complain(self, path: str, reason: str, advice: str = "correct it or take it away") -> None:
        """Report that the content of this path cannot be decoded."""
        if self._told.get(path) == reason:
            return
        while len(self._told) >= _REMEMBERED_MAX:
            del self._told[next(iter(self._told))]
        self._told[path] = reason
        _log.error("%s: %s; it is left alone: %s", path, reason, advice)

    def settled(self, path: str) -> None:
        """Take note that it can be decoded now, or is gone."""
        if self._told.pop(path, None) is not None:
            _log.info("%s: the complaint is settled", path)
