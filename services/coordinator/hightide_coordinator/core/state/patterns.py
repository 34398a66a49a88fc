"""Subscriptions by pattern (§6, §7): RE2 expressions that are matched against whole topic names. RE2 has no
expression for "and not", so that a subscription may have a list of exclusions beside its pattern.

RE2 is used instead of `re` because patterns come from outside: RE2 takes linear time and bounded memory for
any pattern.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import re2
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from msgspec import Struct

from hightide_coordinator.core.values.registration import TopicFilter

__all__ = ["InvalidPattern", "TopicPattern", "compile_pattern"]

PROGRAM_MEMORY_BYTES_MAX: Final = 1 << 20
"""The memory of a compiled pattern and its automaton."""


class InvalidPattern(Exception):
    """The pattern does not compile; `reason` says why."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"pattern {pattern[:200]!r} is no RE2 expression: {reason}; see RE2's syntax")
        self.pattern = pattern
        self.reason = reason


class TopicPattern(Struct, frozen=True):
    """A compiled pattern with its exclusions; `compile_pattern` makes it."""

    wanted: TopicFilter
    _compiled: Any
    _excluded: Any

    def matches(self, topic: str) -> bool:
        """Whether the pattern, and no exclusion, matches the whole name; never for a name that no topic may
        have."""
        return (
            is_legal_topic_name(topic)
            and self._compiled.fullmatch(topic) is not None
            and (self._excluded is None or self._excluded.fullmatch(topic) is None)
        )

    def matching(self, topics: Iterable[str]) -> frozenset[str]:
        """Those of the topics that match."""
        return frozenset(topic for topic in topics if self.matches(topic))


def compile_pattern(wanted: TopicFilter, characters_max: int = 1_000) -> TopicPattern:
    """Compile a consumer's pattern and its exclusions, which may have so many characters altogether; called
    when it registers. Raises InvalidPattern."""
    length = sum(map(len, (wanted.pattern, *wanted.exclude)))
    if length > characters_max:
        also = " with its exclusions" if wanted.exclude else ""
        raise InvalidPattern(wanted.pattern, f"it has{also} {length} characters, more than {characters_max}")
    compiled = _compile(wanted.pattern)
    for each in wanted.exclude:
        _compile(each)
    # One automaton for all of them: their number takes no more memory.
    excluded = _compile("|".join(f"(?:{each})" for each in wanted.exclude)) if wanted.exclude else None
    return TopicPattern(wanted, compiled, excluded)


def _compile(pattern: str) -> Any:
    if not pattern:
        raise InvalidPattern(pattern, "it is empty")
    options = re2.Options()
    options.max_mem = PROGRAM_MEMORY_BYTES_MAX
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise InvalidPattern(pattern, "it is not valid Unicode") from error
    except re2.error as error:
        raise InvalidPattern(pattern, _reason(error)) from error


def _reason(error: Exception) -> str:
    told = error.args[0] if error.args else "it does not compile"
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)
