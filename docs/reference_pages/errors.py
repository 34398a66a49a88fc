"""docs/reference/errors.md: the catalogue, with the protos' words and the SDK's classes."""

import inspect
from importlib import resources

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hightide import errors
from hightide.errors import HightideError
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import CATALOGUE, reason_of

from reference_pages.markdown import code, one_line, page, table


def text() -> str:
    """The page."""
    return page(
        "Errors",
        """A call that fails has a gRPC status, and with it a `google.rpc.ErrorInfo` of the domain `hightide`,
        whose `reason` is the code below, and whose metadata repeats the facts. What concerns one partition
        of a call that succeeded is a code in the answer. The SDK raises a class for each; all are in
        `hightide.errors`. *Retriable*: the same request may succeed later. The SDK repeats it
        within its timeouts.""",
        "## What servers answer",
        _server_errors(),
        "## What clients find out by themselves",
        _client_errors(),
    )


def _server_errors() -> str:
    meanings = _comments()
    rows = []
    for number, status in sorted((number, status) for number, status in CATALOGUE.items() if number):
        cls = errors.CATALOGUE[number]
        rows.append(
            (
                code(reason_of(number)),
                code(status.name),
                "yes" if cls.retriable else "no",
                meanings[number],
                _next_step(cls),
                code(cls.__name__),
            )
        )
    assert set(ErrorCode.values()) == set(CATALOGUE)
    return table(("code", "gRPC status", "retriable", "means", "what to do", "class"), rows)


def _next_step(cls: type[HightideError]) -> str:
    by_itself = "Nothing: clients try again without your help." if cls.retriable else "See the message."
    return cls.next_step or by_itself


def _comments() -> dict[int, str]:
    """What errors.proto says of each code."""
    content = resources.files("hightide.v1").joinpath("descriptors.binpb").read_bytes()
    (file,) = (
        each for each in FileDescriptorSet.FromString(content).file if each.name == "hightide/v1/errors.proto"
    )
    comments = {tuple(where.path): where.leading_comments for where in file.source_code_info.location}
    (enum,) = file.enum_type
    return {value.number: one_line(comments[5, 0, 2, at]) for at, value in enumerate(enum.value)}


def _client_errors() -> str:
    classes = [
        cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.ClientError) and cls is not errors.ClientError
    ]
    assert all(issubclass(cls, HightideError) for cls in classes)
    rows = [
        (
            code(cls.__name__),
            "yes" if cls.retriable else "no",
            one_line(cls.__doc__ or ""),
            _next_step(cls),
        )
        for cls in sorted(classes, key=lambda each: each.__name__)
    ]
    return table(("class", "retriable", "means", "what to do"), rows)
