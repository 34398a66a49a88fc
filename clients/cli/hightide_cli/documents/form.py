"""The descriptions of the documents of `-o json`, and the check of a document against its description. Pure.

The shape of a document, or of an object in one, is a TypedDict whose keys are annotated with their meaning. A
function that makes such an object declares the shape as its return type, so that a type checker compares the
two.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

JsonType = Literal["string", "integer", "number", "boolean", "object", "array", "any"]

_OF: Mapping[JsonType, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "any": (object,),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field. Of an array `items` is the type of its elements; `fields` are those of an object, or of an
    array's objects; an object without them has names of its own, such as settings, and values of `items`.
    A field that `may_be_null` is there in any case; one that `may_be_absent` says in `meaning` when it is."""

    name: str
    type: JsonType
    meaning: str
    items: JsonType = "any"
    fields: tuple["Field", ...] = ()
    may_be_null: bool = False
    may_be_absent: bool = False
    since: str = "0.1.0"

    @property
    def or_null(self) -> "Field":
        """The same field, which may be null."""
        return replace(self, may_be_null=True)

    @property
    def optional(self) -> "Field":
        """The same field, which may be absent."""
        return replace(self, may_be_absent=True)


@dataclass(frozen=True, slots=True)
class Document:
    """What a command prints with -o json. `is_stream`: one document a line, until it ends. A command with
    several forms has several documents, and `when` says when it prints which."""

    fields: tuple[Field, ...]
    meaning: str
    is_stream: bool = False
    when: str = ""
    since: str = "0.1.0"


_NAMES: Mapping[object, JsonType] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    object: "any",
}


def fields_of(shape: type) -> tuple[Field, ...]:
    """The fields of a TypedDict, in its order."""
    return tuple(field_of(name, hint) for name, hint in get_type_hints(shape, include_extras=True).items())


def field_of(name: str, hint: Any) -> Field:
    """One field, from Annotated[its type, what it means], perhaps within NotRequired."""
    if get_origin(hint) is NotRequired:
        return field_of(name, get_args(hint)[0]).optional
    assert get_origin(hint) is Annotated, f"{name} does not say what it means"
    kind, *notes = get_args(hint)
    (meaning,) = (each for each in notes if isinstance(each, str))
    if get_origin(kind) in (Union, types.UnionType):
        return field_of(name, Annotated[_unless_null(kind), meaning]).or_null
    if is_typeddict(kind):
        return one(name, meaning, *fields_of(kind))
    if get_origin(kind) is Sequence:
        (item,) = get_args(kind)
        if is_typeddict(item):
            return many(name, meaning, *fields_of(item))
        if item in _NAMES:
            return Field(name, "array", meaning, items=_NAMES[item])
        return field_of(name, Annotated[Sequence[_unless_null(item)], meaning]).or_null  # type: ignore[misc]
    if get_origin(kind) is Mapping:
        return mapping(name, meaning, _NAMES[get_args(kind)[1]])
    return Field(name, _NAMES[kind], meaning)


def _unless_null(kind: Any) -> Any:
    """X of X | None."""
    (other,) = (each for each in get_args(kind) if each is not types.NoneType)
    return other


def text(name: str, meaning: str) -> Field:
    """A string."""
    return Field(name, "string", meaning)


def whole(name: str, meaning: str) -> Field:
    """A whole number."""
    return Field(name, "integer", meaning)


def number(name: str, meaning: str) -> Field:
    """A number, whole or not."""
    return Field(name, "number", meaning)


def flag(name: str, meaning: str) -> Field:
    """True or false."""
    return Field(name, "boolean", meaning)


def texts(name: str, meaning: str) -> Field:
    """An array of strings."""
    return Field(name, "array", meaning, items="string")


def wholes(name: str, meaning: str) -> Field:
    """An array of whole numbers."""
    return Field(name, "array", meaning, items="integer")


def mapping(name: str, meaning: str, items: JsonType = "string") -> Field:
    """An object with names of its own."""
    return Field(name, "object", meaning, items=items)


def one(name: str, meaning: str, *fields: Field) -> Field:
    """An object."""
    return Field(name, "object", meaning, fields=fields)


def many(name: str, meaning: str, *fields: Field) -> Field:
    """An array of objects."""
    return Field(name, "array", meaning, items="object", fields=fields)


def departures(documents: Sequence[Document], value: Any) -> list[str]:
    """The differences between a value and the nearest of these documents; none if it matches one."""
    if not isinstance(value, dict):
        return [f"it is no object but {type(value).__name__}"]
    found = [_of_fields(each.fields, value, "") for each in documents]
    return min(found, key=len)


def _of_fields(fields: Sequence[Field], value: Mapping[str, Any], where: str) -> list[str]:
    known = {each.name: each for each in fields}
    wrong = [f"{where}{name} is not declared" for name in value if name not in known]
    wrong += [
        f"{where}{each.name} is missing"
        for each in fields
        if each.name not in value and not each.may_be_absent
    ]
    for name, part in value.items():
        if name in known:
            wrong += _of_field(known[name], part, where + name)
    return wrong


def _of_field(field: Field, value: Any, where: str) -> list[str]:
    if value is None:
        return [] if field.may_be_null or field.type == "any" else [f"{where} is null"]
    if not _is(field.type, value):
        return [f"{where} is no {field.type} but {type(value).__name__}"]
    if field.type == "array":
        return [wrong for at, each in enumerate(value) for wrong in _of_item(field, each, f"{where}[{at}]")]
    if field.type == "object" and field.fields:
        return _of_fields(field.fields, value, f"{where}.")
    if field.type == "object":
        return [wrong for name, each in value.items() for wrong in _of_item(field, each, f"{where}.{name}")]
    return []


def _of_item(field: Field, value: Any, where: str) -> list[str]:
    if not _is(field.items, value) and not (value is None and field.may_be_null):
        return [f"{where} is no {field.items} but {type(value).__name__}"]
    return _of_fields(field.fields, value, f"{where}.") if field.fields and isinstance(value, dict) else []


def _is(kind: JsonType, value: Any) -> bool:
    # True is an int to Python, and no number to anybody else.
    return isinstance(value, _OF[kind]) and (not isinstance(value, bool) or kind in ("boolean", "any"))
