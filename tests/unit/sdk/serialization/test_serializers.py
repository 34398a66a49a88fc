"""Serializers: text, JSON, Avro and Protobuf, and the wire format of a schema registry."""

import json
import math
from collections.abc import Callable

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import Int32Value
from hightide.errors import (
    DeserializationError,
    InvalidArgumentError,
    SchemaRegistryError,
    SerializationError,
)
from hightide.records import DeserializedRecord, Record
from hightide.serialization import (
    JsonDeserializer,
    JsonSerializer,
    Place,
    StringDeserializer,
    StringSerializer,
)
from hightide.serialization.avro import AvroDeserializer, AvroSerializer
from hightide.serialization.protobuf import (
    ProtobufDeserializer,
    ProtobufSerializer,
    encoded_indexes,
    indexes_of,
)
from hightide.serialization.schema_registry import (
    InMemorySchemaRegistry,
    Schema,
    split_schema_id,
    with_schema_id,
)
from hightide.serialization.serializers import deserialized, serialized
from hightide.v1 import broker_service_pb2, metadata_pb2

VALUE = Place("flights", "value")
OLD = json.dumps({"type": "record", "name": "F", "fields": [{"name": "dest", "type": "string"}]})
NEW = json.dumps(
    {
        "type": "record",
        "name": "F",
        "fields": [{"name": "dest", "type": "string"}, {"name": "delay", "type": "int", "default": 0}],
    }
)


def record(value: bytes | None, key: bytes | None = None) -> Record:
    return Record("flights", 2, 41, 0, key, value, (("h", b"x"),))


def read(value: object) -> Callable[[Record], DeserializedRecord[object, object]]:
    return deserialized(bytes, value)  # type: ignore[arg-type]


def test_text_and_json_come_back() -> None:
    assert StringDeserializer().deserialize(StringSerializer().serialize("Zürich", VALUE), VALUE) == "Zürich"
    flight = {"dest": "Zürich", "delays": [1, 2.5, None]}
    data = JsonSerializer().serialize(flight, VALUE)
    assert data == '{"dest":"Zürich","delays":[1,2.5,null]}'.encode()
    assert JsonDeserializer().deserialize(data, VALUE) == flight


def test_functions_and_none_are_as_good() -> None:
    assert serialized(str.encode, "a", VALUE) == b"a"
    assert serialized(str.encode, None, VALUE) is None
    found = deserialized(bytes, int)(record(b"17", b"k"))
    assert found == DeserializedRecord("flights", 2, 41, 0, b"k", 17, (("h", b"x"),))
    assert deserialized(int, int)(record(None)).value is None


@pytest.mark.parametrize(
    ("serializer", "data", "said"),
    [
        (JsonSerializer(), {1, 2}, "a value of type set cannot be serialized: TypeError"),
        (JsonSerializer(), math.nan, "a value of type float cannot be serialized: ValueError"),
        (StringSerializer(), 7, "a value of type int cannot be serialized"),
        (lambda data: data, "text", "the serializer made str of a value, not bytes"),
    ],
)
def test_what_cannot_be_serialized_is_told_with_topic_and_field(
    serializer: object, data: object, said: str
) -> None:
    with pytest.raises(SerializationError, match=said) as refused:
        serialized(serializer, data, VALUE)  # type: ignore[arg-type]
    assert refused.value.topic == "flights"


@pytest.mark.parametrize(
    ("deserializer", "data"),
    [
        (JsonDeserializer(), b"{"),
        (StringDeserializer(), b"\xff"),
        (int, b"x"),
        (AvroDeserializer(InMemorySchemaRegistry()), b"{}"),
        (AvroDeserializer(InMemorySchemaRegistry()), b""),
        (AvroDeserializer(InMemorySchemaRegistry()), with_schema_id(7, b"")),
        (ProtobufDeserializer(Timestamp), with_schema_id(7, b"")),
        (ProtobufDeserializer(Timestamp), with_schema_id(7, b"\0\xff")),
        (ProtobufDeserializer(Timestamp), with_schema_id(7, b"\xff\xff\xff\xff\xff\xff")),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(deserializer: object, data: bytes) -> None:
    with pytest.raises(
        DeserializationError, match="the value of the record at offset 41 of flights-2"
    ) as told:
        read(deserializer)(record(data))
    assert (told.value.topic, told.value.partition) == ("flights", 2)
    assert told.value.metadata == {"offset": "41", "field": "value"}


def test_the_wire_format_is_a_zero_byte_the_id_and_the_data() -> None:
    assert with_schema_id(258, b"data") == b"\0\0\0\1\2data"
    assert split_schema_id(b"\0\xff\xff\xff\xffdata") == (2**32 - 1, b"data")


def test_avro_is_written_under_the_id_of_its_schema_and_registered_once() -> None:
    registry = InMemorySchemaRegistry()
    serializer = AvroSerializer(registry, OLD)
    assert serializer.serialize({"dest": "IAH"}, VALUE) == b"\0\0\0\0\1\x06IAH"
    serializer.serialize({"dest": "IAH"}, Place("flights", "key"))
    assert registry.subjects == {"flights-value": [1], "flights-key": [1]}


def test_avro_is_read_by_the_schema_that_wrote_it_and_resolved_to_that_of_the_reader() -> None:
    registry = InMemorySchemaRegistry()
    data = AvroSerializer(registry, OLD).serialize({"dest": "IAH"}, VALUE)
    assert AvroDeserializer(registry).deserialize(data, VALUE) == {"dest": "IAH"}
    assert AvroDeserializer(registry, NEW).deserialize(data, VALUE) == {"dest": "IAH", "delay": 0}


def test_avro_with_bytes_left_or_of_another_kind_of_schema_is_refused() -> None:
    registry = InMemorySchemaRegistry()
    data = AvroSerializer(registry, OLD).serialize({"dest": "IAH"}, VALUE)
    with pytest.raises(DeserializationError, match="1 bytes are left"):
        AvroDeserializer(registry).deserialize(data + b"x", VALUE)
    other = registry.register("s", Schema("syntax", "PROTOBUF"))
    with pytest.raises(DeserializationError, match="of type PROTOBUF"):
        AvroDeserializer(registry).deserialize(with_schema_id(other, b""), VALUE)


def test_what_is_no_avro_schema_is_refused_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="no Avro schema"):
        AvroSerializer(InMemorySchemaRegistry(), '{"type": "nonsense"}')


def test_protobuf_comes_back_behind_the_place_of_its_type() -> None:
    registry = InMemorySchemaRegistry()
    serializer = ProtobufSerializer(registry, Timestamp)
    data = serializer.serialize(Timestamp(seconds=5), VALUE)
    assert data == b"\0\0\0\0\1" + b"\0" + b"\x08\x05"
    assert ProtobufDeserializer(Timestamp).deserialize(data, VALUE) == Timestamp(seconds=5)
    assert registry.schema_of(1).schema_type == "PROTOBUF"


def test_the_place_of_a_type_is_its_number_and_that_of_each_type_around_it() -> None:
    assert indexes_of(Timestamp.DESCRIPTOR) == [0]
    endpoint = metadata_pb2.Endpoint.DESCRIPTOR
    numbers = list(endpoint.file.message_types_by_name)
    assert indexes_of(endpoint) == [numbers.index("Endpoint")]
    assert encoded_indexes([0]) == b"\0"
    assert encoded_indexes([1]) == b"\x02\x02"
    assert encoded_indexes([1, 0, 100]) == b"\x06\x02\x00\xc8\x01"
    assert indexes_of(DescriptorProto.ReservedRange.DESCRIPTOR) == [2, 1]


def test_protobuf_behind_any_place_is_read() -> None:
    body = encoded_indexes([1, 0, 100]) + Timestamp(nanos=7).SerializeToString()
    assert ProtobufDeserializer(Timestamp).deserialize(with_schema_id(9, body), VALUE).nanos == 7


def test_a_protobuf_file_that_imports_others_is_refused_with_their_names() -> None:
    with pytest.raises(InvalidArgumentError, match=r"imports .*hightide/v1/"):
        ProtobufSerializer(InMemorySchemaRegistry(), broker_service_pb2.ProduceRequest)


def test_a_message_of_another_type_is_refused() -> None:
    serializer = ProtobufSerializer(InMemorySchemaRegistry(), Timestamp)
    with pytest.raises(SerializationError, match="not a Timestamp"):
        serialized(serializer, Int32Value(), VALUE)  # type: ignore[arg-type]


def test_a_registry_that_does_not_answer_does_not_blame_the_record() -> None:
    class Silent(InMemorySchemaRegistry):
        def schema_of(self, schema_id: int) -> Schema:
            raise SchemaRegistryError("the registry did not answer")

    with pytest.raises(SchemaRegistryError):
        read(AvroDeserializer(Silent()))(record(with_schema_id(1, b"")))
