"""Results as text: aligned tables for people, one JSON document for programs.

No rich here: importing it costs more than most commands take.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Cell: TypeAlias = str | int | float | bool | Sequence[int] | None
Shape: TypeAlias = Mapping[str, object]
"""A TypedDict of `hightide_cli.documents` is one."""
Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | Shape | None"

_GAP = "  "


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Align rows under headings, numbers to the right, even if some rows have none. Without rows, only the
    headings are printed."""
    texts = [[cell_text(cell) for cell in row] for row in rows]
    assert all(len(row) == len(headings) for row in texts), "a row lacks a cell, or has one too many"
    widths = [max([len(heading), *(len(row[at]) for row in texts)]) for at, heading in enumerate(headings)]
    right = [_is_of_numbers([row[at] for row in rows]) for at in range(len(headings))]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        )
        return _GAP.join(aligned).rstrip()

    return "\n".join([line([heading.upper() for heading in headings]), *(line(row) for row in texts)])


def _is_of_numbers(column: Sequence[Cell]) -> bool:
    known = [cell for cell in column if cell is not None]
    return bool(known) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known)


def properties(pairs: Sequence[tuple[str, Cell]]) -> str:
    """Print names and values, one on each line, values aligned."""
    width = max((len(name) for name, _ in pairs), default=0)
    return "\n".join(f"{name.ljust(width)}{_GAP}{cell_text(value)}".rstrip() for name, value in pairs)


def cell_text(cell: Cell) -> str:
    """Return one cell as a person reads it: no value is `-`, fractions have one decimal or three digits.
    Control characters are escaped, because hosts, names and the content of ZooKeeper come from others."""
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case float():
            return f"{cell:.1f}" if abs(cell) >= 100 else f"{cell:.3g}"
        case int():
            return str(cell)
        case str():
            return printable(cell)
        case _:
            return printable(",".join(map(str, cell)))


def json_line(document: Json) -> str:
    """Return a document as JSON on one line, keys in the order given."""
    return printable_json(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def printable_json(text: str) -> str:
    """Return the same JSON with control characters written as JSON's own escapes: `json` itself escapes only
    those below U+0020, and values come from records."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def bytes_field(name: str, value: bytes | None) -> dict[str, Json]:
    """Return bytes as a JSON field: text if it is UTF-8, otherwise base64 under `<name>_base64`."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        import base64

        return {f"{name}_base64": base64.b64encode(value).decode()}


def printable(text: str) -> str:
    """Return the same text with control characters escaped: for text from others."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
