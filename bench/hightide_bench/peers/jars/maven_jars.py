"""Gets the jars of a pom by Maven into a cache folder, and checks each against its SHA-256 sum.

Nothing of it is in the repository but the poms and the sums. A folder whose jars are as the sums say is used
again, without Maven.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from hightide_local.errors import ClusterError
from hightide_local.jars.pinned_jars import checked, digest_of

KAFKA_VERSION: Final = "4.3.1"
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_NAMESPACE: Final = {"maven": "http://maven.apache.org/POM/4.0.0"}
_DOWNLOAD_S: Final = 600.0
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that belong together: a pom with pinned versions, and the sums of all jars that it stands for."""

    name: str
    """`kafka` or `spark`. The files `<name>-pom.xml` and `<name>.sha256` lie beside this module."""
    what: str
    """What the jars are, for messages."""

    @property
    def pom(self) -> Path:
        """The pom."""
        return _HERE / f"{self.name}-pom.xml"

    @property
    def sums(self) -> dict[str, str]:
        """The SHA-256 sum of each jar, by file name."""
        return read_sums((_HERE / f"{self.name}.sha256").read_text())


KAFKA: Final = JarSet("kafka", f"Apache Kafka {KAFKA_VERSION}")
SPARK: Final = JarSet("spark", "Spark's Kafka source")


def jars_of(jars: JarSet, cache: Path) -> list[Path]:
    """Return the jars in the cache folder, after Maven has downloaded them if they are not there.

    Raises ClusterError in one line if Maven is missing, if it fails, or if a jar is not the one that was
    pinned.
    """
    directory = cache / f"{jars.name}-{digest_of(jars.sums)}"
    if not directory.is_dir():
        _download(jars, cache, directory)
    return checked(directory, jars.what, jars.sums)


def read_sums(text: str) -> dict[str, str]:
    """Read the output of `sha256sum`: the sum of each file by its name."""
    sums = {}
    for line in text.splitlines():
        digest, _, name = line.partition("  ")
        assert len(digest) == hashlib.sha256().digest_size * 2, line
        assert name == Path(name).name, line
        sums[name] = digest
    return sums


def coordinates_of(pom: Path) -> list[str]:
    """Return what a pom asks for, as group:artifact:version."""
    dependencies = ElementTree.parse(pom).getroot().findall("maven:dependencies/maven:dependency", _NAMESPACE)
    return [
        ":".join(
            each.findtext(f"maven:{part}", "", _NAMESPACE) for part in ("groupId", "artifactId", "version")
        )
        for each in dependencies
    ]


def maven(environment: Mapping[str, str] | None = None) -> Path:
    """The command `mvn` on $PATH. Raises ClusterError in one sentence if there is none."""
    found = shutil.which("mvn", path=(os.environ if environment is None else environment).get("PATH", ""))
    if found is None:
        raise ClusterError(
            "no Maven found, which downloads Apache Kafka by its coordinates: install `mvn`, and a JDK 17"
        )
    return Path(found)


def _download(jars: JarSet, cache: Path, directory: Path) -> None:
    """Let Maven copy the jars into a folder beside, which gets its name when all of them are there."""
    program = maven()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="download-", dir=cache) as download:
        copied = Path(download, "jars")
        command = [
            *(str(program), "--batch-mode", "--quiet", "--file", str(jars.pom)),
            f"-Dmaven.repo.local={Path(download, 'repository')}",
            *(_PLUGIN, f"-DoutputDirectory={copied}", "-DincludeScope=runtime"),
        ]
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_DOWNLOAD_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise ClusterError(f"Maven did not download {jars.what} within {_DOWNLOAD_S:.0f} s") from None
        if run.returncode or not copied.is_dir():
            raise ClusterError(f"Maven could not download {jars.what}: {_first_error(run.stdout)}")
        copied.replace(directory)


def _first_error(output: str) -> str:
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return errors[0].removeprefix("[ERROR]").strip() if errors else "it said nothing"
