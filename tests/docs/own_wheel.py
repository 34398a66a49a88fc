"""The wheel of this tree, where the pip of a page finds it."""

import subprocess
import sys
from pathlib import Path

from docs.markdown import ROOT


def build_wheel(folder: Path) -> Path:
    """Build it without a network into a folder that `pip --find-links` takes."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    return wheel
