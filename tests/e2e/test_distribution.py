"""What `pip install hightide` gives: the wheel, with the packages that it requires and no others."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import hightide
import pytest
from hightide_local.cluster import LocalCluster
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

ROUND_TRIP = """
import sys
from hightide import Consumer, Producer, __version__
bootstrap, topic = sys.argv[1:]
with Producer(bootstrap) as producer:
    producer.send(topic, b"from a clean environment", key=b"k")
with Consumer(bootstrap, topics=topic) as consumer:
    print(__version__, [record.value for record in consumer.read_to_end()])
"""


def built(target: str, source: Path, into: Path) -> Path:
    """The distribution of this kind, as pip builds it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    (made,) = into.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def required_by(name: str) -> set[str]:
    """This distribution, and those that it requires without any extra."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each in found:
            continue
        found.add(each)
        for line in metadata.requires(each) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of packages with the wheel and what it requires, as pip would make it."""
    into = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(into)
    for name in required_by("hightide") - {"hightide"}:
        files = metadata.files(name)
        assert files is not None, f"{name} was not installed from a wheel"
        for file in files:
            if ".." in file.parts or file.suffix == ".pyc":
                continue
            link = into / file
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(Path(str(file.locate())))
    return into


def python(site: Path, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a program that finds the standard library and this directory only."""
    return subprocess.run(
        [sys.executable, "-S", "-c", program, *arguments],
        env={"PYTHONPATH": str(site), "PATH": ""},
        cwd=site,
        capture_output=True,
        text=True,
        timeout=120,
    )


def scripts() -> list[tuple[str, str, str]]:
    """Each command with its module and the extra that it needs."""
    return [
        (name, entry.partition(":")[0], "cli" if name == "hightide" else "server")
        for name, entry in PROJECT["scripts"].items()
    ]


@pytest.mark.cluster
def test_a_program_of_the_sdk_needs_nothing_but_what_pip_installs(
    hightide_cluster: LocalCluster, site: Path, hightide_topic: str
) -> None:
    done = python(site, ROUND_TRIP, hightide_cluster.bootstrap, hightide_topic)
    assert (done.stderr, done.stdout) == ("", f"{hightide.__version__} [b'from a clean environment']\n")


@pytest.mark.parametrize(("command", "module", "extra"), scripts())
def test_a_command_without_its_packages_says_in_one_sentence_which_extra_brings_them(
    site: Path, command: str, module: str, extra: str
) -> None:
    """It ended in a traceback."""
    done = python(site, f"from {module} import main; main()", "--help")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{command} needs the package ")
    assert done.stderr.endswith(f": pip install 'hightide[{extra}]'\n")
    assert done.stderr.count("\n") == 1


def test_there_are_four_commands() -> None:
    assert len(scripts()) == 4


def test_the_plugin_of_pytest_disturbs_nobody_who_has_the_sdk_only(site: Path) -> None:
    plugin = PROJECT["entry-points"]["pytest11"]["hightide"]
    stand_in = "import sys, types; sys.modules['pytest'] = types.SimpleNamespace(%s)"
    names = "fixture=lambda *a, **k: (lambda f: f), hookimpl=lambda *a, **k: (lambda f: f), StashKey=dict"
    done = python(site, f"{stand_in % names}; import {plugin}")
    assert done.stderr == ""


def test_the_wheel_says_its_version_and_its_licence_and_caps_nothing(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        (stem,) = {name.partition("/")[0] for name in packed.namelist() if ".dist-info/" in name}
        said = packed.read(f"{stem}/METADATA").decode()
        licence = packed.read(f"{stem}/licenses/LICENSE").decode()
    assert f"\nVersion: {hightide.__version__}\n" in said
    assert "\nLicense-Expression: Apache-2.0\n" in said
    assert "Apache License" in licence
    required = [Requirement(line.split(": ", 1)[1]) for line in said.splitlines() if "Requires-Dist" in line]
    sdk = [each for each in required if each.marker is None]
    assert {each.name for each in sdk} >= {"grpcio", "protobuf", "pyarrow"}
    assert [str(each) for each in sdk if any(limit.operator in ("<", "<=") for limit in each.specifier)] == []


def test_the_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    source = built("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(source) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    again = built("wheel", unpacked, tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(again) as theirs:
        assert sorted(ours.namelist()) == sorted(theirs.namelist())
