"""What a request is about: the values of a field that the rule of its method names by a path."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.text_format import MessageToString

SUBJECTS_MAX: Final = 20
"""Further subjects are counted only, so that no request makes a line of any length."""
CHARACTERS_MAX: Final = 249
"""As long as a name of a topic or of a group may be."""


def subjects_of(request: Any, path: Sequence[str]) -> tuple[list[str], int]:
    """The different subjects in the order of the request, at most 20, and how many more there are.

    Of a request about the cluster as a whole, whose path is empty, there are none.
    """
    subjects = list(dict.fromkeys(_text(value) for value in _values(request, path))) if path else []
    return subjects[:SUBJECTS_MAX], max(0, len(subjects) - SUBJECTS_MAX)


def names_in(request: Any, path: Sequence[str]) -> list[str]:
    """All names at the end of the path, in the order of the request, whole."""
    return list(_values(request, path))


def _values(message: Any, path: Sequence[str]) -> Iterator[Any]:
    """The values at the end of the path, through all elements of repeated fields."""
    if not path:
        yield message
        return
    name, *rest = path
    value = getattr(message, name)
    is_repeated = message.DESCRIPTOR.fields_by_name[name].is_repeated
    for each in value if is_repeated else (value,):
        yield from _values(each, rest)


def _text(value: Any) -> str:
    if isinstance(value, Message):
        return MessageToString(value, as_one_line=True)[:CHARACTERS_MAX]
    return (value.hex() if isinstance(value, bytes) else str(value))[:CHARACTERS_MAX]
