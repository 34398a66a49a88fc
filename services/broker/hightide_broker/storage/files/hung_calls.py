"""Notices a call to a disk that does not return: the thread that made it cannot.

Theory of operation. Each call of `Files` is known while it is under way, by thread: one entry in a dict, some
0.2 us a call. Another thread looks once a second and adds up for how long it has seen the same call. So
single calls of the operating system are measured: a recovery or a retention that takes minutes makes many,
and never counts as hung. A look that comes late counts as if it was on time, since the whole process was
paused then.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from hightide_broker.storage.files.files import Files

__all__ = ["CallsUnderWay", "HungCall"]

LOOK_MAX_S: Final = 2.0
_METHODS: Final = tuple(name for name in vars(Files) if not name.startswith("_"))
_AT_A_POSITION: Final = ("write_at", "read_at")


class HungCall(NamedTuple):
    """A call that is under way for too long."""

    call: str
    seen_for_s: float


class CallsUnderWay:
    """The calls to one disk. `files` is used by any thread, `look` by one."""

    def __init__(self) -> None:
        # By thread, the name of the call in a list that is made for it: two calls of a name are two lists.
        self._under_way: dict[int, list[str]] = {}
        self._seen: dict[int, tuple[list[str], float]] = {}

    def of(self, files: Files) -> Files:
        """The same files, with their calls recorded from now on."""
        watched = {name: self._watched(name, getattr(files, name)) for name in _METHODS}
        watched |= {name: self._watched_at(name, getattr(files, name)) for name in _AT_A_POSITION}
        return cast(Files, SimpleNamespace(**watched))

    def _watched(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        under_way = self._under_way

        def call(*arguments: Any, **named: Any) -> Any:
            thread = get_ident()
            under_way[thread] = [name]
            try:
                return method(*arguments, **named)
            finally:
                del under_way[thread]

        return call

    def _watched_at(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """A recorded form of the methods that each append and read calls, without packing the arguments."""
        under_way = self._under_way

        def call(fd: int, what: Any, position: int) -> Any:
            thread = get_ident()
            under_way[thread] = [name]
            try:
                return method(fd, what, position)
            finally:
                del under_way[thread]

        return call

    def look(self, passed_s: float, limit_s: float) -> list[HungCall]:
        """The calls that were seen for longer than the limit, the longest first. `passed_s`: since the last
        look."""
        counted_s = min(passed_s, LOOK_MAX_S)
        seen: dict[int, tuple[list[str], float]] = {}
        for thread, call in tuple(self._under_way.items()):
            before, seen_for_s = self._seen.get(thread, (call, -counted_s))
            seen[thread] = (call, seen_for_s + counted_s if before is call else 0.0)
        self._seen = seen
        hung = [HungCall(name, seen_for_s) for (name,), seen_for_s in seen.values() if seen_for_s > limit_s]
        return sorted(hung, key=lambda each: -each.seen_for_s)
