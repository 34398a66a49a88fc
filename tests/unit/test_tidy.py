"""The style of the project, as far as a program can see it (CONTRIBUTING.md, "Style by numbers")."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from docs.markdown import anchors_of, headings_of, inline_code_of

ROOT = Path(__file__).resolve().parents[2]
GENERATED = "_pb2"
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600
OVERVIEW_LINES_MAX = 300

# Each banned text with what to write instead. The pattern is held against every line of Python outside
# the files named.
BANNED: dict[str, tuple[str, tuple[str, ...]]] = {
    r"\bFIXME\b|\bTODO\b|\bXXX\b": ("finish it, or write an issue", ("tests/unit/test_tidy.py",)),
    r"[\"']/(brokers|controller|admin|config|consumers|cluster|producer_ids)\b": (
        "spell ZooKeeper paths in hightide_runtime.znodes only",
        (
            "services/runtime/hightide_runtime/znodes/",
            "tests/",
        ),
    ),
    r"^\s*except\s*:": ("name the exceptions", ()),
    r"\btime\.sleep\(|\basyncio\.sleep\((?!0\))": (
        "wait for the event, with a bound",
        ("clients/", "services/", "bench/", "tests/unit/test_tidy.py"),
    ),
    r"\bunittest\.mock\b|\bMagicMock\b": ("use the real part", ("tests/unit/test_tidy.py",)),
}
# Texts that must stand in no tracked file at all: hosts of registries, folders of one machine.
NOWHERE = re.compile(
    r"files\.pythonhosted\.org|\bpypi\.org\b|registry\.npmjs\.org|repo1?\.maven|(?<![\w.])/(work|farm|root|home)/\w"
)

# What citations resolve to: a heading or a passage for each part of the texts, and a row for each KIP.
SOURCES = ROOT / "docs" / "sources.md"
_STEP = r"[A-H](?:\.\d+)*\b"
_AND = r"(?:, and | and | to |, )"
V3_LETTERS = re.compile(rf"\bV3(?:'s|,)? (?:sections? |letters? )?({_STEP}(?:{_AND}{_STEP})*)")
V3_NUMBERS = re.compile(rf"\bV3(?:'s|,)? ([Dd]iscussion|[Pp]ath)s? (\d(?:{_AND}\d)*)")
V3_NAMES = re.compile(r"\bV3(?:'s)? ([a-z]+_?[A-Z]\w+|[A-Z][a-z]+[A-Z]\w+|[A-Z]+_[A-Z_]+|Terminologies)\b")
SECTIONS = re.compile(r"§(\d+(?:\.\d+)*)(?: step (\d+(?:\.\d+)*))?(?: ([a-z]+[A-Z]\w+))?")
FLAWS = re.compile(r"\bC\d{1,2}\b")
KIPS = re.compile(r"\bKIP-\d+\b")
# A page of the repository, with an anchor or with a heading in quotation marks behind it, or neither.
PAGES = re.compile(
    r"(?<![\w./-])((?:(?:docs|services|clients|bench|docker|tests)/[\w./-]+|ARCHITECTURE|CONTRIBUTING|README)\.md)"
    r"(?:#([a-z0-9][\w-]*)|, \"([^\"\n]+)\")?"
)


@cache
def tracked_files() -> tuple[Path, ...]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = (name for name in listing.stdout.split("\0") if name)
    return tuple(path for path in (ROOT / name for name in names) if path.is_file())


def python_files() -> Iterator[tuple[str, Path]]:
    for path in tracked_files():
        if path.suffix == ".py" and GENERATED not in path.name:
            yield path.relative_to(ROOT).as_posix(), path


@cache
def functions_and_silent_modules() -> tuple[dict[str, int], frozenset[str]]:
    """How many lines each function has, by module and name, and the modules without a docstring."""
    lines_of: dict[str, int] = {}
    silent = set()
    for name, path in python_files():
        module = ast.parse(path.read_text())
        if ast.get_docstring(module) is None:
            silent.add(name)
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                key = f"{name}:{node.name}"
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                lines_of[key] = max(lines, lines_of.get(key, 0))
    return lines_of, frozenset(silent)


def test_every_module_says_what_it_is_for() -> None:
    _, silent = functions_and_silent_modules()
    assert [name for name in silent if not name.startswith("tests/")] == []


def test_no_module_is_longer_than_one_concept() -> None:
    long = {name: len(path.read_text().splitlines()) for name, path in python_files()}
    assert {name: lines for name, lines in long.items() if lines > MODULE_LINES_MAX} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    lines_of, _ = functions_and_silent_modules()
    assert {key: lines for key, lines in lines_of.items() if lines > FUNCTION_LINES_MAX} == {}


@pytest.mark.parametrize("pattern", BANNED)
def test_banned_texts_stand_nowhere(pattern: str) -> None:
    instead, allowed = BANNED[pattern]
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, path in python_files()
        if not name.startswith(allowed or ("\0",))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert found == [], instead


def test_frozen_values_of_a_core_are_structs_unless_equality_leaves_a_field_out() -> None:
    slow = []
    for name, path in python_files():
        if not re.match(r"services/\w+/\w+/core/", name):
            continue
        source = path.read_text()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                decorators = [ast.unparse(each) for each in node.decorator_list]
                is_frozen = any(each.startswith("dataclass") and "frozen=True" in each for each in decorators)
                if is_frozen and "compare=False" not in ast.unparse(node):
                    slow.append(f"{name}: {node.name}")
    assert slow == []


def test_no_tracked_file_names_a_registry_or_a_folder_of_one_machine() -> None:
    found = []
    for path in tracked_files():
        if path == Path(__file__) or path.suffix in {".png", ".ico"}:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if NOWHERE.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert found == []


def test_rooms_are_named_for_what_they_hold() -> None:
    vague = re.compile(r"(^|_)(utils?|helpers?|common|misc|managers?)(_|\.|$)")
    assert [name for name, path in python_files() if vague.search(path.name)] == []


# -- citations ----------------------------------------------------------------------------------------------


def prose_files() -> Iterator[tuple[str, str]]:
    """Each file in which people explain something, as its name and its text on one line."""
    for path in tracked_files():
        if path.suffix in {".py", ".md", ".proto", ".toml"} and path not in {SOURCES, Path(__file__)}:
            yield path.relative_to(ROOT).as_posix(), on_one_line(path.read_text())


def on_one_line(text: str) -> str:
    """The text without its line breaks and the signs of comments behind them, so that no citation is torn."""
    return re.sub(r"\s*\n\s*(?:(?:#:?|//)\s)?\s*", " ", text)


def parts_cited(prose: str) -> set[str]:
    """The parts of the source texts that a text cites, each as it stands in docs/sources.md."""
    cited = set(FLAWS.findall(prose)) | set(V3_NAMES.findall(prose))
    for letters in V3_LETTERS.findall(prose):
        cited.update(f"V3 {step}" if len(step) == 1 else step for step in re.findall(_STEP, letters))
    for kind, numbers in V3_NUMBERS.findall(prose):
        cited.update(f"V3 {kind.lower()} {number}" for number in re.findall(r"\d", numbers))
    for section, step, name in SECTIONS.findall(prose):
        cited.add(f"§{section}.{step}" if step else f"§{section}")
        cited.update({name} - {""})
    return cited


@cache
def parts_explained() -> frozenset[str]:
    """The parts that docs/sources.md explains: those of its headings, and what its passages name."""
    titles = {heading.partition(":")[0] for heading in headings_of(SOURCES)}
    page = SOURCES.read_text()
    paths = page.partition("### V3 Paths")[2].partition("\n#")[0]
    return frozenset(
        {title.removeprefix("Consumer coordinator ") for title in titles}
        | {f"V3 path {number}" for number in re.findall(r"^(\d)\. ", paths, re.MULTILINE)}
        | set(re.findall(r"\b[A-H](?:\.\d+)+\b", page))
        | set(re.findall(r"§\d+(?:\.\d+)+", page))
        | set(re.findall(r"\b[A-Za-z]+_?[A-Z]\w+\b", page))
    )


def test_a_citation_is_read_in_each_of_the_ways_in_which_it_is_written() -> None:
    prose = on_one_line(
        "(V3 C, E and A.3.2; V3\n    # section G), V3 discussion 4, V3's paths 3, 5 and 6,\n"
        "V3's StopReplica, consumer coordinator §9.4 (§9 step 4.6), §10 handleNewSession; C7"
    )
    assert parts_cited(prose) == {
        *("V3 C", "V3 E", "A.3.2", "V3 G", "V3 discussion 4", "V3 path 3", "V3 path 5", "V3 path 6"),
        *("StopReplica", "§9.4", "§9.4.6", "§10", "handleNewSession", "C7"),
    }


def test_no_file_refers_to_a_design_document_that_is_not_in_the_repository() -> None:
    reference = re.compile(rb"DESIGN(\.md|\s*\xc2\xa7|\s+\d)")
    found = [
        path for path in tracked_files() if path != Path(__file__) and reference.search(path.read_bytes())
    ]
    assert found == []


def test_every_part_of_the_source_texts_that_is_cited_is_explained() -> None:
    found = {
        name: missing for name, prose in prose_files() if (missing := parts_cited(prose) - parts_explained())
    }
    assert found == {}


def test_the_table_of_kips_has_those_that_are_named_and_no_others() -> None:
    named = {kip for _, prose in prose_files() for kip in KIPS.findall(prose)}
    assert set(re.findall(r"\[(KIP-\d+)\]\(https://cwiki\.apache\.org/", SOURCES.read_text())) == named


def test_every_page_and_heading_that_code_or_prose_names_is_there() -> None:
    found = [
        f"{name}: {page}#{anchor}{heading}"
        for name, prose in prose_files()
        for page, anchor, heading in PAGES.findall(prose)
        if not page_has(ROOT / page, anchor, heading)
    ]
    assert found == []


def page_has(page: Path, anchor: str, heading: str) -> bool:
    if not page.is_file():
        return False
    return (not anchor or anchor in anchors_of(page)) and (not heading or heading in headings_of(page))


def test_every_module_that_a_page_names_is_there() -> None:
    """A page may name it by the end of its path alone: the room is clear from where it says so."""
    modules = {name for name, _ in python_files()}
    found = [
        f"{page.relative_to(ROOT)}: {code}"
        for page in tracked_files()
        if page.suffix == ".md"
        for code in inline_code_of(page)
        if re.fullmatch(r"[\w/]+\.py", code) and not any(f"/{name}".endswith(f"/{code}") for name in modules)
    ]
    assert found == []


def test_the_overview_is_short_enough_to_be_read_in_one_sitting() -> None:
    """What is to be said of one room stands on its page in docs/design/."""
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= OVERVIEW_LINES_MAX
