"""Each command has its document in the registry, and the registry tells right documents from wrong ones."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, NotRequired, TypedDict

import click
import pytest
from hightide_cli.documents.form import (
    Document,
    Field,
    departures,
    fields_of,
    flag,
    many,
    mapping,
    number,
    one,
    text,
    whole,
)
from hightide_cli.documents.registry import DOCUMENTS, WITHOUT_DOCUMENT
from hightide_cli.main import cli


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        found = group.get_command(ctx, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            yield " ".join((*path, name))


def test_every_command_is_registered_and_nothing_else_is() -> None:
    assert sorted({*DOCUMENTS, *WITHOUT_DOCUMENT}) == sorted(commands(cli))
    assert not DOCUMENTS.keys() & WITHOUT_DOCUMENT.keys()


def all_fields(fields: tuple[Field, ...]) -> Iterator[Field]:
    for each in fields:
        yield each
        yield from all_fields(each.fields)


@pytest.mark.parametrize("command", sorted(DOCUMENTS))
def test_a_document_is_described_in_full(command: str) -> None:
    documents = DOCUMENTS[command]
    assert all(each.when for each in documents[1:]), "with several forms, it is said when which is printed"
    for document in documents:
        names = [each.name for each in document.fields]
        assert len(set(names)) == len(names)
        for field in all_fields(document.fields):
            assert field.meaning
            assert not field.fields or field.type in ("object", "array")


DOCUMENT = Document(
    (
        text("name", "a"),
        whole("count", "b").or_null,
        number("pace", "c").optional,
        many("parts", "d", whole("number", "e"), flag("done", "f")),
        mapping("configs", "g"),
        one("owner", "h", text("id", "i")).or_null,
    ),
    "An example.",
)
GOOD = {"name": "n", "count": 1, "parts": [{"number": 0, "done": True}], "configs": {"a": "b"}, "owner": None}


def test_what_is_as_described_is_found_so() -> None:
    assert departures([DOCUMENT], GOOD) == []
    assert departures([DOCUMENT], {**GOOD, "count": None, "pace": 2, "owner": {"id": "x"}}) == []
    assert departures([Document((text("other", "x"),), "Another."), DOCUMENT], GOOD) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"more": 1}, "more is not declared"),
        ({"name": None}, "name is null"),
        ({"name": 5}, "name is no string but int"),
        ({"count": True}, "count is no integer but bool"),
        ({"count": 1.5}, "count is no integer but float"),
        ({"parts": [{"number": 1}]}, "parts[0].done is missing"),
        ({"parts": [3]}, "parts[0] is no object but int"),
        ({"configs": {"a": 1}}, "configs.a is no string but int"),
        ({"owner": {"id": "x", "age": 1}}, "owner.age is not declared"),
    ],
)
def test_what_departs_from_it_is_named(changed: dict[str, object], said: str) -> None:
    assert departures([DOCUMENT], {**GOOD, **changed}) == [said]


def test_what_is_missing_is_named() -> None:
    assert departures([DOCUMENT], {key: value for key, value in GOOD.items() if key != "name"}) == [
        "name is missing"
    ]
    assert departures([DOCUMENT], [1]) == ["it is no object but list"]


class Part(TypedDict):
    number: Annotated[int, "d"]
    done: Annotated[bool, "e"]


class Owner(TypedDict):
    id: Annotated[str, "i"]


class Shape(TypedDict):
    name: Annotated[str, "a"]
    count: Annotated[int | None, "b"]
    pace: NotRequired[Annotated[float, "c"]]
    parts: Annotated[Sequence[Part], "p"]
    owner: Annotated[Owner | None, "o"]
    names: Annotated[Sequence[str], "n"]
    shards: Annotated[Sequence[str | None], "s"]
    streams: Annotated[Mapping[str, int], "t"]
    attributes: Annotated[Mapping[str, object], "x"]


class Longer(Shape):
    more: Annotated[int, "m"]


def test_the_fields_of_a_shape_are_its_keys_with_their_types_and_meanings() -> None:
    expected = (
        text("name", "a"),
        whole("count", "b").or_null,
        number("pace", "c").optional,
        many("parts", "p", whole("number", "d"), flag("done", "e")),
        one("owner", "o", text("id", "i")).or_null,
        Field("names", "array", "n", items="string"),
        Field("shards", "array", "s", items="string").or_null,
        mapping("streams", "t", "integer"),
        mapping("attributes", "x", "any"),
    )
    assert fields_of(Shape) == expected
    assert fields_of(Longer) == (*expected, whole("more", "m"))


def test_a_key_that_does_not_say_what_it_means_has_no_field() -> None:
    class Silent(TypedDict):
        name: str

    with pytest.raises(AssertionError, match="name does not say what it means"):
        fields_of(Silent)
