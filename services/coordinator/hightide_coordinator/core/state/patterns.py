"""Subscriptions by pattern (§6, §7): RE2 expressions that are matched against whole topic names.

RE2 is used instead of `re` because patterns come from outside: RE2 takes linear time and bounded memory for
any pattern.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import re2
from hightide_runtime.znodes.topic_names import is_legal_topic_name

__all__ = ["InvalidPattern", "TopicPattern", "compile_pattern"]

PROGRAM_MEMORY_BYTES_MAX: Final = 1 << 20
"""The memory of a compiled pattern and its automaton."""


class InvalidPattern(Exception):
    """The pattern does not compile; `reason` says why."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"pattern {pattern[:200]!r} is no RE2 expression: {reason}; see RE2's syntax")
        self.pattern = pattern
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """A compiled pattern; `compile_pattern` makes it."""

    text: str
    _compiled: Any

    def matches(self, topic: str) -> bool:
        """Whether the pattern matches the whole name; never for a name that no topic may have."""
        return is_legal_topic_name(topic) and self._compiled.fullmatch(topic) is not None

    def matching(self, topics: Iterable[str]) -> frozenset[str]:
        """Those of the topics that match."""
        return frozenset(topic for topic in topics if self.matches(topic))


def compile_pattern(pattern: str, characters_max: int = 1_000) -> TopicPattern:
    """Compile a consumer's pattern; called when it registers. Raises InvalidPattern."""
    if not pattern:
        raise InvalidPattern(pattern, "it is empty")
    if len(pattern) > characters_max:
        raise InvalidPattern(pattern, f"it has {len(pattern)} characters, more than {characters_max}")
    options = re2.Options()
    options.max_mem = PROGRAM_MEMORY_BYTES_MAX
    options.log_errors = False
    options.never_capture = True
    try:
        return TopicPattern(pattern, re2.compile(pattern, options))
    except UnicodeEncodeError as error:
        raise InvalidPattern(pattern, "it is not valid Unicode") from error
    except re2.error as error:
        raise InvalidPattern(pattern, _reason(error)) from error


def _reason(error: Exception) -> str:
    told = error.args[0] if error.args else "it does not compile"
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)
