"""A shell completes commands without importing them, and names without making anybody wait."""

import os
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from hightide_cli.completing import broker_ids, context_names, group_names, setting_names, topic_names
from hightide_cli.contexts import Context, Contexts, contexts_path, store_contexts
from hightide_cli.main import COMMANDS, cli, main
from hightide_cli.options import Choices

NOBODY = "127.0.0.1:1"


def completed(line: list[str], incomplete: str) -> list[str]:
    shell = ShellComplete(cli, {"obj": Choices(bootstrap=NOBODY, bootstrap_is_said=True)}, "hightide", "_X")
    return [each.value for each in shell.get_completions(line, incomplete)]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_calls_this_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_HIGHTIDE_COMPLETE={shell}_complete" in script
    assert "hightide" in script


def test_commands_options_and_contexts_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    store_contexts(
        contexts_path(), Contexts({"prod": Context("prod", "p:1"), "test": Context("test", "t:1")})
    )
    assert completed([], "c") == [name for name in COMMANDS if name.startswith("c")]
    assert completed(["broker"], "d") == ["describe", "drain"]
    assert "--timeout" in completed(["broker", "drain"], "--")
    assert completed(["cluster", "info", "--context"], "p") == ["prod"]
    assert completed(["context", "select"], "") == ["prod", "test"]
    assert completed(["config", "get", "t"], "segment.") == ["segment.bytes", "segment.ms"]


def test_a_cluster_that_is_not_there_completes_nothing_and_costs_no_time() -> None:
    root = click.Context(cli, obj=Choices(bootstrap=NOBODY, bootstrap_is_said=True))
    parameter = click.Argument(["name"])
    begun_s = time.monotonic()
    for complete in (topic_names, group_names, broker_ids):
        assert complete(root, parameter, "") == []
    assert time.monotonic() - begun_s < 3.0


def test_a_broken_configuration_completes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    contexts_path().parent.mkdir(parents=True)
    contexts_path().write_text("no json")
    assert context_names(click.Context(cli, obj=Choices()), click.Argument(["name"]), "") == []
    assert setting_names(click.Context(cli), click.Argument(["name"]), "fl") == ["flush"]


def test_a_shell_gets_its_answer_from_the_command_line() -> None:
    program = "import sys\nfrom hightide_cli.main import main\nsys.exit(main())"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "_HIGHTIDE_COMPLETE": "bash_complete",
            "COMP_WORDS": "hightide ver",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert run.stdout == "plain,version\n"
