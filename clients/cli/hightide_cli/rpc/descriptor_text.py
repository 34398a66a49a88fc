"""Services and messages as text, in the words of the .proto files, comments included where they are known.
Pure: descriptors in, lines out."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    MethodDescriptor,
    ServiceDescriptor,
)

from hightide_cli.printing.rendering import printable

if TYPE_CHECKING:
    from hightide_cli.documents.contract import MessageDocument, MethodDocument

# The numbers of fields in descriptor.proto, by which comments name their objects.
_MESSAGES, _ENUMS, _SERVICES = 4, 5, 6
_FIELDS_OF_MESSAGE, _MESSAGES_OF_MESSAGE, _ENUMS_OF_MESSAGE = 2, 3, 4
_VALUES_OF_ENUM, _METHODS_OF_SERVICE = 2, 2
_INDENT: Final = "  "

Comments = Mapping[str, str]

_TYPES: Final = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def comments_of(files: Iterable[descriptor_pb2.FileDescriptorProto]) -> dict[str, str]:
    """All comments, by the full name of their object."""
    found: dict[str, str] = {}
    for file in files:
        names = dict(_names(file))
        for location in file.source_code_info.location:
            text = location.leading_comments or location.trailing_comments
            name = names.get(tuple(location.path))
            if name is not None and text.strip():
                found[name] = printable(" ".join(text.split()))
    return found


def _names(file: descriptor_pb2.FileDescriptorProto) -> Iterator[tuple[tuple[int, ...], str]]:
    for at, message in enumerate(file.message_type):
        yield from _names_in_message(message, (_MESSAGES, at), file.package)
    for at, enum in enumerate(file.enum_type):
        yield from _names_in_enum(enum, (_ENUMS, at), file.package)
    for at, service in enumerate(file.service):
        name = f"{file.package}.{service.name}"
        yield (_SERVICES, at), name
        for number, method in enumerate(service.method):
            yield (_SERVICES, at, _METHODS_OF_SERVICE, number), f"{name}.{method.name}"


def _names_in_message(
    message: descriptor_pb2.DescriptorProto, path: tuple[int, ...], scope: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    name = f"{scope}.{message.name}"
    yield path, name
    for at, field in enumerate(message.field):
        yield (*path, _FIELDS_OF_MESSAGE, at), f"{name}.{field.name}"
    for at, nested in enumerate(message.nested_type):
        yield from _names_in_message(nested, (*path, _MESSAGES_OF_MESSAGE, at), name)
    for at, enum in enumerate(message.enum_type):
        yield from _names_in_enum(enum, (*path, _ENUMS_OF_MESSAGE, at), name)


def _names_in_enum(
    enum: descriptor_pb2.EnumDescriptorProto, path: tuple[int, ...], scope: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    yield path, f"{scope}.{enum.name}"
    for at, value in enumerate(enum.value):
        yield (*path, _VALUES_OF_ENUM, at), f"{scope}.{enum.name}.{value.name}"


def service_text(service: ServiceDescriptor, comments: Comments) -> str:
    """A service with its methods."""
    lines = [*_comment(comments, service.full_name, ""), f"service {service.full_name} {{"]
    for method in service.methods:
        lines += [*_comment(comments, method.full_name, _INDENT), f"{_INDENT}{_signature(method)};"]
    return "\n".join([*lines, "}"])


def method_text(method: MethodDescriptor, comments: Comments) -> str:
    """A method with its request and its answer."""
    own = "\n".join([*_comment(comments, method.full_name, ""), f"{_signature(method)};"])
    messages = dict.fromkeys((method.input_type, method.output_type))
    return "\n\n".join([own, *(message_text(each, comments) for each in messages)])


def message_text(message: Descriptor, comments: Comments) -> str:
    """A message with its fields."""
    lines = [*_comment(comments, message.full_name, ""), f"message {message.full_name} {{"]
    for field in message.fields:
        lines += _comment(comments, field.full_name, _INDENT)
        lines.append(f"{_INDENT}{field_type(field)} {field.name} = {field.number};")
    return "\n".join([*lines, "}"])


def enum_text(enum: EnumDescriptor, comments: Comments) -> str:
    """An enum with its values."""
    lines = [*_comment(comments, enum.full_name, ""), f"enum {enum.full_name} {{"]
    for value in enum.values:
        lines += _comment(comments, f"{enum.full_name}.{value.name}", _INDENT)
        lines.append(f"{_INDENT}{value.name} = {value.number};")
    return "\n".join([*lines, "}"])


def message_document(message: Descriptor, comments: Comments) -> "MessageDocument":
    """A message for programs."""
    return {
        "message": message.full_name,
        "comment": comments.get(message.full_name),
        "fields": [
            {
                "name": field.name,
                "number": field.number,
                "type": field_type(field),
                "comment": comments.get(field.full_name),
            }
            for field in message.fields
        ],
    }


def method_document(method: MethodDescriptor, comments: Comments) -> "MethodDocument":
    """A method for programs."""
    return {
        "method": f"{method.containing_service.full_name}/{method.name}",
        "comment": comments.get(method.full_name),
        "request": method.input_type.full_name,
        "response": method.output_type.full_name,
        "client_streaming": method.client_streaming,
        "server_streaming": method.server_streaming,
    }


def field_type(field: FieldDescriptor) -> str:
    """The type of a field as a .proto file spells it."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        return f"map<{field_type(key)}, {field_type(value)}>"
    named = message or field.enum_type
    name = named.full_name if named is not None else _TYPES[field.type]
    if field.is_repeated:
        return f"repeated {name}"
    is_optional = field.has_presence and message is None and field.containing_oneof is not None
    return f"optional {name}" if is_optional else name


def _signature(method: MethodDescriptor) -> str:
    asked = f"{'stream ' * method.client_streaming}{method.input_type.full_name}"
    answered = f"{'stream ' * method.server_streaming}{method.output_type.full_name}"
    return f"rpc {method.name}({asked}) returns ({answered})"


def _comment(comments: Comments, name: str, indent: str) -> list[str]:
    import textwrap

    text = comments.get(name, "")
    width = 100 - len(indent)
    return [f"{indent}// {line}" for line in textwrap.wrap(text, width, break_long_words=False)]
