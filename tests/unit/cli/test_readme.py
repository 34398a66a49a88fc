"""Every command that a README shows is one that the command line knows."""

import re
import shlex
from pathlib import Path

import pytest
from hightide_cli.main import main

ROOT = Path(__file__).resolve().parents[3]
READMES = (
    *("README.md", "clients/cli/README.md", "clients/local/README.md", "ARCHITECTURE.md"),
    "docs/operating.md",
)


def commands() -> list[str]:
    blocks = [
        block
        for readme in READMES
        for block in re.findall(r"```console\n(.*?)```", (ROOT / readme).read_text(), re.DOTALL)
    ]
    lines = [line.partition(" #")[0] for block in blocks for line in block.splitlines()]
    parts = [part.strip() for line in lines for part in re.split(r"\s&&\s|\s\|\s", line)]
    return sorted({part for part in parts if part.startswith("hightide ")})


@pytest.mark.parametrize("line", commands())
def test_a_command_in_a_readme_is_one_that_there_is(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    # --help is answered before anything is done, and after all options were read.
    assert main([*shlex.split(line)[1:], "--help"]) == 0, capsys.readouterr().err


def test_the_readmes_show_commands() -> None:
    assert len(commands()) > 20
