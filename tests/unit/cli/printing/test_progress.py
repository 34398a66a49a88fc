"""Where somebody looks at a terminal there is one bar, and the results stay on stdout."""

import os
import pty
import subprocess
import sys

import click
import pytest
from hightide_bench.commands.bench import bench

PROGRAM = """
import click
from hightide_cli.printing.progress import progress, progress_option, waiting

@progress_option
@click.command()
def work():
    with progress("working", 2, "steps") as done:
        with waiting("for something inside"):
            click.echo("a result")
            click.echo("a remark", err=True)
        done.advance(1)

work()
"""


def on_a_terminal(*arguments: str) -> tuple[str, str]:
    """Run the program with a terminal as stderr; what came to stdout and there."""
    ours, theirs = pty.openpty()
    program = [sys.executable, "-c", PROGRAM, *arguments]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=theirs, env=environment) as run:
        os.close(theirs)
        assert run.stdout is not None
        printed, seen = run.stdout.read().decode(), b""
        try:
            while more := os.read(ours, 65_536):
                seen += more
        except OSError:
            pass  # A terminal whose other side is closed ends with an error and not with its end.
        os.close(ours)
        assert run.wait(30) == 0, seen.decode()
    return printed, seen.decode()


def test_a_result_stays_on_stdout_while_a_bar_is_on_stderr() -> None:
    printed, seen = on_a_terminal()
    assert printed == "a result\n"
    assert "working" in seen
    assert "a remark" in seen
    assert "a result" not in seen


def test_inside_of_a_bar_there_is_no_other_one() -> None:
    assert "for something inside" not in on_a_terminal()[1]


def test_without_progress_only_what_was_said_is_there() -> None:
    assert on_a_terminal("--no-progress") == ("a result\n", "a remark\r\n")


@pytest.mark.parametrize("name", sorted(bench.commands))
def test_every_benchmark_can_be_told_to_show_no_bar(name: str) -> None:
    command = bench.get_command(click.Context(bench), name)
    assert command is not None
    assert "no_progress" in {each.name for each in command.params}
