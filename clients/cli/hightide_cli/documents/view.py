"""Documents that show one object: the shape says where each value comes from. Pure.

A key has the value of the attribute of its name, or of the one that `Shows` names. What computes its values
(counts, sums, names of errors) is a function beside the command instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints, is_typeddict

ShapeT = TypeVar("ShapeT")


@dataclass(frozen=True, slots=True)
class Shows:
    """The attribute that a key shows, as in `partition.topic`; "" is the object itself. With `or_null` the
    key is null where that is empty. `decimals`: what is shown of a fraction."""

    attribute: str
    or_null: bool = False
    decimals: int | None = None


def view(shape: type[ShapeT], source: object) -> ShapeT:
    """The document of this shape about an object."""
    readers = _readers(shape)  # type: ignore[arg-type]
    return cast(ShapeT, {name: read(source) for name, read in readers})


@cache
def _readers(shape: type) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    readers = []
    for name, hint in get_type_hints(shape, include_extras=True).items():
        kind, *notes = get_args(hint)
        readers.append((name, _reader(shown(name, notes), kind)))
    return tuple(readers)


def shown(name: str, notes: Sequence[object]) -> Shows:
    """What a key with these annotations shows."""
    return next((each for each in notes if isinstance(each, Shows)), Shows(name))


def _reader(shows: Shows, kind: Any) -> Callable[[Any], Any]:
    get: Callable[[Any], Any] = attrgetter(shows.attribute) if shows.attribute else _itself
    form = _form(shows, kind)
    return get if form is None else lambda source: form(get(source))


def _form(shows: Shows, kind: Any) -> Callable[[Any], Any] | None:
    """What gives a value the form of JSON; None where it has it."""
    if is_typeddict(kind):
        return partial(view, kind)
    if get_origin(kind) is Sequence and is_typeddict(get_args(kind)[0]):
        return lambda values: [view(get_args(kind)[0], each) for each in values]
    if get_origin(kind) is Mapping:
        return dict
    if shows.decimals is not None:
        return lambda value: None if value is None else round(value, shows.decimals)
    if shows.or_null:
        return lambda value: _text(value) if value else None
    return _text if kind in (str, str | None) else None


def _text(value: Any) -> Any:
    if isinstance(value, Enum):
        value = value.value
    return value.hex() if isinstance(value, bytes) else value


def _itself(source: Any) -> Any:
    return source
