"""Logs complaints about invalid znodes, each once. The znodes are not changed."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["Complaints"]

_log = logging.getLogger(__name__)

_REMEMBERED_MAX: Final = 10_000


class Complaints:
    """Logs each fault of a znode once, and again if the fault changes. One for each process."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}

    def complain(self, path: str, reason: str, advice: str = "correct it or delete it") -> None:
        """Log that the znode at this path cannot be decoded, with advice for the operator."""
        if self._logged.get(path) == reason:
            return
        while len(self._logged) >= _REMEMBERED_MAX:
            del self._logged[next(iter(self._logged))]
        self._logged[path] = reason
        _log.error("%s: %s; it is left alone: %s", path, reason, advice)

    def settled(self, path: str) -> None:
        """Take note that it can be decoded now, or no longer exists."""
        if self._logged.pop(path, None) is not None:
            _log.info("%s: the complaint is settled", path)
