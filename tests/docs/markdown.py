"""What stands in a Markdown page: its headings, links and fenced blocks."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
_EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_HTML_ANCHOR = re.compile(r"""<a\s[^>]*\b(?:id|name)=["']([^"']+)["']""")


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block: its info string, its text, and the line on which it begins."""

    page: Path
    line: int
    info: str
    text: str
    heading: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Link:
    """A link or a picture."""

    page: Path
    line: int
    target: str

    @property
    def is_external(self) -> bool:
        return bool(_EXTERNAL.match(self.target))


@cache
def tracked_pages() -> tuple[Path, ...]:
    """Each Markdown file that is in the repository, or would be."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = (ROOT / name for name in sorted(listing.stdout.split("\0")) if name)
    return tuple(path for path in paths if path.is_file())


def fences_of(page: Path) -> list[Fence]:
    fences, heading = [], ""
    tokens = _tokens(page)
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.type == "heading_open":
            heading = _text_of(token)
        if token.type == "fence":
            line = (token.map or [0])[0] + 1
            fences.append(Fence(page, line, token.info.strip(), token.content, heading))
    return fences


def links_of(page: Path) -> Iterator[Link]:
    for token in _tokens(page):
        for child in token.children or ():
            target = child.attrs.get("href") if child.type == "link_open" else None
            target = child.attrs.get("src") if child.type == "image" else target
            if target is not None:
                yield Link(page, (token.map or [0])[0] + 1, str(target))


def inline_code_of(page: Path) -> Iterator[str]:
    for token in _tokens(page):
        for child in token.children or ():
            if child.type == "code_inline":
                yield child.content


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """What a link into the page can name behind its `#`: GitHub's names of the headings."""
    anchors: set[str] = set()
    tokens = _tokens(page)
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.type == "heading_open":
            slug = re.sub(r"[^\w\- ]", "", _text_of(token).lower()).replace(" ", "-")
            number = 0
            while (name := f"{slug}-{number}" if number else slug) in anchors:
                number += 1
            anchors.add(name)
        for part in (token, *(token.children or ())):
            if part.type in {"html_inline", "html_block"}:
                anchors.update(_HTML_ANCHOR.findall(part.content))
    return frozenset(anchors)


@cache
def headings_of(page: Path) -> tuple[str, ...]:
    """The headings of a page, in their order, without their signs."""
    tokens = _tokens(page)
    return tuple(_text_of(token) for before, token in pairwise(tokens) if before.type == "heading_open")


@cache
def _tokens(page: Path) -> tuple[Token, ...]:
    return tuple(MarkdownIt("commonmark").enable("table").parse(page.read_text()))


def _text_of(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in {"text", "code_inline"})
