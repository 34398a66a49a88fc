"""Messages as JSON and back, in protobuf's own mapping, with bytes as text on request."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


class MessageJsonError(ValueError):
    """The text is not the message that the method takes."""


def parsed(document: Any, message: Message, *, bytes_are_text: bool) -> Message:
    """Fill a message from JSON. Raises MessageJsonError."""
    if not isinstance(document, dict):
        raise MessageJsonError("a message is a JSON object, as in {}")
    if bytes_are_text:
        document = _with_bytes(document, message.DESCRIPTOR, _encoded)
    try:
        json_format.ParseDict(document, message)
    except (json_format.ParseError, RecursionError) as error:
        raise MessageJsonError(" ".join(str(error).split())) from None
    return message


def document_of(message: Message, *, bytes_are_text: bool, with_defaults: bool) -> dict[str, Any]:
    """A message as JSON. `bytes_are_text`: bytes that are UTF-8 become text, others stay base64."""
    document: dict[str, Any] = json_format.MessageToDict(
        message,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=with_defaults,
    )
    return _with_bytes(document, message.DESCRIPTOR, _decoded) if bytes_are_text else document


def _with_bytes(document: dict[str, Any], descriptor: Any, convert: Callable[[str], str]) -> dict[str, Any]:
    """The same document with every value of a bytes field converted."""
    by_name = {name: field for field in descriptor.fields for name in (field.name, field.json_name)}
    return {
        name: value if name not in by_name else _converted(value, by_name[name], convert)
        for name, value in document.items()
    }


def _converted(value: Any, field: FieldDescriptor, convert: Callable[[str], str]) -> Any:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry and isinstance(value, dict):
        inner = message.fields_by_name["value"]
        return {key: _converted(each, inner, convert) for key, each in value.items()}
    if isinstance(value, list):
        return [_converted(each, field, convert) for each in value]
    if message is not None:
        return _with_bytes(value, message, convert) if isinstance(value, dict) else value
    is_bytes = field.type == FieldDescriptor.TYPE_BYTES
    return convert(value) if is_bytes and isinstance(value, str) else value


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode()
    except (UnicodeDecodeError, binascii.Error):
        return text
