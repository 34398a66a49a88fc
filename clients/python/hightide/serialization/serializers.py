"""The shape of serializers and deserializers, and those that need no library."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from hightide.errors import DeserializationError, HightideError, SerializationError
from hightide.records import DeserializedRecord, Record

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

Field = Literal["key", "value"]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the bytes: a topic, and whether they are keys or values of its records."""

    topic: str
    field: Field


@runtime_checkable
class Serializer(Protocol[T_contra]):
    """Turns objects into bytes. It may be used by several threads at a time."""

    def serialize(self, data: T_contra, place: Place) -> bytes:
        """The object as bytes. Raises anything for an object that cannot be written."""


@runtime_checkable
class Deserializer(Protocol[T_co]):
    """Turns bytes into objects. It may be used by several threads at a time."""

    def deserialize(self, data: bytes, place: Place) -> T_co:
        """The bytes as an object. Raises anything for bytes that cannot be read, and a HightideError other
        than DeserializationError where the bytes are not at fault."""


#: A plain function is enough where the place does not matter.
AnySerializer = Callable[[T], bytes] | Serializer[T]
AnyDeserializer = Callable[[bytes], T] | Deserializer[T]


class StringSerializer:
    """Text as bytes."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def serialize(self, data: str, place: Place) -> bytes:
        """The text in the encoding."""
        return data.encode(self._encoding)


class StringDeserializer:
    """Bytes as text."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def deserialize(self, data: bytes, place: Place) -> str:
        """The text, which must be whole in the encoding."""
        return data.decode(self._encoding)


class JsonSerializer:
    """What `json.dumps` takes, as JSON in UTF-8 without spaces."""

    def serialize(self, data: Any, place: Place) -> bytes:
        """The object as JSON. NaN and Infinity are no JSON and are refused."""
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


class JsonDeserializer:
    """JSON as what `json.loads` returns."""

    def deserialize(self, data: bytes, place: Place) -> Any:
        """The object."""
        return json.loads(data)


def serialized(serializer: AnySerializer[T], data: T | None, place: Place) -> bytes | None:
    """The bytes of a key or value; None stays None. Called by producers for each record. Raises
    SerializationError, which names topic and field, and the HightideErrors of a serializer."""
    if data is None:
        return None
    try:
        if isinstance(serializer, Serializer):
            found: Any = serializer.serialize(data, place)
        else:
            found = serializer(data)
    except HightideError:
        raise
    except Exception as error:
        raise SerializationError(
            f"a {place.field} of type {type(data).__name__} cannot be serialized: {error!r}",
            topic=place.topic,
        ) from error
    if type(found) is not bytes:
        raise SerializationError(
            f"the serializer made {type(found).__name__} of a {place.field}, not bytes", topic=place.topic
        )
    return found


def deserialized(
    key: AnyDeserializer[Any], value: AnyDeserializer[Any]
) -> Callable[[Record], DeserializedRecord[Any, Any]]:
    """A function that deserializes records. It raises DeserializationError, which names topic, partition,
    offset and field, and the HightideErrors of a deserializer that do not blame the bytes."""
    places: dict[str, tuple[Place, Place]] = {}

    def of(record: Record) -> DeserializedRecord[Any, Any]:
        both = places.get(record.topic)
        if both is None:
            both = places[record.topic] = (Place(record.topic, "key"), Place(record.topic, "value"))
        return DeserializedRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_us,
            None if record.key is None else _read(key, record.key, both[0], record),
            None if record.value is None else _read(value, record.value, both[1], record),
            record.headers,
        )

    return of


def _read(deserializer: AnyDeserializer[Any], data: bytes, place: Place, record: Record) -> Any:
    try:
        if isinstance(deserializer, Deserializer):
            return deserializer.deserialize(data, place)
        return deserializer(data)
    except Exception as error:
        if isinstance(error, HightideError) and not isinstance(error, DeserializationError):
            raise
        why = error.message if isinstance(error, DeserializationError) else repr(error)
        raise DeserializationError(
            f"the {place.field} of the record at offset {record.offset} of "
            f"{record.topic}-{record.partition} cannot be deserialized: {why}",
            topic=record.topic,
            partition=record.partition,
            metadata={"offset": str(record.offset), "field": place.field},
        ) from error
