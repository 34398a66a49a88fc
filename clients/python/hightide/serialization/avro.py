"""Avro in the wire format of a schema registry, by fastavro (the extra `avro`)."""

import io
import json
from typing import Any

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

try:
    import fastavro
except ImportError as missing:
    raise ImportError("Avro needs fastavro: pip install 'hightide[avro]'") from missing


def _parsed(text: str) -> Any:
    try:
        return fastavro.parse_schema(json.loads(text))
    except Exception as error:
        raise InvalidArgumentError(f"this is no Avro schema: {error!r}: {text[:200]}") from error


class AvroSerializer:
    """Objects as Avro: records are mappings, as in fastavro. The schema is registered under the subject of
    each place, once."""

    def __init__(
        self, registry: SchemaRegistry, schema: str, subject: SubjectOf = topic_name_subject
    ) -> None:
        """`schema` is JSON. Raises InvalidArgumentError."""
        self._registry = registry
        self._schema = Schema(schema, "AVRO")
        self._parsed = _parsed(schema)
        self._subject = subject
        self._ids: dict[Place, int] = {}

    def serialize(self, data: Any, place: Place) -> bytes:
        """The object under the schema. Raises SchemaRegistryError."""
        schema_id = self._ids.get(place)
        if schema_id is None:
            schema_id = self._ids[place] = self._registry.register(self._subject(place), self._schema)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._parsed, data)
        return with_schema_id(schema_id, out.getvalue())


class AvroDeserializer:
    """Avro as objects: each is read by the schema that it was written with, and resolved to `schema`, if that
    is given (Avro, "Schema resolution")."""

    def __init__(self, registry: SchemaRegistry, schema: str | None = None) -> None:
        """`schema` is JSON. Raises InvalidArgumentError."""
        self._registry = registry
        self._reader = None if schema is None else _parsed(schema)
        self._writers: dict[int, Any] = {}

    def deserialize(self, data: bytes, place: Place) -> Any:
        """The object. Raises DeserializationError, SchemaRegistryError."""
        schema_id, body = split_schema_id(data)
        writer = self._writers.get(schema_id)
        if writer is None:
            schema = self._registry.schema_of(schema_id)
            if schema.schema_type != "AVRO":
                raise DeserializationError(
                    f"its schema {schema_id} is of type {schema.schema_type}, not AVRO"
                )
            writer = self._writers[schema_id] = _parsed(schema.text)
        stream = io.BytesIO(body)
        found = fastavro.schemaless_reader(stream, writer, self._reader)
        if rest := len(body) - stream.tell():
            raise DeserializationError(f"{rest} bytes are left behind the object of schema {schema_id}")
        return found
