"""What a user of the plugin reads where a cluster cannot be started."""

import os
import subprocess
import sys
from pathlib import Path

USERS_TESTS = """
def test_of_the_shared_one(hightide_cluster):
    assert hightide_cluster.running()

def test_of_its_own(hightide_cluster_factory):
    hightide_cluster_factory(brokers=1)
"""


def test_a_cluster_that_cannot_be_started_is_one_line_for_each_test_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(USERS_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rN", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "JAVA_HOME": str(tmp_path / "none"), "A_SECRET": "of whoever runs the tests"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "1 failed, 1 error" in run.stdout, run.stdout
    told = f"the cluster of the tests cannot be started: JAVA_HOME is {tmp_path / 'none'}, but there is no"
    # No traceback: pytest would print the environment with it.
    assert [line[: len(told)] for line in run.stdout.splitlines() if "JAVA_HOME" in line] == [told, told]
    assert "Traceback" not in run.stdout
    assert "environ(" not in run.stdout
