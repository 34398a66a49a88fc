"""The environments of `make spark-versions`: a folder for each version of Spark, below SPARK_VENVS."""

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FOLDER = "SPARK_VENVS"


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with one version of Spark, and the packages that Hightide needs beside it."""

    version: str
    folder: Path

    def __str__(self) -> str:
        return self.version

    @property
    def minor(self) -> int:
        """2 of 4.2.1."""
        return int(self.version.split(".")[1])

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def variables(self) -> dict[str, str]:
        """The variables of a program in it, which takes Hightide from this tree, and nothing of the Spark of
        the tests."""
        taken = {"PYSPARK_PYTHON", "SPARK_HOME", "PYTHONPATH", "VIRTUAL_ENV"}
        outside = {name: value for name, value in os.environ.items() if name not in taken}
        sources = (ROOT / "clients" / "python", ROOT / "clients" / "spark")
        return outside | {
            "PYTHONPATH": os.pathsep.join(map(str, sources)),
            "PYSPARK_PYTHON": str(self.python),
            # Local timestamps must not hide what is wrong with times.
            "TZ": "America/New_York",
        }


def environments() -> list[Environment]:
    """All of them, by version. There is always one: without any the test would prove nothing."""
    folder = Path(os.environ.get(_FOLDER, "."))
    found = [path for path in folder.glob("4.*") if (path / "bin" / "python").exists()]
    assert found, f"no environments of Spark in {folder.resolve()}: run `make spark-versions`"
    return [Environment(path.name, path) for path in sorted(found)]
