"""Messages are JSON and back, bytes are text where that is wanted, services read as their .proto files."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection
from hightide.v1 import broker_service_pb2, errors_pb2, metadata_pb2
from hightide_cli.main import main
from hightide_cli.rpc.descriptor_text import (
    comments_of,
    enum_text,
    field_type,
    message_document,
    message_text,
    method_document,
    method_text,
    service_text,
)
from hightide_cli.rpc.message_json import MessageJsonError, document_of, parsed

#: gRPC's core may end the process when a server stops that has just accepted a connection.
SERVING_TO_THE_END: Final[list[grpc.Server]] = []
PRODUCE = broker_service_pb2.ProduceRecordsRequest
SERVICE = broker_service_pb2.DESCRIPTOR.services_by_name["BrokerService"]
GET_METADATA = SERVICE.methods_by_name["GetMetadata"]
COMMENTS = {
    "hightide.v1.BrokerService.GetMetadata": "Tells the brokers.",
    "hightide.v1.GetMetadataRequest.topics": "By name.",
}


def test_bytes_are_base64_unless_text_is_wanted() -> None:
    request = parsed({"topic": "t", "records": [{"value": "aGk="}]}, PRODUCE(), bytes_are_text=False)
    as_text = parsed({"topic": "t", "records": [{"value": "hi"}]}, PRODUCE(), bytes_are_text=True)
    assert request == as_text
    assert document_of(request, bytes_are_text=False, with_defaults=False)["records"] == [{"value": "aGk="}]
    assert document_of(request, bytes_are_text=True, with_defaults=False)["records"] == [{"value": "hi"}]


def test_what_is_no_text_stays_base64_and_comes_back_as_it_is() -> None:
    request = parsed({"topic": "t", "records": [{"value": "//8="}]}, PRODUCE(), bytes_are_text=False)
    assert document_of(request, bytes_are_text=True, with_defaults=False)["records"] == [{"value": "//8="}]


def test_fields_that_are_empty_are_shown_on_request() -> None:
    asked = broker_service_pb2.GetMetadataRequest()
    assert document_of(asked, bytes_are_text=False, with_defaults=False) == {}
    assert document_of(asked, bytes_are_text=False, with_defaults=True) == {"topics": [], "all_topics": False}


@pytest.mark.parametrize(
    "document",
    [[], 7, {"no_such_field": 1}, {"topic": 7}, {"records": [{"value": "not base64!"}]}, {"records": 7}],
)
def test_what_is_not_the_message_is_refused_in_one_line(document: object) -> None:
    with pytest.raises(MessageJsonError) as refused:
        parsed(document, PRODUCE(), bytes_are_text=False)
    assert "\n" not in str(refused.value)


def test_a_method_reads_as_in_its_proto_file() -> None:
    assert method_text(GET_METADATA, COMMENTS).splitlines()[:9] == [
        "// Tells the brokers.",
        "rpc GetMetadata(hightide.v1.GetMetadataRequest) returns (hightide.v1.GetMetadataResponse);",
        "",
        "message hightide.v1.GetMetadataRequest {",
        "  // By name.",
        "  repeated string topics = 1;",
        "  bool all_topics = 2;",
        "}",
        "",
    ]
    assert method_document(GET_METADATA, COMMENTS)["comment"] == "Tells the brokers."
    assert "  // Tells the brokers.\n  rpc GetMetadata(" in service_text(SERVICE, COMMENTS)


def test_types_are_spelled_as_in_proto_files() -> None:
    fields = broker_service_pb2.PlainRecord.DESCRIPTOR.fields_by_name
    types = {name: field_type(field) for name, field in fields.items()}
    assert types["key"] == "optional bytes"
    topic = metadata_pb2.TopicMetadata.DESCRIPTOR
    assert field_type(topic.fields_by_name["configs"]) == "map<string, string>"
    assert field_type(topic.fields_by_name["error_code"]) == "hightide.v1.ErrorCode"
    fields_told = message_document(topic, {"hightide.v1.TopicMetadata.topic": "Its name."})["fields"]
    assert isinstance(fields_told, list)
    assert fields_told[0] == {"name": "topic", "number": 1, "type": "string", "comment": "Its name."}
    assert "  ERROR_CODE_UNSPECIFIED = 0;" in enum_text(errors_pb2.ErrorCode.DESCRIPTOR, {})


def test_comments_belong_to_what_they_stand_above() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="f.proto", package="p")
    outer = file.message_type.add(name="Outer")
    outer.field.add(name="a", number=1)
    outer.nested_type.add(name="Inner").field.add(name="b", number=1)
    file.enum_type.add(name="E").value.add(name="X", number=0)
    file.service.add(name="S").method.add(name="M")
    for path, comment in {
        (4, 0): " Outer.\n Goes on.\n",
        (4, 0, 2, 0): "a\x1b[2J",
        (4, 0, 3, 0, 2, 0): "b",
        (5, 0, 2, 0): "X",
        (6, 0): "S",
        (6, 0, 2, 0): "M",
        (9, 9): "nothing of ours",
    }.items():
        file.source_code_info.location.add(path=path, leading_comments=comment)
    assert comments_of([file]) == {
        "p.Outer": "Outer. Goes on.",
        # A server is believed, and steers no terminal.
        "p.Outer.a": "a\\x1b[2J",
        "p.Outer.Inner.b": "b",
        "p.E.X": "X",
        "p.S": "S",
        "p.S.M": "M",
    }
    assert message_text(broker_service_pb2.GetMetadataRequest.DESCRIPTOR, {}).count("//") == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("rpc", "call"),
        ("rpc", "call", "a:1", "b:1", "S/M"),
        ("rpc", "call", "h:1", "S"),
        ("rpc", "describe"),
        ("rpc", "ls", "A", "B"),
        ("rpc", "nonsense"),
        ("rpc", "BrokerService/GetMetadata", '{"topics": ["t"]}'),
        ("rpc", "h:1", "S/M", "--timeout", "0"),
    ],
    ids=" ".join,
)
def test_a_wrong_call_is_a_usage_error(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_who_cannot_be_reached_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rpc", "127.0.0.1:1", "BrokerService/GetMetadata", "--timeout", "30"]) == 3
    told = capsys.readouterr().err
    assert told.startswith("error: 127.0.0.1:1 cannot be reached: ")
    assert told.count("127.0.0.1:1") == 1


@pytest.fixture(scope="module")
def reflecting() -> str:
    """The address of a server that describes itself, and answers nothing else."""
    server = grpc.server(ThreadPoolExecutor(2))
    reflection.enable_server_reflection([SERVICE.full_name], server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    SERVING_TO_THE_END.append(server)
    return f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    "words", [("ls", "GetMetadataRequest"), ("GetMetadataRequest/GetMetadata",), ("ls", "ErrorCode")]
)
def test_what_is_no_service_has_no_methods(
    reflecting: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rpc", *words, reflecting]) == 1
    name = words[-1].partition("/")[0]
    assert capsys.readouterr().err == (
        f"error: hightide.v1.{name} is no service; `hightide rpc ls` lists the services\n"
    )
