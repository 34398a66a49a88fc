"""The settings of a consumer as a member of a group, checked."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from hightide.argument_checks import checked_name
from hightide.errors import InvalidArgumentError
from hightide.v1 import coordinator_service_pb2
from hightide.v1.coordinator_service_pb2 import ConsumerRegistration, TopicStreams

Assignor = Literal["range", "roundrobin", "sticky"]

STREAMS_MAX: Final = 64

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_RESETS: Final = {
    "earliest": coordinator_service_pb2.OFFSET_RESET_SMALLEST,
    "latest": coordinator_service_pb2.OFFSET_RESET_LARGEST,
    "error": coordinator_service_pb2.OFFSET_RESET_ERROR,
}


def topic_streams(topics: Mapping[str, int] | Sequence[str] | str | None) -> dict[str, int]:
    """Topics with the number of streams of each ("topic count"): one, unless a mapping says otherwise. Raises
    InvalidArgumentError."""
    if topics is None:
        return {}
    if isinstance(topics, str):
        topics = (topics,)
    counts = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
    for topic, streams in counts.items():
        _check_streams(f"the number of streams of topic {checked_name('topic', topic)}", streams)
    return counts


def expressions(exclude: Sequence[str] | str) -> tuple[str, ...]:
    """The expressions of topics to leave out: sorted, each once. Raises InvalidArgumentError."""
    given = (exclude,) if isinstance(exclude, str) else exclude
    return tuple(sorted({checked_name("topic to exclude", each) for each in given}))


def _check_streams(what: str, streams: int) -> None:
    if not 1 <= streams <= STREAMS_MAX:
        raise InvalidArgumentError(f"{what} is {streams}; it may be 1 to {STREAMS_MAX}")


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The group settings that `Consumer` documents. The coordinator checks what only it knows: bounds of the
    session timeout, assignors, the syntax of patterns. Raises InvalidArgumentError, naming the setting, its
    value and the allowed values."""

    group: str
    topics: Mapping[str, int]
    pattern: str = ""
    pattern_streams: int = 1
    exclude: Sequence[str] = ()
    consumer_id: str = ""
    instance_id: str = ""
    auto_commit: bool = True
    commit_interval_ms: int = 5_000
    session_timeout_ms: int = 10_000
    assignor: str = ""
    offset_reset: str = "earliest"
    unavailable_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        for what, name, may_be_empty in (
            ("group", self.group, False),
            ("consumer_id", self.consumer_id, True),
            ("instance_id", self.instance_id, True),
        ):
            if not (_NAME.fullmatch(name) or (may_be_empty and not name)) or name in (".", ".."):
                raise InvalidArgumentError(
                    f"{what} is {name!r}; it may be 1 to 249 characters of [a-zA-Z0-9._-]"
                )
        if self.topics and self.pattern:
            raise InvalidArgumentError(
                f"group {self.group} is given both topics= and pattern=; give one of them"
            )
        if self.exclude and not self.pattern:
            raise InvalidArgumentError(
                f"exclude={list(self.exclude)} of group {self.group} needs a pattern; give pattern= too"
            )
        _check_streams("pattern_streams", self.pattern_streams)
        for name, value in (
            ("session_timeout_ms", self.session_timeout_ms),
            ("commit_interval_ms", self.commit_interval_ms),
        ):
            if not 1 <= value < 1 << 31:
                raise InvalidArgumentError(f"{name} is {value}; it may be 1 to {(1 << 31) - 1}")

    @property
    def is_subscribed(self) -> bool:
        """Whether there is anything to read."""
        return bool(self.topics or self.pattern)

    @property
    def stream_count(self) -> int:
        """Into how many streams this consumer divides what it reads: the most that one of its topics has."""
        return max(self.topics.values(), default=self.pattern_streams)

    def subscribed_to(
        self,
        topics: Mapping[str, int] | Sequence[str] | str | None,
        pattern: str | None,
        exclude: Sequence[str] | str,
        pattern_streams: int,
    ) -> "GroupSettings":
        """The same settings with another subscription. Raises InvalidArgumentError, also for none."""
        changed = replace(
            self,
            topics=topic_streams(topics),
            pattern=pattern or "",
            exclude=expressions(exclude),
            pattern_streams=pattern_streams,
        )
        if not changed.is_subscribed:
            raise InvalidArgumentError("subscribe() is given neither topics nor pattern=; give one of them")
        return changed

    def registration(self) -> ConsumerRegistration:
        """The registration, without the values that the member keeps from earlier ones."""
        return ConsumerRegistration(
            group=self.group,
            consumer_id=self.consumer_id,
            instance_id=self.instance_id,
            topics=[TopicStreams(topic=topic, streams=streams) for topic, streams in self.topics.items()],
            pattern=self.pattern,
            exclude=self.exclude,
            pattern_streams=self.pattern_streams if self.pattern else 0,
            auto_commit=self.auto_commit,
            offset_reset=_RESETS[self.offset_reset],
            session_timeout_ms=self.session_timeout_ms,
            assignor=self.assignor,
        )


def group_settings_of(
    *,
    group: str | None,
    topics: Mapping[str, int] | Sequence[str] | str | None,
    pattern: str | None,
    exclude: Sequence[str] | str,
    pattern_streams: int,
    consumer_id: str | None,
    instance_id: str | None,
    auto_commit: bool,
    commit_interval_ms: int,
    session_timeout_ms: int,
    assignor: Assignor | None,
    offset_reset: str,
    unavailable_timeout_ms: int,
) -> GroupSettings | None:
    """The settings of a consumer that was given a group, None for one without. Raises InvalidArgumentError,
    also if a setting is given that only applies to a group."""
    if group is None:
        for name, value in (
            ("pattern", pattern),
            ("exclude", exclude or None),
            ("consumer_id", consumer_id),
            ("instance_id", instance_id),
            ("assignor", assignor),
        ):
            if value is not None:
                raise InvalidArgumentError(f"{name}={value!r} needs a group; give group= too")
        return None
    return GroupSettings(
        group=group,
        topics=topic_streams(topics),
        pattern=pattern or "",
        exclude=expressions(exclude),
        pattern_streams=pattern_streams,
        consumer_id=consumer_id or "",
        instance_id=instance_id or "",
        auto_commit=auto_commit,
        commit_interval_ms=commit_interval_ms,
        session_timeout_ms=session_timeout_ms,
        assignor=assignor or "",
        offset_reset=offset_reset,
        unavailable_timeout_ms=unavailable_timeout_ms,
    )
