"""Running the `hightide` command against a cluster, as an operator does.

Its main runs inside of the test's process, which saves starting a Python for each. What is interrupted, or
killed, or read while it runs is a process of its own, by `command` and `environment`.
"""

import json
import os
import subprocess
import sys
from typing import Any

from click import formatting
from click.testing import CliRunner
from hightide_cli.main import main
from hightide_local.cluster import LocalCluster


def command(*arguments: str) -> list[str]:
    """The command line that runs it with this Python."""
    return [sys.executable, "-m", "hightide_cli.main", *arguments]


def environment(cluster: LocalCluster) -> dict[str, str]:
    """The environment in which it finds the cluster."""
    return {**os.environ, "HIGHTIDE_BOOTSTRAP": cluster.bootstrap}


def hightide(
    cluster: LocalCluster, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run it to its end: the exit code, and what it wrote to both streams."""
    runner = CliRunner(env={"HIGHTIDE_BOOTSTRAP": cluster.bootstrap})
    with runner.isolation(input=stdin) as (output, errors, _):
        # Click's own tests print two columns more than a process does; `isolation` sets it back.
        formatting.FORCED_WIDTH = None
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
        return subprocess.CompletedProcess(command(*arguments), code, output.getvalue(), errors.getvalue())


def succeed(cluster: LocalCluster, *arguments: str, stdin: bytes = b"") -> bytes:
    run = hightide(cluster, *arguments, stdin=stdin)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


def as_json(cluster: LocalCluster, *arguments: str, stdin: bytes = b"") -> Any:
    return json.loads(succeed(cluster, *arguments, "-o", "json", stdin=stdin))
