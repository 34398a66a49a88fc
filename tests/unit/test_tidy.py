"""The style of the project, as far as a program can see it (CONTRIBUTING.md, "Style by numbers")."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = "_pb2"
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600

# Each banned text with what to write instead. The pattern is held against every line of Python outside
# the files named.
BANNED: dict[str, tuple[str, tuple[str, ...]]] = {
    r"\bFIXME\b|\bTODO\b|\bXXX\b": ("finish it, or write an issue", ("tests/unit/test_tidy.py",)),
    r"[\"']/(brokers|controller|admin|config|consumers|cluster|producer_ids)\b": (
        "spell ZooKeeper paths in hightide_runtime.znodes only",
        (
            "services/runtime/hightide_runtime/znodes/cluster_znodes.py",
            "services/runtime/hightide_runtime/znodes/admin_znodes.py",
            "services/runtime/hightide_runtime/znodes/group_znodes.py",
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


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        name
        for name, path in python_files()
        if not name.startswith("tests/") and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert silent == []


def test_no_module_is_longer_than_one_concept() -> None:
    long = {name: len(path.read_text().splitlines()) for name, path in python_files()}
    assert {name: lines for name, lines in long.items() if lines > MODULE_LINES_MAX} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{name}:{node.name}": lines
        for name, path in python_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert long == {}


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
