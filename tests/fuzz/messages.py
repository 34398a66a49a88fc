"""Requests for any method, by its descriptor: valid ones that name what is there, and mutants of their bytes.

A `MessageMaker` draws from a seeded `Random` and from `LiveIds`. The same seed and the same ids give the same
requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

DEPTH_MAX: Final = 4
PARTITIONS_MAX: Final = 8
"""A request that would create more is not sent: thousands of real partitions would be all that a run does."""
LONG_LIST: Final = 300

_WORDS32: Final = (0, 1, -1, 2, 3, 127, 128, 2**15, 2**31 - 1, -(2**31))
_WORDS64: Final = (*_WORDS32, 2**31, 2**40, 2**53, 2**63 - 1, -(2**63))
_TEXTS: Final = (
    *("", "a", "☃", "..", "/", "a/b", "../../etc", "a b", "\x00", "\u2028", "\U0010ffff", "-1", "x" * 249),
    *(
        "y" * 250,
        "z" * 70_000,
        "%s%n",
        "{}",
        "null",
        "__consumer_offsets",
        "*",
        "^.*(a+)+$",
        "(?i)fuzz-[0-3]",
    ),
)
_BLOBS: Final = (b"", b"\0" * 16, b"\xff" * 16, b"\1" * 15, b"\1" * 17, b"x" * 5_000)
_CONFIG_VALUES: Final = (
    "0",
    "1",
    "2",
    "3",
    "-1",
    "65536",
    "9223372036854775807",
    "fsync",
    "true",
    "false",
    "",
)
_CONFIGS: Final = (
    *("min.insync.replicas", "flush", "segment.bytes", "segment.ms", "retention.ms", "retention.bytes"),
    *("max.message.bytes", "index.interval.bytes", "unclean.leader.election.enable", "nonsense"),
)
#: Without these a process does not look at the rest of a request. Mutants of bytes change them as well.
_NEARLY_ALWAYS_LIVE: Final = frozenset({"cluster_id", "controller_epoch", "broker_epoch", "controller_id"})


@dataclass(frozen=True)
class LiveIds:
    """What is there to be named, by the name of the field that names it. Only what the attacked topics and
    groups have: whoever may delete a topic deletes it, and that is no fault."""

    values: Mapping[str, Sequence[Any]]

    def of(self, field_name: str) -> Sequence[Any]:
        """The values for a field; empty if none are known."""
        return self.values.get(field_name, ())


class MessageMaker:
    """Makes requests. Called by each thread that attacks, with a `Random` of its own."""

    def __init__(self, chance: Random, live: LiveIds) -> None:
        self._chance = chance
        self.live = live

    def request(self, message_type: type[Message]) -> bytes:
        """The bytes of a request: two in three are valid messages, and one is a mutant of such a message."""
        message = self.message(message_type)
        sent = message.SerializeToString()
        if self._chance.random() < 0.34:
            sent = self.mutant(sent)
        return sent if not is_too_dear(message_type, sent) else b""

    def message(self, message_type: type[Message], depth: int = 0) -> Message:
        """A message whose fields are mostly set, and mostly name what is there."""
        message = message_type()
        chosen = {each.name: self._chance.choice(each.fields) for each in message_type.DESCRIPTOR.oneofs}
        for field in message_type.DESCRIPTOR.fields:
            # Of the fields of a oneof the last one that is set would be all that is ever sent.
            is_chosen = field.containing_oneof is None or chosen[field.containing_oneof.name] is field
            if is_chosen and self._chance.random() < 0.85:
                self._fill(message, field, depth)
        return message

    def _fill(self, message: Message, field: Any, depth: int) -> None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entries = getattr(message, field.name)
            for _ in range(self._chance.randrange(4)):
                entries[self._chance.choice(_CONFIGS)] = self._chance.choice(_CONFIG_VALUES)
        elif field.is_repeated:
            target = getattr(message, field.name)
            for _ in range(self._length()):
                if field.message_type is None:
                    target.append(self._value(field))
                elif depth < DEPTH_MAX:
                    target.add().CopyFrom(self._nested(field, depth))
        elif field.message_type is not None:
            if depth < DEPTH_MAX:
                getattr(message, field.name).CopyFrom(self._nested(field, depth))
        else:
            setattr(message, field.name, self._value(field))

    def _nested(self, field: Any, depth: int) -> Message:
        return self.message(message_factory.GetMessageClass(field.message_type), depth + 1)

    def _length(self) -> int:
        drawn = self._chance.random()
        return LONG_LIST if drawn < 0.01 else self._chance.choice((0, 1, 1, 1, 2, 3))

    def _value(self, field: Any) -> Any:
        # Two fields of one name may differ in type: a pattern is a text here and an enum there.
        wanted = {FieldDescriptor.TYPE_STRING: str, FieldDescriptor.TYPE_BYTES: bytes}.get(field.type, int)
        known = [each for each in self.live.of(field.name) if isinstance(each, wanted)]
        if known and self._chance.random() < (0.97 if field.name in _NEARLY_ALWAYS_LIVE else 0.8):
            return self._chance.choice(known)
        if field.name == "partition_count":
            return self._chance.choice((-1, 0, 1, 2, 3, 2**31 - 1))
        match field.type:
            case FieldDescriptor.TYPE_STRING:
                return self._chance.choice(_TEXTS)
            case FieldDescriptor.TYPE_BYTES:
                return self._chance.choice(_BLOBS)
            case FieldDescriptor.TYPE_BOOL:
                return self._chance.random() < 0.5
            case FieldDescriptor.TYPE_ENUM:
                return self._chance.choice((0, 1, 2, 3, 4, 77, -1))
            case FieldDescriptor.TYPE_INT32:
                return self._chance.choice(_WORDS32)
            case FieldDescriptor.TYPE_INT64:
                return self._chance.choice(_WORDS64)
            case _:
                raise NotImplementedError(f"{field.full_name} has a type that no message had: {field.type}")

    def mutant(self, data: bytes) -> bytes:
        """These bytes with a few of them flipped, cut, doubled, replaced or moved."""
        changed = bytearray(data)
        for _ in range(self._chance.choice((1, 1, 2, 5))):
            at = self._chance.randrange(len(changed) + 1)
            match self._chance.randrange(6):
                case 0 if changed:
                    changed[at % len(changed)] ^= 1 << self._chance.randrange(8)
                case 1:
                    del changed[at:]
                case 2:
                    del changed[at : at + self._chance.randrange(1, 9)]
                case 3:
                    changed[at:at] = self._chance.randbytes(self._chance.randrange(1, 9))
                case 4:
                    changed[at:at] = changed[: self._chance.randrange(1, 65)]
                case _:
                    changed[at:at] = b"\xff" * 9 + b"\1"
        return bytes(changed)


def is_too_dear(message_type: type[Message], data: bytes) -> bool:
    """Whether a request, if it is obeyed, would make more partitions than a run has time for."""
    if "partition_count" not in message_type.DESCRIPTOR.fields_by_name:
        return False
    try:
        message: Any = message_type.FromString(data)
    except DecodeError:
        return False
    count: int = max(message.partition_count, len(getattr(message, "assignment", ())))
    return PARTITIONS_MAX < count < 2**31 - 1
