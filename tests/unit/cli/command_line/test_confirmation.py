"""Before something is destroyed it is asked about; silence is a no."""

import click
import pytest
from click.testing import CliRunner, Result
from hightide_cli.command_line.confirmation import confirm


@click.command()
@click.option("--yes", is_flag=True)
def destroy(yes: bool) -> None:
    """Stand for a command that destroys."""
    confirm("Destroy it?", is_agreed=yes)
    click.echo("destroyed")


def run(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(destroy, arguments, input=answer)


def test_yes_said_beforehand_is_not_asked_for() -> None:
    assert run("--yes").output == "destroyed\n"


@pytest.mark.parametrize("answer", ["y\n", "yes\n"])
def test_yes_is_yes(answer: str) -> None:
    found = run(answer=answer)
    assert (found.exit_code, found.stdout) == (0, "destroyed\n")
    assert "Destroy it? [y/N]" in found.stderr


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_everything_else_changes_nothing(answer: str) -> None:
    found = run(answer=answer)
    assert (found.exit_code, found.stdout) == (1, "")
    assert "nothing was changed" in found.stderr


def test_where_nobody_answers_it_is_told_how_to_go_on() -> None:
    found = run()
    assert (found.exit_code, found.stdout) == (1, "")
    assert "nothing was changed: nobody answered the question; give --yes" in found.stderr
