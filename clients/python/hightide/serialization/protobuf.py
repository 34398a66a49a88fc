"""Protobuf in the wire format of a schema registry: behind the schema's id, the place of the message's type
in its file (Confluent, "Wire format": message indexes)."""

from base64 import b64encode
from typing import Any, Generic, TypeVar

from google.protobuf.message import DecodeError, Message

from hightide.errors import DeserializationError, InvalidArgumentError
from hightide.serialization.schema_registry import (
    Schema,
    SchemaRegistry,
    SubjectOf,
    split_schema_id,
    topic_name_subject,
    with_schema_id,
)
from hightide.serialization.serializers import Place

MessageT = TypeVar("MessageT", bound=Message)

_INDEXES_MAX = 100


class ProtobufSerializer(Generic[MessageT]):
    """Messages of one generated type. The file that defines it is registered under the subject of each place,
    once. It may import only the files of `google/protobuf/`, which registries know."""

    def __init__(
        self, registry: SchemaRegistry, message_type: type[MessageT], subject: SubjectOf = topic_name_subject
    ) -> None:
        """Raises InvalidArgumentError for a type whose file imports others."""
        descriptor = message_type.DESCRIPTOR
        self._registry = registry
        self._type = message_type
        self._schema = Schema(_file_text(descriptor.file), "PROTOBUF")
        self._indexes = encoded_indexes(indexes_of(descriptor))
        self._subject = subject
        self._ids: dict[Place, int] = {}

    def serialize(self, data: MessageT, place: Place) -> bytes:
        """The message. Raises SchemaRegistryError, TypeError for a message of another type."""
        if not isinstance(data, self._type):
            raise TypeError(f"it is a {type(data).__name__}, not a {self._type.__name__}")
        schema_id = self._ids.get(place)
        if schema_id is None:
            schema_id = self._ids[place] = self._registry.register(self._subject(place), self._schema)
        return with_schema_id(schema_id, self._indexes + data.SerializeToString())


class ProtobufDeserializer(Generic[MessageT]):
    """Messages of one generated type. It asks no registry: Protobuf reads what other versions of the type
    wrote."""

    def __init__(self, message_type: type[MessageT]) -> None:
        self._type = message_type

    def deserialize(self, data: bytes, place: Place) -> MessageT:
        """The message. Raises DeserializationError."""
        _, body = split_schema_id(data)
        try:
            return self._type.FromString(body[_end_of_indexes(body) :])
        except DecodeError as error:
            raise DeserializationError(f"it is no {self._type.DESCRIPTOR.full_name}: {error}") from error


def _file_text(file: Any) -> str:
    """A file as registries take it: its descriptor in base 64."""
    others = [each.name for each in file.dependencies if not each.name.startswith("google/protobuf/")]
    if others:
        raise InvalidArgumentError(
            f"{file.name} imports {', '.join(others)}; register only files that import google/protobuf/ alone"
        )
    return b64encode(file.serialized_pb).decode()


def indexes_of(descriptor: Any) -> list[int]:
    """The place of a message's type in its file: the number of the outermost type, then of each nested
    one."""
    if descriptor.containing_type is None:
        return [list(descriptor.file.message_types_by_name.values()).index(descriptor)]
    outer = descriptor.containing_type
    return [*indexes_of(outer), list(outer.nested_types).index(descriptor)]


def encoded_indexes(indexes: list[int]) -> bytes:
    """Their number and they, as zigzag varints; the first type of a file, by far the most frequent, is one
    zero byte."""
    if indexes == [0]:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(indexes), *indexes))


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _end_of_indexes(body: bytes) -> int:
    count, at = _read_varint(body, 0)
    if count > _INDEXES_MAX:
        raise DeserializationError(f"its type is nested {count} levels deep")
    for _ in range(count):
        _, at = _read_varint(body, at)
    return at


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    """A number that is not negative, in zigzag, and where it ends."""
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(body):
            break
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1, at
    raise DeserializationError("the place of its type in the schema is cut off")
