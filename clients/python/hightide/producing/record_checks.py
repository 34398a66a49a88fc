"""Checks of a record when it is sent, so that it cannot spoil a batch later."""

from collections.abc import Sequence
from typing import Any

from hightide.argument_checks import checked_name
from hightide.errors import InvalidArgumentError
from hightide.records import Headers


def as_bytes(name: str, data: Any) -> bytes | None:
    """A key or value as bytes. Raises InvalidArgumentError for what is not bytes-like."""
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    hint = "; encode it first, such as with .encode()" if isinstance(data, str) else ""
    raise InvalidArgumentError(f"a {name} is bytes or None, not {type(data).__name__}{hint}")


def checked_headers(headers: Sequence[tuple[str, bytes]] | None) -> Headers:
    """A copy of the headers, pairs of a name and a value, that nobody changes while the record waits. Raises
    InvalidArgumentError."""
    checked = []
    for header in headers or ():
        if len(header) != 2 or not isinstance(header[0], str) or not isinstance(header[1], bytes):
            raise InvalidArgumentError(f"a header is a pair of str and bytes, not {header!r}")
        name, value = header
        checked.append((checked_name("header", name), value))
    return tuple(checked)
