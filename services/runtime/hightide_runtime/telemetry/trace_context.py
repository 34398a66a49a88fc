"""The W3C traceparent of the task that runs, without OpenTelemetry: a string, and where it is kept.

A trace of the control plane has ids that follow from what it is about. So whoever finishes the work of a dead
process finds the same root without having been told, parents its spans to it, and may write the root as well:
readers take roots with one span id for one span.
"""

import hashlib
import re
import secrets
from contextvars import ContextVar
from typing import Final

METADATA_KEY = "traceparent"
_SHAPE = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_SAMPLED: Final = "01"
CURRENT: ContextVar[str] = ContextVar("hightide_traceparent", default="")


def current_traceparent() -> str:
    """The traceparent of the span in which this task runs; empty where there is none."""
    return CURRENT.get()


def traceparent_metadata() -> tuple[tuple[str, str], ...]:
    """The metadata of a call of the control plane, so that the other process joins the trace."""
    traceparent = CURRENT.get()
    return ((METADATA_KEY, traceparent),) if traceparent else ()


def is_traceparent(text: str) -> bool:
    """Whether a text from outside is a traceparent of version 00."""
    return _SHAPE.fullmatch(text) is not None


def root_traceparent(kind: str, cluster_id: str, *parts: str | int) -> str:
    """The root of the trace of a kind (`span_kinds`) about these parts. Every process computes the same
    one."""
    digest = hashlib.sha256()
    for part in (kind, cluster_id, *parts):
        text = str(part).encode()
        # With its length, so that no two lists of parts are the same bytes.
        digest.update(len(text).to_bytes(4, "big") + text)
    return _root_of(digest.digest()[:16].hex())


def new_root_traceparent() -> str:
    """The root of a trace that is about nothing that could be named again."""
    return _root_of(secrets.token_bytes(16).hex())


def is_root(traceparent: str) -> bool:
    """Whether one of the two functions above has made it: any process can carry its trace on."""
    return is_traceparent(traceparent) and _root_of(traceparent[3:35])[36:52] == traceparent[36:52]


def root_of(traceparent: str) -> str:
    """The root of the trace that a span of the control plane is in."""
    return _root_of(traceparent[3:35])


def trace_id_of(traceparent: str) -> str:
    """The trace id, 32 hexadecimal digits; empty where there is none."""
    return traceparent[3:35]


def _root_of(trace_id: str) -> str:
    span_id = hashlib.sha256(b"root" + bytes.fromhex(trace_id)).digest()[:8].hex()
    return f"00-{trace_id}-{span_id}-{_SAMPLED}"
