"""The W3C traceparent of the task that runs, without OpenTelemetry: a string, and where it is kept."""

import re
from contextvars import ContextVar

METADATA_KEY = "traceparent"
_SHAPE = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
CURRENT: ContextVar[str] = ContextVar("hightide_traceparent", default="")


def current_traceparent() -> str:
    """The traceparent of the span in which this task runs; empty where there is none."""
    return CURRENT.get()


def is_traceparent(text: str) -> bool:
    """Whether a text from outside is a traceparent of version 00."""
    return _SHAPE.fullmatch(text) is not None
