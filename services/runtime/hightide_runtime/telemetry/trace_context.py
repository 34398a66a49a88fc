"""The W3C traceparent of the running task, as a string, without OpenTelemetry.

The ids of the control plane's traces are computed from their subjects. So a process that finishes the work of
a dead one computes the same root, makes it the parent of its spans, and may write the root again. Readers
merge roots with the same span id.
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
    """The traceparent of the span in which this task runs; empty if there is none."""
    return CURRENT.get()


def traceparent_metadata() -> tuple[tuple[str, str], ...]:
    """The metadata for a call of the control plane, by which the other process joins the trace."""
    traceparent = CURRENT.get()
    return ((METADATA_KEY, traceparent),) if traceparent else ()


def is_traceparent(text: str) -> bool:
    """Whether a text is a traceparent of version 00. Checks input from outside."""
    return _SHAPE.fullmatch(text) is not None


def root_traceparent(kind: str, cluster_id: str, *parts: str | int) -> str:
    """The traceparent of the root for this kind of traces (`span_kinds`) and this subject. Every process
    computes the same one."""
    digest = hashlib.sha256()
    for part in (kind, cluster_id, *parts):
        text = str(part).encode()
        # The length distinguishes lists of parts whose texts are the same when joined.
        digest.update(len(text).to_bytes(4, "big") + text)
    return _root_of(digest.digest()[:16].hex())


def new_root_traceparent() -> str:
    """A random traceparent of a root, for a trace whose subject has no unique name."""
    return _root_of(secrets.token_bytes(16).hex())


def is_root(traceparent: str) -> bool:
    """Whether this is the traceparent of a root that one of the two functions above has made, so that any
    process can continue its trace."""
    return is_traceparent(traceparent) and _root_of(traceparent[3:35])[36:52] == traceparent[36:52]


def root_of(traceparent: str) -> str:
    """The traceparent of the root of the trace in which a span of the control plane is."""
    return _root_of(traceparent[3:35])


def trace_id_of(traceparent: str) -> str:
    """The trace id of a traceparent, 32 hexadecimal digits; empty if the traceparent is."""
    return traceparent[3:35]


def _root_of(trace_id: str) -> str:
    span_id = hashlib.sha256(b"root" + bytes.fromhex(trace_id)).digest()[:8].hex()
    return f"00-{trace_id}-{span_id}-{_SAMPLED}"
