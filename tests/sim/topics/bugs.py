"""What a process logs as a bug: shells go on after one, a simulation does not."""

from __future__ import annotations

import logging
from typing import Final

LOGGERS: Final = ("hightide_broker", "hightide_controller", "asyncio")


class Bugs(logging.Handler):
    """Hears what is logged with a traceback, and keeps the rest to itself."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self._before = [(each.level, each.propagate) for each in map(logging.getLogger, LOGGERS)]
        for each in map(logging.getLogger, LOGGERS):
            each.addHandler(self)
            each.propagate = False
            each.setLevel(logging.ERROR)

    def emit(self, record: logging.LogRecord) -> None:
        """A line."""
        if record.exc_info:
            self.found.append(logging.Formatter().format(record))

    def close(self) -> None:
        """Hear no more."""
        for each, (level, propagate) in zip(map(logging.getLogger, LOGGERS), self._before, strict=True):
            each.removeHandler(self)
            each.setLevel(level)
            each.propagate = propagate
        super().close()
