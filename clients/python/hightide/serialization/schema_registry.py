"""Schemas by number, as Confluent's schema registry keeps them, and its wire format: the magic byte 0, then
the schema's id as 4 bytes, big-endian, then the data (Confluent, "Wire format")."""

import json
import struct
import threading
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from hightide.errors import DeserializationError, InvalidArgumentError, SchemaRegistryError
from hightide.serialization.serializers import Place

SchemaType = Literal["AVRO", "PROTOBUF", "JSON"]
SubjectOf = Callable[[Place], str]

_HEADER: Final = struct.Struct(">bI")
_MAGIC: Final = 0
_ANSWER_BYTES_MAX: Final = 8 << 20
_SCHEMAS_KEPT_MAX: Final = 10_000


def with_schema_id(schema_id: int, data: bytes) -> bytes:
    """Data in the wire format."""
    return _HEADER.pack(_MAGIC, schema_id) + data


def split_schema_id(data: bytes) -> tuple[int, bytes]:
    """The schema's id, and the data behind it. Raises DeserializationError for bytes of another format."""
    if len(data) < _HEADER.size or data[0] != _MAGIC:
        raise DeserializationError(
            f"it begins with {data[:5]!r}, and data with a schema id begins with a zero byte and 4 bytes"
        )
    return int.from_bytes(data[1 : _HEADER.size], "big"), data[_HEADER.size :]


def topic_name_subject(place: Place) -> str:
    """The subject of a schema by default: `<topic>-key` or `<topic>-value` (TopicNameStrategy)."""
    return f"{place.topic}-{place.field}"


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as text."""

    text: str
    schema_type: SchemaType = "AVRO"


class SchemaRegistry(Protocol):
    """What serializers ask of a registry. It may be used by several threads at a time."""

    def register(self, subject: str, schema: Schema) -> int:
        """The id of a schema under a subject; it is registered if it is new. Raises SchemaRegistryError."""

    def schema_of(self, schema_id: int) -> Schema:
        """The schema with this id. Raises SchemaRegistryError; DeserializationError if there is none."""


class InMemorySchemaRegistry:
    """A registry in the memory of this process, for tests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[Schema, int] = {}
        self.subjects: dict[str, list[int]] = {}

    def register(self, subject: str, schema: Schema) -> int:
        """As SchemaRegistry; equal schemas have one id."""
        with self._lock:
            schema_id = self._ids.setdefault(schema, len(self._ids) + 1)
            versions = self.subjects.setdefault(subject, [])
            if schema_id not in versions:
                versions.append(schema_id)
            return schema_id

    def schema_of(self, schema_id: int) -> Schema:
        """As SchemaRegistry."""
        with self._lock:
            for schema, known in self._ids.items():
                if known == schema_id:
                    return schema
        raise DeserializationError(f"the registry has no schema with the id {schema_id}")


class HttpSchemaRegistry:
    """Confluent's schema registry, or one with its API, by HTTP. An id is asked for once. Without
    `registers`, a schema that the subject does not have is an error, and nothing is registered. Each call
    takes at most `timeout_s`; with asyncio the loop waits for it."""

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str | None = None,
        registers: bool = True,
        timeout_s: float = 10.0,
    ) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise InvalidArgumentError(
                f"{url!r} is no address of a schema registry; it begins with http(s)://"
            )
        self._url = url.rstrip("/")
        self._registers = registers
        self._timeout_s = timeout_s
        self._headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        if user is not None:
            token = b64encode(f"{user}:{password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._ids: dict[tuple[str, Schema], int] = {}
        self._schemas: dict[int, Schema] = {}

    def register(self, subject: str, schema: Schema) -> int:
        """As SchemaRegistry."""
        known = self._ids.get((subject, schema))
        if known is not None:
            return known
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}" + ("/versions" if self._registers else "")
        answer = self._ask(path, {"schema": schema.text, "schemaType": schema.schema_type})
        if isinstance(answer, int):
            raise SchemaRegistryError(
                f"the schema registry at {self._url} does not have this schema of {subject}, or it does not "
                f"fit the earlier ones (HTTP status {answer})"
            )
        found: int = _whole(answer, "id", int)
        if len(self._ids) < _SCHEMAS_KEPT_MAX:
            self._ids[(subject, schema)] = found
        return found

    def schema_of(self, schema_id: int) -> Schema:
        """As SchemaRegistry."""
        known = self._schemas.get(schema_id)
        if known is not None:
            return known
        answer = self._ask(f"/schemas/ids/{schema_id}", None)
        if isinstance(answer, int):
            raise DeserializationError(
                f"the schema registry at {self._url} has no schema with the id {schema_id} "
                f"(HTTP status {answer})"
            )
        if answer.get("references"):
            raise SchemaRegistryError(
                f"schema {schema_id} refers to other schemas, which this client does not follow"
            )
        found = Schema(_whole(answer, "schema", str), answer.get("schemaType", "AVRO"))
        if len(self._schemas) < _SCHEMAS_KEPT_MAX:
            self._schemas[schema_id] = found
        return found

    def _ask(self, path: str, body: dict[str, str] | None) -> dict[str, Any] | int:
        """The answer as JSON, or the HTTP status of a refusal: 404, 409 or 422."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data=data, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                told = json.loads(response.read(_ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            if error.code in (404, 409, 422):
                return error.code
            raise SchemaRegistryError(
                f"the schema registry at {self._url} answered {path} with HTTP status {error.code}"
            ) from error
        except (OSError, ValueError) as error:
            raise SchemaRegistryError(
                f"the schema registry at {self._url} did not answer {path}: {error}"
            ) from error
        if not isinstance(told, dict):
            raise SchemaRegistryError(f"the schema registry at {self._url} answered {path} with no object")
        return told


def _whole(answer: dict[str, Any], name: str, kind: type) -> Any:
    found = answer.get(name)
    if type(found) is not kind:
        raise SchemaRegistryError(f"an answer of the schema registry has no {name}: {str(answer)[:200]}")
    return found
