"""Each kind of install, in an environment of its own: that it works, what it brings, how large it is, and how
long it takes. It downloads all packages, so `make installs` runs it and `make test` does not."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from docs.own_wheel import build_wheel

pytestmark = [pytest.mark.timeout(1800)]

KINDS = ["hightide", "hightide[cli]", "hightide[server]", "hightide[dev]", "hightide[local]"]
#: What the first minute is: a record goes through a cluster on this machine.
FIRST_MINUTE = """
set -euo pipefail
hightide dev up
hightide topic create t -p 3 -r 3
echo hi | hightide topic produce t
test "$(hightide topic consume t --exit)" = hi
"""
FIRST_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Install:
    """An environment in which pip has installed one kind."""

    folder: Path
    seconds: float

    @property
    def packages(self) -> list[str]:
        """What pip has installed, without pip itself and what came with the environment."""
        listed = self.run("-m", "pip", "list", "--format", "json")
        return [each["name"] for each in json.loads(listed) if each["name"] not in ("pip", "setuptools")]

    @property
    def megabytes(self) -> float:
        """The size of its files, without those of pip."""
        (site,) = self.folder.glob("lib/python3*/site-packages")
        others = [path for path in site.iterdir() if not path.name.startswith(("pip", "setuptools"))]
        return sum(_size_of(path) for path in others) / 1e6

    def run(self, *arguments: str) -> str:
        """Run its Python."""
        command = [str(self.folder / "bin" / "python"), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


def _size_of(path: Path) -> int:
    if path.is_dir():
        return sum(each.lstat().st_size for each in path.rglob("*") if each.is_file())
    return path.lstat().st_size


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def install(kind: str, wheel: Path, folder: Path) -> Install:
    """What a newcomer does: an environment, and pip without anything in its cache."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    extra = kind.removeprefix("hightide")
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    subprocess.run([*command, f"{wheel}{extra}"], check=True, timeout=1200)
    return Install(folder, time.monotonic() - began)


@pytest.mark.parametrize("kind", KINDS)
def test_an_install_is_whole_and_says_how_large_it_is(kind: str, wheel: Path, tmp_path: Path) -> None:
    made = install(kind, wheel, tmp_path / "environment")
    made.run("-m", "pip", "check")
    assert made.run("-c", "import hightide; print(hightide.__version__)").strip()
    packages = made.packages
    assert ("pyspark" in packages) == (kind == "hightide[local]")
    with_size = f"{len(packages)} packages, {made.megabytes:,.0f} MB, {made.seconds:.0f} s"
    sys.stderr.write(f"\n{kind}: {with_size}\n")


def test_from_a_clean_environment_to_the_first_record_within_a_minute(wheel: Path, tmp_path: Path) -> None:
    """Acceptance point 1, without Spark, Docker and Maven, and with nothing in a cache."""
    home = tmp_path / "home"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HIGHTIDE_", "XDG_"))}
    began = time.monotonic()
    made = install("hightide[dev]", wheel, tmp_path / "environment")
    commands = made.folder / "bin"
    environment = kept | {"HOME": str(home), "PATH": os.pathsep.join([str(commands), os.environ["PATH"]])}
    try:
        subprocess.run(["bash", "-c", FIRST_MINUTE], env=environment, check=True, timeout=600)
    finally:
        down = [str(commands / "hightide"), "dev", "down", "--delete"]
        subprocess.run(down, env=environment, check=True, timeout=120)
    taken_s = time.monotonic() - began
    sys.stderr.write(f"\nthe first record after {taken_s:.0f} s, {made.seconds:.0f} s of them for pip\n")
    assert taken_s < FIRST_MINUTE_S
