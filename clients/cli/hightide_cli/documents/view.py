"""Documents that show one object: the shape says where each value comes from. Pure.

A key has the value of the attribute of its name, or of the one that `Shows` names. What computes its values
(counts, sums, names of errors) is a function beside the command instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
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

    def of(self, source: object) -> Any:
        """The value, before it has the form of JSON."""
        found: Any = attrgetter(self.attribute)(source) if self.attribute else source
        if self.or_null:
            return found or None
        return found if self.decimals is None or found is None else round(found, self.decimals)


def view(shape: type[ShapeT], source: object) -> ShapeT:
    """The document of this shape about an object."""
    keys = _keys(shape)  # type: ignore[arg-type]
    return cast(ShapeT, {name: form(shows.of(source)) for name, shows, form in keys})


@cache
def _keys(shape: type) -> tuple[tuple[str, Shows, Callable[[Any], Any]], ...]:
    keys = []
    for name, hint in get_type_hints(shape, include_extras=True).items():
        kind, *notes = get_args(hint)
        keys.append((name, shown(name, notes), _form(kind)))
    return tuple(keys)


def shown(name: str, notes: Sequence[object]) -> Shows:
    """What a key with these annotations shows."""
    return next((each for each in notes if isinstance(each, Shows)), Shows(name))


def _form(kind: Any) -> Callable[[Any], Any]:
    if is_typeddict(kind):
        return lambda value: view(kind, value)
    if get_origin(kind) is Sequence and is_typeddict(get_args(kind)[0]):
        return lambda values: [view(get_args(kind)[0], each) for each in values]
    return dict if get_origin(kind) is Mapping else _plain


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return value.hex() if isinstance(value, bytes) else value
