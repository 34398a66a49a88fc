"""Logging to stderr, one line for each event: for people, or as JSON for programs."""

import enum
import json
import logging
import re
import sys
import time

from hightide_runtime.telemetry.trace_context import current_traceparent


class LogFormat(enum.StrEnum):
    """How an event is written."""

    TEXT = "text"
    """A line for people: time, level, process, logger, message; a traceback on lines of its own."""
    JSON = "json"
    """A JSON object on one line, for programs that collect logs."""


_GRPC = "grpc._cython.cygrpc"
_FAULTS_OF_CALLERS = frozenset({"ExecuteBatchError", "DecodeError"})
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


class _JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object, in ASCII, on one line. docs/operating.md names its fields."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """The record as an object. Called within the task that logs, whose span it names."""
        # 2026-01-05T10:00:00.123456Z
        seconds, microseconds = divmod(round(record.created * 1_000_000), 1_000_000)
        document = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{microseconds:06d}Z",
            "level": record.levelname,
            "service": self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        if traceparent := current_traceparent():
            document["trace_id"] = traceparent.split("-")[1]
        return json.dumps(document)


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Whether a record is written. gRPC logs a traceback if a caller has gone before its error could be
    sent, and if what it sent to Health is no message. Neither is our fault, and anybody could fill a disk
    with it."""
    kind = record.exc_info[0] if record.exc_info else None
    return record.name != _GRPC or kind is None or kind.__name__ not in _FAULTS_OF_CALLERS


def set_up_logging(level: str, process: str, log_format: LogFormat = LogFormat.TEXT) -> None:
    """Send the root logger to stderr: time (UTC), level, process name, logger, message. Mains call it once.

    Line breaks and control characters in a message are escaped, so that no client can forge a line.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter(process) if log_format is LogFormat.JSON else _LineFormatter(process))
    handler.addFilter(_is_worth_a_line)
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _escaped(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")
