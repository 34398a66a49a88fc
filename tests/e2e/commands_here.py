"""Running the `hightide` command inside of the test's process, which saves starting a Python for each."""

import json
from collections.abc import Mapping
from typing import Any

from click.testing import CliRunner, Result
from hightide_cli.main import cli
from hightide_local.cluster import LocalCluster


def run_here(
    cluster: LocalCluster, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Result:
    runner = CliRunner(env={"HIGHTIDE_BOOTSTRAP": cluster.bootstrap, **(env or {})})
    return runner.invoke(cli, arguments, input=stdin, standalone_mode=False, prog_name="hightide")


def succeed_here(cluster: LocalCluster, *arguments: str, stdin: bytes = b"") -> bytes:
    run = run_here(cluster, *arguments, stdin=stdin)
    assert run.exception is None, (arguments, run.exception, run.stderr)
    assert run.return_value in (None, 0), (arguments, run.return_value, run.stderr)
    return run.stdout_bytes


def documents_here(cluster: LocalCluster, *arguments: str, stdin: bytes = b"") -> list[Any]:
    return [
        json.loads(line) for line in succeed_here(cluster, *arguments, "-o", "json", stdin=stdin).splitlines()
    ]


def json_here(cluster: LocalCluster, *arguments: str, stdin: bytes = b"") -> Any:
    (document,) = documents_here(cluster, *arguments, stdin=stdin)
    return document
