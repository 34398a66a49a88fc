"""What reflection tells of our files: what generated code knows, and the comments that it has forgotten."""

import pytest
from google.protobuf import descriptor_pb2
from hightide.v1 import (
    broker_service_pb2,
    controller_service_pb2,
    coordinator_service_pb2,
    server_service_pb2,
)
from hightide_runtime.serving.reflection import CommentedPool

OURS = [broker_service_pb2, controller_service_pb2, coordinator_service_pb2, server_service_pb2]


def told(file: object) -> descriptor_pb2.FileDescriptorProto:
    proto = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(proto)  # type: ignore[attr-defined]
    return proto


@pytest.mark.parametrize("module", OURS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_element_is_told_with_its_comment(module: object) -> None:
    name = module.DESCRIPTOR.name  # type: ignore[attr-defined]
    proto = told(CommentedPool().FindFileByName(name))
    comments = {tuple(where.path): where.leading_comments for where in proto.source_code_info.location}
    places = [
        *(
            (4, at, 2, index)
            for at, each in enumerate(proto.message_type)
            for index in range(len(each.field))
        ),
        *((6, at, 2, index) for at, each in enumerate(proto.service) for index in range(len(each.method))),
    ]
    silent = [place for place in places if not comments.get(place) or not comments.get(place[:2])]
    assert comments
    assert silent == []


@pytest.mark.parametrize("module", OURS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_but_for_comments_it_is_what_the_stubs_are_made_of(module: object) -> None:
    plain = told(module.DESCRIPTOR)  # type: ignore[attr-defined]
    proto = told(CommentedPool().FindFileByName(plain.name))
    proto.ClearField("source_code_info")
    # The compiler writes json_name only for plug-ins and descriptor sets.
    for message in (*proto.message_type, *plain.message_type):
        for each in (message, *message.nested_type):
            for field in each.field:
                field.ClearField("json_name")
    assert proto == plain


def test_a_symbol_leads_to_its_file_with_all_that_it_imports() -> None:
    file = CommentedPool().FindFileContainingSymbol("hightide.v1.BrokerService.Fetch")
    assert file.name == "hightide/v1/broker_service.proto"
    assert {each.name for each in file.dependencies} == {
        "hightide/v1/access.proto",
        "hightide/v1/errors.proto",
        "hightide/v1/metadata.proto",
    }
    assert all(told(each).source_code_info.location for each in file.dependencies)


def test_files_that_are_not_ours_are_told_as_they_are() -> None:
    from grpc_health.v1 import health_pb2

    file = CommentedPool().FindFileByName(health_pb2.DESCRIPTOR.name)
    assert told(file) == told(health_pb2.DESCRIPTOR)


@pytest.mark.parametrize(
    "symbol", ["hightide.v1.NoSuchService", "hightide.v1.BrokerService.NoSuchMethod", "x"]
)
def test_an_unknown_symbol_is_not_found(symbol: str) -> None:
    with pytest.raises(KeyError):
        CommentedPool().FindFileContainingSymbol(symbol)
