"""Running the `hightide` command against a cluster, as an operator does."""

import json
import os
import subprocess
import sys
from typing import Any

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
    return subprocess.run(
        command(*arguments), input=stdin, capture_output=True, timeout=110, env=environment(cluster)
    )


def succeed(cluster: LocalCluster, *arguments: str, stdin: bytes = b"") -> bytes:
    run = hightide(cluster, *arguments, stdin=stdin)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


def as_json(cluster: LocalCluster, *arguments: str, stdin: bytes = b"") -> Any:
    return json.loads(succeed(cluster, *arguments, "-o", "json", stdin=stdin))
