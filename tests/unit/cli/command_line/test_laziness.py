"""Help comes at once: no command's module, and nothing that is slow to import, is loaded for it."""

import subprocess
import sys

import pytest

SLOW = (
    *("grpc", "google", "rich", "kazoo", "pyarrow", "psutil", "pydantic", "opentelemetry", "asyncio"),
    *("pyspark", "pandas", "numpy", "matplotlib"),
)
PROGRAM = """
import sys
from hightide_cli.main import main
code = main({arguments!r})
print("MODULES", *sorted(name for name in sys.modules if "." not in name or name.startswith("hightide")))
sys.exit(code)
"""


def modules_after(*arguments: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(arguments=list(arguments))],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    (line,) = (line for line in run.stdout.splitlines() if line.startswith("MODULES"))
    return set(line.split()[1:])


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("topic", "--help"),
        ("topic", "consume", "--help"),
        ("topic", "delete", "--help"),
        ("topic", "copy", "--help"),
        ("topic", "grep", "--help"),
        ("group", "commit", "--help"),
        ("bench", "verify", "--help"),
        ("dump-index", "--help"),
        ("group", "--help"),
        ("group", "reset-offsets", "--help"),
        ("group", "lag", "--help"),
        ("reassign", "--help"),
        ("reassign", "plan", "--help"),
        ("elect", "unclean", "--help"),
        ("cluster", "--help"),
        ("cluster", "health", "--help"),
        ("context", "add", "--help"),
        ("broker", "drain", "--help"),
        ("controller", "resign", "--help"),
        ("coordinator", "resign", "--help"),
        ("config", "set", "--help"),
        ("version", "--help"),
        ("doctor", "--help"),
        ("top", "--help"),
        ("zk", "tree", "--help"),
        ("rpc", "--help"),
        ("rpc", "call", "--help"),
        ("completion", "--help"),
        ("dev", "--help"),
        ("bench", "produce", "--help"),
        ("demo", "--help"),
        ("trace", "--help"),
        ("dump-log", "--help"),
        ("pipeline", "--help"),
        ("pipeline", "archive", "--help"),
        ("pipeline", "replay", "--help"),
        ("pipeline", "delays", "--help"),
        ("pipeline", "audit", "--help"),
    ],
    ids=" ".join,
)
def test_help_imports_nothing_slow(arguments: tuple[str, ...]) -> None:
    assert modules_after(*arguments).isdisjoint(SLOW)


def test_the_help_of_the_whole_command_imports_no_command() -> None:
    assert {name for name in modules_after("--help") if name.startswith("hightide")} == {
        "hightide_cli",
        "hightide_cli.command_line",
        "hightide_cli.command_line.choices",
        "hightide_cli.command_line.client_arguments",
        "hightide_cli.command_line.completing",
        "hightide_cli.command_line.exit_codes",
        "hightide_cli.command_line.interrupts",
        "hightide_cli.command_line.lazy_group",
        "hightide_cli.command_line.options",
        "hightide_cli.main",
    }
