"""Whatever tests and images install from others has its version and its hashes in requirements.lock."""

import re
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
LOCKS = ("requirements.lock", "docker/supply-chain.lock")
_ENTRY = re.compile(
    r"^([\w.-]+)==(\S+)(?: ; [^\\\n]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M
)


@cache
def locked(path: str) -> dict[str, str]:
    """The version of each package of a lock. A line that is no comment and no pin with hashes is an error."""
    text = (ROOT / path).read_text()
    left = [line for line in _ENTRY.sub("", text).splitlines() if line and not line.lstrip().startswith("#")]
    assert left == [], "pins without hashes; run `make lock`"
    return {canonicalize_name(name): pinned for name, pinned, _ in _ENTRY.findall(text)}


@cache
def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {canonicalize_name(name): pinned for name, pinned in (line.split("==") for line in lines)}


@cache
def project() -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return loaded


def asked_for() -> list[Requirement]:
    """What pyproject.toml names: to run, for each extra, for tests and images, and to build."""
    described = project()
    named = [
        *described["build-system"]["requires"],
        *described["project"]["dependencies"],
        "editables",
        "pip",
    ]
    for extra in described["project"]["optional-dependencies"].values():
        named += extra
    for group in described["dependency-groups"].values():
        named += [each for each in group if isinstance(each, str)]
    return [each for each in map(Requirement, named) if each.name != "hightide"]


def closure() -> dict[str, set[str]]:
    """Those, and what they require here, by name; with who requires each."""
    found: dict[str, set[str]] = {}
    todo = [("pyproject.toml", each) for each in asked_for()]
    while todo:
        whose, each = todo.pop()
        name = canonicalize_name(each.name)
        is_new = name not in found
        found.setdefault(name, set()).add(whose)
        if is_new or each.extras:
            todo += [(name, inner) for inner in _required_by(name, each.extras)]
    return found


def _required_by(name: str, extras: set[str]) -> list[Requirement]:
    try:
        all_of_it = list(map(Requirement, requires(name) or ()))
    except PackageNotFoundError:
        return []
    return [
        each
        for each in all_of_it
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


@pytest.mark.parametrize("path", LOCKS)
def test_each_package_of_a_lock_has_one_version_and_hashes(path: str) -> None:
    assert len(locked(path)) > 20


def test_the_lock_has_the_versions_of_the_constraints() -> None:
    lock = locked("requirements.lock")
    differing = {
        name: (pinned, lock.get(name)) for name, pinned in constraints().items() if lock.get(name) != pinned
    }
    assert differing == {}, "run `make lock`"


def test_the_constraints_name_all_that_is_asked_for_and_what_it_requires() -> None:
    missing = {name: whose for name, whose in closure().items() if name not in constraints()}
    assert missing == {}, "give them a version in constraints.txt, and run `make lock`"


def test_what_is_installed_here_has_the_versions_of_the_constraints() -> None:
    differing = {}
    for name, pinned in constraints().items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            continue
        if installed != pinned:
            differing[name] = (pinned, installed)
    assert differing == {}


@pytest.mark.parametrize("path", sorted(ROOT.glob("docker/*/Dockerfile")), ids=lambda path: path.parent.name)
def test_an_image_installs_nothing_from_others_without_hashes(path: Path) -> None:
    steps = re.split(r"&&|^RUN ", path.read_text(), flags=re.M)
    commands = [step for step in steps if "pip install " in step]
    assert len(commands) == 3
    for command in commands:
        is_our_own = "--no-deps" in command and "--build-constraint requirements.lock" in command
        assert "--require-hashes" in command or is_our_own, command


def test_setting_up_checks_the_hashes_of_all_that_the_lock_has() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert (
        "$(PIP_INSTALL) --require-hashes --no-deps --build-constraint requirements.lock -r requirements.lock"
        in makefile
    )
