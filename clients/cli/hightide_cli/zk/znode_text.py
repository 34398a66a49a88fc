"""Znodes as text. Their content was written by others, so only printable text of it reaches a terminal.
Pure."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hightide_cli.documents.cluster import ZnodeDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.rendering import Shape, bytes_field, printable

if TYPE_CHECKING:
    from hightide_cli.zk.znode_reader import Znode

_BEGINNING_MAX: Final = 100


def tree_lines(znodes: "Sequence[Znode]", *, with_values: bool) -> Iterator[str]:
    """One line for each znode, indented by its depth."""
    for each in znodes:
        name = each.path if not each.depth else each.path.rpartition("/")[2]
        mark = " (ephemeral)" if each.is_ephemeral else ""
        value = f"  {beginning(each.data)}" if with_values and each.data else ""
        yield f"{'  ' * each.depth}{printable(name)}{mark}{value}"


def beginning(data: bytes) -> str:
    """The beginning of a znode's content, on one line."""
    text = printable(" ".join(data[: 4 * _BEGINNING_MAX].decode(errors="replace").split()))
    return text if len(text) <= _BEGINNING_MAX else f"{text[: _BEGINNING_MAX - 1]}…"


def value_text(data: bytes) -> str:
    """The whole content of a znode: JSON with its indentation, other text as it is, the rest as
    hexadecimal."""
    try:
        return json.dumps(json.loads(data), indent=2, ensure_ascii=True)
    except (ValueError, RecursionError):
        pass
    try:
        return "\n".join(printable(line) for line in data.decode().splitlines())
    except UnicodeDecodeError:
        return data.hex(" ")


def cut_line(znode: "Znode") -> str | None:
    """How much of a long content is shown; None if all of it is."""
    shown = len(znode.data)
    return (
        None
        if shown == znode.size_bytes
        else f"only the first {shown:,} of {znode.size_bytes:,} bytes are shown"
    )


def znode_document(znode: "Znode", *, with_value: bool) -> Shape:
    """One znode for programs."""
    return {**view(ZnodeDocument, znode), **(bytes_field("data", znode.data) if with_value else {})}
