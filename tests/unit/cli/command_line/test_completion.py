"""A shell completes commands without importing them, and names without making anybody wait."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from hightide_cli.command_line.choices import Choices
from hightide_cli.command_line.completing import (
    broker_ids,
    context_names,
    group_names,
    setting_names,
    topic_names,
)
from hightide_cli.context.named_clusters import Context, Contexts, contexts_path, store_contexts
from hightide_cli.main import COMMANDS, cli, main

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


def named_parameters(command: click.Command, path: str) -> Iterator[tuple[str, click.Parameter]]:
    """Every parameter of every command that is the name of something that a cluster has."""
    if isinstance(command, click.Group):
        with click.Context(command) as ctx:
            for name in command.list_commands(ctx):
                below = command.get_command(ctx, name)
                assert below is not None
                yield from named_parameters(below, f"{path} {name}")
    for each in command.params:
        shown = each.make_metavar(click.Context(command)).strip("[]….")
        if shown in ("TOPIC", "GROUP", "BROKER") and path != "hightide topic create":
            yield path, each


def test_every_name_of_something_is_completed() -> None:
    # Pipelines are programs of their own, which know nothing of this command.
    found = [
        each for each in named_parameters(cli, "hightide") if not each[0].startswith("hightide pipeline")
    ]
    assert len(found) > 25
    # click keeps what completes a parameter to itself.
    assert [f"{path} {each.name}" for path, each in found if each._custom_shell_complete is None] == []


def test_a_cluster_that_is_not_there_completes_nothing_and_costs_no_time() -> None:
    root = click.Context(cli, obj=Choices(bootstrap=NOBODY, bootstrap_is_said=True))
    parameter = click.Argument(["name"])
    begun_s = time.monotonic()
    for complete in (topic_names, group_names, broker_ids):
        assert complete(root, parameter, "") == []
    # Commands wait for 10 s and more, each time. The first question here may have to load gRPC.
    assert time.monotonic() - begun_s < 20.0


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
        timeout=60,
        check=True,
    )
    assert run.stdout == "plain,version\n"
