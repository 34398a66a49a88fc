"""The audit log: one JSON line for each administrative call, and for each call that is refused.

The lines go to the logger `hightide.audit`, whatever `--log-level` says. docs/security.md describes them.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from hightide_runtime.access.principals import Principal
from hightide_runtime.access.rules import AccessRule
from hightide_runtime.access.subjects import CHARACTERS_MAX

DENIALS_MAX: Final = 100
"""So many denials have lines of their own within a second; the rest are counted."""
WINDOW_S: Final = 1.0
_log = logging.getLogger("hightide.audit")
_log.setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """The facts of a call that its line tells."""

    caller: Principal
    #: As gRPC writes it: `ipv4:127.0.0.1:50144`.
    peer: str
    #: internal or external.
    listener: str
    #: /hightide.v1.ControllerService/CreateTopic
    method: str
    rule: AccessRule
    #: The trace id of the caller, 32 hexadecimal digits; empty if there is none.
    trace_id: str

    def document(self) -> dict[str, Any]:
        """What both kinds of lines begin with."""
        return {
            "who": str(self.caller),
            "from": unquote(self.peer),
            "listener": self.listener,
            "method": self.method,
            "operation": self.rule.operation,
            "resource": self.rule.resource_type,
            **({"trace": self.trace_id} if self.trace_id else {}),
        }


class AuditLog:
    """The audit log of one server. A flood of refused calls costs it at most 100 lines a second, and one that
    says how many more there were."""

    def __init__(self, call_later: Callable[[float, Callable[[], object]], object]) -> None:
        """`call_later`: that of the event loop."""
        self._call_later = call_later
        #: Which denials have had a line in the current second; empty: there is no current second.
        self._told: set[tuple[str, str, str, str]] = set()
        self._suppressed = 0

    def allowed(
        self, call: AuditedCall, subjects: list[str], more_subjects: int, is_trial: bool, outcome: str
    ) -> None:
        """Write the line of an administrative call that has ended. `outcome`: OK, or its error's reason."""
        document = call.document() | {"allowed": True, "outcome": outcome}
        if subjects:
            document["subjects"] = subjects
        if more_subjects:
            document["more_subjects"] = more_subjects
        if is_trial:
            document["validate_only"] = True
        _log.info("%s", json.dumps(document))

    def denied(self, call: AuditedCall, why: str, resource: str = "") -> None:
        """Write the line of a call that is refused, wholly or for one thing that it names (`resource`). If
        the same caller on the same host repeats it within a second, it is only counted."""
        if not self._told:
            self._call_later(WINDOW_S, self._end_second)
        host = call.peer.rpartition(":")[0]
        resource = resource[:CHARACTERS_MAX]
        key = (str(call.caller), host, call.method, resource)
        if key in self._told or len(self._told) >= DENIALS_MAX:
            self._suppressed += 1
            return
        self._told.add(key)
        named = {"resource_name": resource} if resource else {}
        _log.warning("%s", json.dumps(call.document() | named | {"allowed": False, "why": why}))

    def _end_second(self) -> None:
        """Say how many denials had no line of their own."""
        if self._suppressed:
            _log.warning("%s", json.dumps({"allowed": False, "suppressed": self._suppressed}))
        self._suppressed = 0
        self._told.clear()
