"""Writes a bill of materials of each image, in CycloneDX JSON: `make sbom`.

For each image the packages of its group in pyproject.toml are installed into an environment of its own, by
the hashes of requirements.lock, as the Dockerfile does. CycloneDX describes that: names, versions,
licences, and who requires whom. What the base image holds is not in it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write <directory>/hightide-<image>.cdx.json for each image that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", nargs="+", help="the names of folders of docker/")
    parser.add_argument("--tool", required=True, help="the path of cyclonedx-py")
    parser.add_argument("--directory", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    chosen.directory.mkdir(parents=True, exist_ok=True)
    for image in chosen.images:
        path: Path = chosen.directory / f"hightide-{image}.cdx.json"
        with tempfile.TemporaryDirectory() as place:
            python = environment_of(image, Path(place))
            described = Path(place) / "image.toml"
            described.write_text(manifest(image))
            form = ["--mc-type", "application", "--output-reproducible", "--of", "JSON", "-o", str(path)]
            command = [chosen.tool, "environment", str(python), "--pyproject", str(described), *form]
            subprocess.run(command, check=True)
        count = len(json.loads(path.read_text())["components"])
        print(f"{path}: {count} packages")


def environment_of(image: str, place: Path) -> Path:
    """The Python of an environment with the packages of an image, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
    python = place / "venv" / "bin" / "python"
    # A pip of the outside, so that none is among the packages.
    wanted = [
        "--require-hashes",
        "-c",
        "requirements.lock",
        "--build-constraint",
        "requirements.lock",
        "--group",
        f"image-{image}",
    ]
    subprocess.run([*PIP, "--python", str(python), "install", *wanted], cwd=ROOT, check=True)
    return python


def manifest(image: str) -> str:
    """A pyproject.toml that describes an image as the project whose bill of materials this is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    source = (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text()
    found = re.search(r'^__version__ = "([^"]+)"', source, re.MULTILINE)
    assert found is not None, "the version is not where [tool.hatch.version] says"
    fields: dict[str, Any] = {
        "name": f"hightide-{image}",
        "version": found[1],
        "description": project["project"]["description"],
        "license": project["project"]["license"],
        "dependencies": packages_of(image, project["dependency-groups"]),
    }
    # Strings and lists of strings are written alike in TOML and in JSON.
    return "[project]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())


def packages_of(image: str, groups: dict[str, list[Any]]) -> list[str]:
    """The packages that the group of an image names, with those of the groups that it includes."""
    named: list[str] = []
    for each in groups[f"image-{image}"]:
        if isinstance(each, str):
            named.append(each)
        else:
            named += packages_of(each["include-group"].removeprefix("image-"), groups)
    return named


if __name__ == "__main__":
    main()
