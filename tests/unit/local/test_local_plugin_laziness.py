"""Every run of pytest on a machine with this package imports its plugin: that must cost next to nothing."""

import subprocess
import sys

PROGRAM = """
import sys, pytest
before = set(sys.modules)
import hightide_local.pytest_plugin
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def test_the_plugin_imports_nothing_that_is_slow() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=True
    )
    assert run.stdout.split() == ["hightide_local"]
