"""An environment of a page, in which pip finds packages that were downloaded before."""

import subprocess
import sys
from pathlib import Path


def make_environment(folder: Path, site_packages: Path) -> Path:
    """Make an environment that has the packages of a folder, and return its Python.

    It does not follow the files in that folder which name further ones: an editable Hightide is not in it.
    PySpark seems to be installed in it, with its commands. pip comes when the page makes this environment.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    (own,) = folder.glob("lib/python3*/site-packages")
    (own / "borrowed.pth").write_text(f"{site_packages}\n")
    (own / "pyspark").symlink_to(site_packages / "pyspark")
    for command in (site_packages.parents[2] / "bin").glob("*spark*"):
        (folder / "bin" / command.name).symlink_to(command)
    return folder / "bin" / "python"
