"""Tables and sentences of Markdown."""

import inspect
import re
from collections.abc import Sequence

MARK = "<!-- Made by `make docs` from the code. Changes made here are lost. -->"


def page(title: str, introduction: str, *parts: str) -> str:
    """A whole page."""
    return (
        "\n\n".join([f"# {title}", MARK, whole(introduction), *(part.strip("\n") for part in parts)]) + "\n"
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under headings; a cell is one line, and its bars are escaped."""
    assert all(len(row) == len(headings) for row in rows), "a row lacks a cell, or has one too many"
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def code(value: object) -> str:
    """A name or a value, set as code; nothing where it is empty."""
    return f"`{value}`" if str(value) else ""


def one_line(text: str) -> str:
    """A docstring's first paragraph, on one line."""
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


def whole(text: str) -> str:
    """A docstring, paragraphs on one line."""
    return " ".join(inspect.cleandoc(text).split())


def number(value: float) -> str:
    """As people write it: 1,048,576."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))
