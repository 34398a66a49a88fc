"""Each block of the pages says what it is, and blocks that nobody carries out are few and known."""

from pathlib import Path

import pytest
from docs.block_places import (
    CARRIED_OUT_ELSEWHERE,
    FROM_THE_INTERNET,
    blocks_of,
    name_of,
    pages_with_blocks,
    section_of,
)
from docs.markdown import ROOT, fences_of
from docs.notation import MarkError, Marks, is_as_expected, marks_of


@pytest.mark.parametrize("page", pages_with_blocks(), ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    unknown = []
    for fence in fences_of(page):
        try:
            marks_of(fence.info)
        except MarkError as error:
            unknown.append(f"{fence.place}: {error}")
    assert unknown == []


def test_only_known_blocks_would_get_something_from_the_internet() -> None:
    marked = {
        (name_of(page), fence.text.strip())
        for page in pages_with_blocks()
        for fence in blocks_of(page)
        if marks_of(fence.info).needs_internet
    }
    assert marked == set(FROM_THE_INTERNET)


def test_what_is_said_to_be_carried_out_elsewhere_is_there() -> None:
    sections = {section_of(fence) for page in pages_with_blocks() for fence in fences_of(page)}
    assert set(CARRIED_OUT_ELSEWHERE) <= sections
    assert [path for path in CARRIED_OUT_ELSEWHERE.values() if not (ROOT / path).exists()] == []


def test_output_is_compared_after_a_block_that_prints() -> None:
    lonely = []
    for page in pages_with_blocks():
        before = None
        for fence in fences_of(page):
            marks = marks_of(fence.info)
            if marks.is_output and (before is None or not before.is_program):
                lonely.append(fence.place)
            before = marks
    assert lonely == []


@pytest.mark.parametrize(
    ("info", "marks"),
    [
        ("console", Marks("console")),
        ("console exit=1", Marks("console", exit_code=1)),
        ("console timeout=5", Marks("console", interrupted_after_s=5)),
        ("console docker", Marks("console", needs_docker=True)),
        ("text output", Marks("text", is_output=True)),
        ("python file=app.py", Marks("python", file_name="app.py")),
    ],
)
def test_marks_are_read(info: str, marks: Marks) -> None:
    assert marks_of(info) == marks


@pytest.mark.parametrize(
    "info", ["", "shell", "console fast", "console exit=x", "text exit=1", "python docker", "json file=../a"]
)
def test_what_means_nothing_is_refused(info: str) -> None:
    with pytest.raises(MarkError):
        marks_of(info)


def test_output_is_held_to_what_the_page_shows() -> None:
    shown = "TOPIC   LAG\n…\nreaders  …\nend\n"
    assert is_as_expected(shown, "TOPIC LAG\nreaders      12\nend\n")
    assert is_as_expected(shown, "TOPIC LAG\nx\ny\nreaders 12 13\nend\n")
    assert not is_as_expected(shown, "TOPIC LAG\nreaders 12\n")
    assert not is_as_expected(shown, "TOPIC LAG\nwriters 12\nend\n")
    assert not is_as_expected("a.b", "axb")
