"""What docs/reference/ says is what the code says."""

import subprocess
import sys

from docs.markdown import ROOT


def test_the_references_are_fresh() -> None:
    """`make docs` mends it."""
    run = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stdout + run.stderr) == (0, "")
