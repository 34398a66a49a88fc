"""Which topics of a request or an answer the caller may use or know, if the cluster has ACLs.

The access interceptor has checked what the caller may do to the group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import Message
from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.access.call_access import CallAccess, current_access, why_not
from hightide_runtime.errors import ServiceError

__all__ = [
    "ReadingRights",
    "answer_permitted",
    "hide_topics",
    "literal_head",
    "reading_rights",
    "refuse_unless_permitted",
]

Result = TypeVar("Result", bound=Message)
_ORDINARY: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_ESCAPED: Final = frozenset(".-_")
_REPEATS: Final = frozenset("*?{")


async def answer_permitted(
    entries: Sequence[pb.OffsetCommit],
    answer: Callable[[Sequence[pb.OffsetCommit]], Awaitable[Sequence[Result]]],
    refuse: Callable[[pb.OffsetCommit, ErrorCode.ValueType, str], Result],
) -> Sequence[Result]:
    """The results of those entries whose topic the caller may read, and a refusal for each of the others, in
    the order of the request."""
    access = current_access()
    if access is None:
        return await answer(entries)
    refusals = {topic: access.refused("read", topic) for topic in {each.topic for each in entries}}
    permitted = [each for each in entries if refusals[each.topic] is None]
    answers = iter(await answer(permitted) if permitted else ())
    results = []
    for each in entries:
        code = refusals[each.topic]
        results.append(next(answers) if code is None else refuse(each, code, _why(access, each.topic, code)))
    return results


def _why(access: CallAccess, topic: str, code: ErrorCode.ValueType) -> str:
    if code == ErrorCode.ERROR_CODE_UNKNOWN_TOPIC:
        return f"topic {topic[:250]!r} does not exist"
    return why_not(access.principal, "read", "topic", topic)


def refuse_unless_permitted(topics: Iterable[str]) -> None:
    """Raise NOT_AUTHORIZED, whether or not they exist, unless the caller may read all of these topics."""
    access = current_access()
    if access is None:
        return
    for topic in topics:
        if (refusal := access.not_authorised("read", "topic", topic)) is not None:
            raise refusal


def hide_topics(group: pb.DescribeGroupResponse) -> pb.DescribeGroupResponse:
    """Leave out what the description of a group tells of topics that the caller may not know of."""
    access = current_access()
    if access is None:
        return group
    seen = [topic for topic in group.topics if access.sees(topic)]
    group.topics[:] = seen
    _keep(group.offsets, access)
    for member in group.members:
        _keep(member.topics, access)
        _keep(member.partitions, access)
    return group


def _keep(entries: Any, access: CallAccess) -> None:
    kept = [each for each in entries if access.sees(each.topic)]
    del entries[:]
    entries.extend(kept)


def reading_rights(registration: pb.ConsumerRegistration) -> ReadingRights | None:
    """What a registration needs the ACLs to allow its caller; None: there are none."""
    access = current_access()
    return None if access is None else ReadingRights(access, registration)


class ReadingRights:
    """What a consumer's registration asks for, to be looked at again whenever the ACLs change."""

    __slots__ = ("_access", "_group", "_pattern_head", "_topics")

    def __init__(self, access: CallAccess, registration: pb.ConsumerRegistration) -> None:
        self._access = access
        self._group = registration.group
        self._topics = tuple(each.topic for each in registration.topics)
        self._pattern_head = literal_head(registration.pattern) if registration.pattern else None

    def missing(self) -> ServiceError | None:
        """The error for a consumer that may not read what it asks for; None: it may read all of it. It does
        not depend on which topics exist. A pattern may match any topic that begins as it does, also later."""
        refusal = self._access.not_authorised("read", "group", self._group)
        for topic in self._topics:
            refusal = refusal or self._access.not_authorised("read", "topic", topic)
        head = self._pattern_head
        if refusal is None and head is not None and not self._access.reads_all(head):
            return self._access.denied("read", "topic", f"{head}*")
        return refusal


def literal_head(pattern: str) -> str:
    """The text with which every topic begins that an RE2 expression matches as a whole. It may be shorter
    than could be known."""
    if "|" in pattern:
        return ""
    head: list[str] = []
    rest = pattern.removeprefix("^")
    place = 0
    while place < len(rest):
        if rest[place] in _ORDINARY:
            head.append(rest[place])
            place += 1
        elif rest[place] == "\\" and rest[place + 1 : place + 2] in _ESCAPED:
            head.append(rest[place + 1])
            place += 2
        else:
            break
        if rest[place : place + 1] in _REPEATS:
            # The character before may be missing.
            head.pop()
            break
    return "".join(head)
