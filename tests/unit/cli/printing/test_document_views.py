"""A document that shows an object has the values of that object, and each shape fits the objects it shows."""

import ast
import inspect
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import hightide
import hightide_cli
import pytest
from hightide import errors, servers
from hightide_cli.broker.tables import DirectoryRow
from hightide_cli.config.topic_settings import SettingInUse
from hightide_cli.doctor.findings import Finding
from hightide_cli.documents import access, cluster, groups, moves, partitions
from hightide_cli.documents.view import Shows, shown, view
from hightide_cli.reassign import plan, progress
from hightide_cli.top import history
from hightide_cli.zk.znode_reader import Znode
from hightide_local import certificates, detached

SHOWN: dict[type, type] = {
    access.AclDocument: hightide.Acl,
    cluster.BrokerDocument: hightide.BrokerDescription,
    cluster.CertificateDocument: certificates.CertificateDescription,
    cluster.ClusterDocument: hightide.ClusterDescription,
    cluster.ComplaintDocument: hightide.Complaint,
    cluster.ControllerDocument: hightide.ClusterDescription,
    cluster.FindingDocument: Finding,
    cluster.GroupPaceDocument: history.GroupPace,
    cluster.LocalProcessDocument: detached.ProcessStatus,
    cluster.LogDirectoryDocument: DirectoryRow,
    cluster.ServerDocument: servers.ServerDescription,
    cluster.ServerSettingDocument: hightide.ServerSetting,
    cluster.TopicSettingDocument: SettingInUse,
    cluster.TrafficDocument: history.Traffic,
    cluster.ZnodeDocument: Znode,
    groups.ListedGroupDocument: hightide.GroupListing,
    groups.PartitionLagDocument: hightide.PartitionLag,
    moves.MoveDocument: hightide.Reassignment,
    moves.MoveProgressDocument: progress.MoveProgress,
    moves.PlannedMoveDocument: plan.Move,
    partitions.DescribedTopicDocument: hightide.TopicDescription,
}
"""Each shape that a command views, with the class of the objects that it shows."""

NAMES = {**vars(errors), **vars(servers), **vars(hightide)}


class Color(Enum):
    RED = "red"


@dataclass(frozen=True)
class Part:
    number: int


@dataclass(frozen=True)
class Whole:
    part: Part
    parts: tuple[Part, ...]
    name: str
    host: str
    color: Color
    ident: bytes
    pace: float
    labels: Mapping[str, str]


class PartDocument(TypedDict):
    part: Annotated[int, Shows("number"), "its number"]


class WholeDocument(TypedDict):
    number: Annotated[int, Shows("part.number"), "of the part"]
    whole: Annotated[PartDocument, Shows("part"), "the part"]
    itself: Annotated["NameDocument", Shows(""), "the name"]
    parts: Annotated[Sequence[PartDocument], "all"]
    color: Annotated[str, "its color"]
    ident: Annotated[str, "hexadecimal"]
    pace: Annotated[float, Shows("pace", decimals=1), "with one decimal"]
    host: Annotated[str | None, Shows("host", or_null=True), "null where it is not known"]
    labels: Annotated[Mapping[str, str], "its labels"]


class NameDocument(TypedDict):
    name: Annotated[str, "its name"]


def test_a_view_shows_the_attributes_that_its_keys_name_in_the_order_of_the_keys() -> None:
    whole = Whole(Part(1), (Part(2), Part(3)), "n", "", Color.RED, b"\xff", 1.25, types.MappingProxyType({}))
    document = view(WholeDocument, whole)
    assert list(document) == list(WholeDocument.__annotations__)
    assert document == {
        "number": 1,
        "whole": {"part": 1},
        "itself": {"name": "n"},
        "parts": [{"part": 2}, {"part": 3}],
        "color": "red",
        "ident": "ff",
        "pace": 1.2,
        "host": None,
        "labels": {},
    }
    assert type(document["labels"]) is dict


def test_every_shape_that_is_viewed_is_held_to_the_class_that_it_shows() -> None:
    viewed = set()
    own = Path(inspect.getfile(view))  # It views the shapes within a shape.
    for path in {*Path(hightide_cli.__file__).parent.rglob("*.py")} - {own}:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "view":
                assert isinstance(node.args[0], ast.Name), f"{path} views what is no shape by name"
                viewed.add(node.args[0].id)
    assert viewed == {each.__name__ for each in SHOWN}


@pytest.mark.parametrize("shape", SHOWN, ids=lambda shape: shape.__name__)
def test_a_shape_fits_what_it_shows(shape: type) -> None:
    assert misfits(shape, SHOWN[shape]) == []


def test_a_shape_that_does_not_fit_is_told() -> None:
    class Wrong(TypedDict):
        number: Annotated[str, "an int"]

    class Gone(TypedDict):
        length: Annotated[int, "not there"]

    assert misfits(Wrong, Part) == ["number is declared as str, and shows int"]
    with pytest.raises(KeyError, match="length"):
        misfits(Gone, Part)


def misfits(shape: type, source: Any) -> list[str]:
    """The keys of which the type is not that of what they show, as JSON has it."""
    found: list[str] = []
    for name, hint in get_type_hints(shape, include_extras=True).items():
        kind, *notes = get_args(hint)
        shows = shown(name, notes)
        given = source if not shows.attribute else type_of(source, shows.attribute)
        if is_typeddict(kind):
            found += misfits(kind, given)
        elif get_origin(kind) is Sequence and is_typeddict(get_args(kind)[0]):
            found += misfits(get_args(kind)[0], get_args(given)[0])
        elif not fits(kind, as_json(given), may_be_null=shows.or_null):
            found.append(f"{name} is declared as {kind.__name__}, and shows {given.__name__}")
    return found


def type_of(source: type, path: str) -> Any:
    """The type of an attribute, or of one of an attribute's."""
    name, _, rest = path.partition(".")
    declared = getattr(source, name, None)
    if isinstance(declared, property):
        found = get_type_hints(declared.fget, localns=NAMES)["return"]
    else:
        found = get_type_hints(source, localns=NAMES)[name]
    return type_of(found, rest) if rest else found


def as_json(kind: Any) -> Any:
    """The type of a value in a document."""
    origin = get_origin(kind)
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, bytes | Enum)):
        return str
    if origin is tuple:
        return types.GenericAlias(Sequence, get_args(kind)[:1])
    return kind


def fits(declared: Any, given: Any, *, may_be_null: bool) -> bool:
    if may_be_null:
        return bool(get_origin(declared) in (Union, types.UnionType)) and declared == (given | None)
    is_one_of = get_origin(declared) is types.UnionType and given in get_args(declared)
    return bool(declared == given) or is_one_of
