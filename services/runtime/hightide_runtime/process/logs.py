"""Logging to stderr, one line for each event."""

import logging
import re
import sys
import time

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class _LineFormatter(logging.Formatter):
    """Formats a record as one line; a traceback follows on lines that begin with two spaces."""

    def __init__(self, process: str) -> None:
        super().__init__(
            f"%(asctime)s.%(msecs)03dZ %(levelname)s {process} %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
        )
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        """The record as text. Text from clients cannot look like another record."""
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        record.message = _CONTROL_CHARACTERS.sub(_escaped, record.getMessage())
        record.asctime = self.formatTime(record, self.datefmt)
        line = self.formatMessage(record)
        return "\n  ".join([line, *trace.splitlines()])


def set_up_logging(level: str, process: str) -> None:
    """Send the root logger to stderr: time (UTC), level, process name, logger, message. Mains call it once.

    Line breaks and control characters in a message are escaped, so that no client can forge a line.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter(process))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _escaped(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")
