"""Every link of every Markdown page leads somewhere."""

from pathlib import Path
from urllib.parse import unquote

import pytest
from docs.markdown import ROOT, anchors_of, links_of, tracked_pages

#: Pages that quote what stands elsewhere.
PAGES = [page for page in tracked_pages() if "seeds" not in page.parts]


def missing_of(page: Path) -> list[str]:
    """Each relative link of a page of which the file, or the heading, is not there."""
    missing = []
    for link in links_of(page):
        if link.is_external:
            continue
        path, _, anchor = unquote(link.target).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            missing.append(f"{page.name}:{link.line}: {link.target}: no such file")
        elif anchor and (target.suffix != ".md" or anchor not in anchors_of(target)):
            missing.append(f"{page.name}:{link.line}: {link.target}: no such heading")
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert missing_of(page) == []


def test_links_to_other_sites_are_few() -> None:
    """They are not followed, so they may be dead: the pages get by without them. The table of KIPs may."""
    external = {
        link.target
        for page in PAGES
        for link in links_of(page)
        if link.is_external
        and not (page.name == "sources.md" and link.target.startswith("https://cwiki.apache.org/"))
    }
    assert len(external) <= 20, sorted(external)


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two` three\n\n[there](page.md#one-two-three) [also](#one-two-three) [site](https://a.example)\n\n"
        "[no file](other.md)\n![no picture](a.svg) [no heading](#four)\n"
    )
    assert [text.rpartition(": ")[0] for text in missing_of(page)] == [
        "page.md:5: other.md",
        "page.md:5: a.svg",
        "page.md:5: #four",
    ]


def test_every_page_of_the_folder_is_in_its_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.target.partition("#")[0]).resolve() for link in links_of(index)}
    pages = {page for page in PAGES if page.is_relative_to(index.parent) and page != index}
    assert pages - linked == set()
