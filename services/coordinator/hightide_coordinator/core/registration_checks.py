"""Checks of what comes from outside: registrations, names, offsets (consumer coordinator §7; C10)."""

from __future__ import annotations

from typing import Final

from hightide_runtime.znodes.topic_names import is_legal_topic_name

from hightide_coordinator.core.assignors import ASSIGNORS
from hightide_coordinator.core.events import OffsetCommit
from hightide_coordinator.core.state.descriptions import QuestionRefused
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import ConsumerPosition, Registration

__all__ = ["METADATA_CHARACTERS_MAX", "OFFSET_MAX", "check_commits", "check_positions", "check_registration"]

OFFSET_MAX: Final = (1 << 63) - 1
EPOCH_MAX: Final = (1 << 31) - 1
MEMBER_ID_CHARACTERS_MAX: Final = 249
METADATA_CHARACTERS_MAX: Final = 4_096
METADATA_BYTES_MAX: Final = 1 << 20
"""Bytes of all commits of one request, which are held in memory, stored and sent together."""
OWNED_MAX: Final = 100_000


def check_registration(limits: GroupLimits, registration: Registration) -> QuestionRefused | None:
    """The reason why a registration is refused, whatever the group's members are; None: it is not."""
    refused = _check_names(registration)
    if refused is not None:
        return refused
    timeout_ms = registration.session_timeout_ms
    if not limits.session_timeout_min_ms <= timeout_ms <= limits.session_timeout_max_ms:
        message = (
            f"session timeout {timeout_ms} ms of a consumer of group {registration.group!r} is not between "
            f"{limits.session_timeout_min_ms} and {limits.session_timeout_max_ms} ms; choose one that is"
        )
        return QuestionRefused(
            Refusal.INVALID_SESSION_TIMEOUT, message, {"session_timeout_ms": str(timeout_ms)}
        )
    if registration.assignor and registration.assignor not in ASSIGNORS:
        known = ", ".join(sorted(ASSIGNORS))
        message = f"assignor {registration.assignor[:250]!r} does not exist; there are {known}"
        return QuestionRefused(Refusal.UNKNOWN_ASSIGNOR, message, {"assignor": registration.assignor[:250]})
    return _check_subscription(limits, registration) or _check_owned(registration)


def _check_names(registration: Registration) -> QuestionRefused | None:
    for what, name in (
        ("group", registration.group),
        ("consumer id", registration.consumer_id),
        ("instance id", registration.instance_id),
    ):
        if (name or what == "group") and not is_legal_topic_name(name):
            message = f"{what} {name[:250]!r} is not 1 to 249 characters of [a-zA-Z0-9._-]"
            return QuestionRefused(Refusal.INVALID_GROUP_NAME, message, {"name": name[:250]})
    if len(registration.member_id) > MEMBER_ID_CHARACTERS_MAX:
        message = (
            f"a member id has at most {MEMBER_ID_CHARACTERS_MAX} characters; send the one that the "
            "coordinator gave"
        )
        return QuestionRefused(Refusal.INVALID_REQUEST, message, {"group": registration.group})
    return None


def _check_subscription(limits: GroupLimits, registration: Registration) -> QuestionRefused | None:
    metadata = {"group": registration.group}
    if bool(registration.topics) == bool(registration.pattern):
        message = f"a consumer of group {registration.group!r} must name either topics or a pattern"
        return QuestionRefused(Refusal.INVALID_REQUEST, message, metadata)
    if registration.exclude and not registration.pattern:
        message = (
            f"a consumer of group {registration.group!r} excludes topics and names no pattern; leave out of "
            "the topics what it does not read"
        )
        return QuestionRefused(Refusal.INVALID_REQUEST, message, metadata)
    if len(registration.topics) > limits.topics_per_consumer_max:
        message = (
            f"{len(registration.topics)} topics are more than the {limits.topics_per_consumer_max} that one "
            f"consumer may name; use a pattern, or several consumers"
        )
        return QuestionRefused(Refusal.LIMIT_EXCEEDED, message, metadata)
    streams = (
        registration.topics if registration.topics else {registration.pattern: registration.pattern_streams}
    )
    for topic, count in streams.items():
        if not registration.pattern and not is_legal_topic_name(topic):
            message = f"topic {topic[:250]!r} is not 1 to 249 characters of [a-zA-Z0-9._-]"
            return QuestionRefused(Refusal.INVALID_TOPIC_NAME, message, {"topic": topic[:250]})
        if not 1 <= count <= limits.streams_max:
            message = f"{count} streams of {topic[:250]!r} are not between 1 and {limits.streams_max}"
            return QuestionRefused(Refusal.INVALID_REQUEST, message, metadata)
    return None


def _check_owned(registration: Registration) -> QuestionRefused | None:
    if len(registration.owned) > OWNED_MAX:
        message = f"{len(registration.owned)} partitions are more than a consumer can own ({OWNED_MAX})"
        return QuestionRefused(Refusal.LIMIT_EXCEEDED, message, {"group": registration.group})
    return None


def check_positions(positions: tuple[ConsumerPosition, ...]) -> str:
    """What is wrong with the positions in an answer; empty: nothing."""
    for position in positions:
        if not 0 <= position.offset <= OFFSET_MAX or not -1 <= position.leader_epoch <= EPOCH_MAX:
            return (
                f"position {position.offset} (leader epoch {position.leader_epoch}) of "
                f"{position.name.topic}/{position.name.partition} is no offset"
            )
    return ""


def check_commits(
    limits: GroupLimits, group: str, commits: tuple[OffsetCommit, ...], sequence: int = 0
) -> QuestionRefused | None:
    """The reason why a CommitOffsets or ResetOffsets is refused as a whole; None: its items are checked."""
    metadata = {"group": group[:250]}
    if not is_legal_topic_name(group):
        message = f"group {group[:250]!r} is not 1 to 249 characters of [a-zA-Z0-9._-]"
        return QuestionRefused(Refusal.INVALID_GROUP_NAME, message, metadata)
    if len(commits) > limits.commits_per_request_max:
        message = f"{len(commits)} offsets are more than the {limits.commits_per_request_max} of one request"
        return QuestionRefused(Refusal.LIMIT_EXCEEDED, message, metadata)
    if len({commit.name for commit in commits}) != len(commits):
        message = f"a request for group {group!r} names a partition twice; name each once"
        return QuestionRefused(Refusal.INVALID_REQUEST, message, metadata)
    if sequence < 0:
        message = f"{sequence} numbers no request for group {group!r}: they count from 1, and 0 is for none"
        return QuestionRefused(Refusal.INVALID_REQUEST, message, metadata)
    for commit in commits:
        where = f"{commit.name.topic[:250]}/{commit.name.partition}"
        if not 0 <= commit.offset <= OFFSET_MAX or not -1 <= commit.leader_epoch <= EPOCH_MAX:
            message = f"{commit.offset} (leader epoch {commit.leader_epoch}) is no offset of {where}"
            return QuestionRefused(Refusal.INVALID_REQUEST, message, metadata)
        if len(commit.metadata) > METADATA_CHARACTERS_MAX:
            message = f"the metadata of {where} has more than {METADATA_CHARACTERS_MAX} characters"
            return QuestionRefused(Refusal.INVALID_REQUEST, message, metadata)
    size = sum(len(commit.metadata.encode()) for commit in commits if commit.metadata)
    if size > METADATA_BYTES_MAX:
        message = (
            f"{size} bytes of metadata are more than the {METADATA_BYTES_MAX} of one request for group "
            f"{group!r}; commit fewer partitions at a time, or keep less with them"
        )
        return QuestionRefused(Refusal.LIMIT_EXCEEDED, message, metadata)
    return None


def check_offset_deletion(limits: GroupLimits, group: str, topics: tuple[str, ...]) -> QuestionRefused | None:
    """The reason why a DeleteOffsets is refused; None: it is not, as far as can be seen without the group."""
    metadata = {"group": group[:250]}
    if not is_legal_topic_name(group):
        message = f"group {group[:250]!r} is not 1 to 249 characters of [a-zA-Z0-9._-]"
        return QuestionRefused(Refusal.INVALID_GROUP_NAME, message, metadata)
    if len(topics) > limits.topics_per_deletion_max:
        message = f"{len(topics)} topics are more than the {limits.topics_per_deletion_max} of one request"
        return QuestionRefused(Refusal.LIMIT_EXCEEDED, message, metadata)
    if not topics or len(set(topics)) != len(topics):
        message = f"name the topics of which the offsets of group {group!r} are to be deleted, each once"
        return QuestionRefused(Refusal.INVALID_REQUEST, message, metadata)
    for topic in topics:
        if not is_legal_topic_name(topic):
            message = f"topic {topic[:250]!r} is not 1 to 249 characters of [a-zA-Z0-9._-]"
            return QuestionRefused(Refusal.INVALID_TOPIC_NAME, message, {"topic": topic[:250]})
    return None
