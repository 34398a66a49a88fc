"""Every page of help reads alike: what options are called, what they say, that examples are right."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from hightide_cli.main import cli

# What a terminal has; click leaves two columns free.
_WIDTH = 78
_OF_CLICK = {"INTEGER", "INTEGER RANGE", "FLOAT", "FLOAT RANGE"}


def walk(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield ctx.command_path, command, ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from walk(inner, click.Context(inner, parent=ctx, info_name=name, terminal_width=_WIDTH))


PAGES = {
    path: (command, ctx)
    for path, command, ctx in walk(cli, click.Context(cli, info_name="hightide", terminal_width=_WIDTH))
}
EXAMPLES = [
    line.strip()
    for command, ctx in PAGES.values()
    for line in command.get_help(ctx).splitlines()
    if re.match(r"  (\S.* \| )?hightide [a-z]", line) and "Usage" not in line
]


@pytest.mark.parametrize("path", PAGES)
def test_each_option_says_what_it_is_for_and_what_it_takes(path: str) -> None:
    command, ctx = PAGES[path]
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.opts for each in options if not each.help] == []
    assert [each.opts for each in options if each.make_metavar(ctx) in _OF_CLICK] == []


@pytest.mark.parametrize("path", PAGES)
def test_no_line_of_a_list_of_commands_is_cut_off(path: str) -> None:
    command, ctx = PAGES[path]
    _, _, commands = command.get_help(ctx).partition("\nCommands:\n")
    assert [line for line in commands.splitlines() if line.endswith("...")] == []


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 20


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_a_command_line_that_is_understood(example: str) -> None:
    words = shlex.split(example.rpartition(" | ")[2])
    path, arguments = "hightide", words[1:]
    command: click.Command = cli
    while isinstance(command, click.Group):
        path = f"{path} {arguments.pop(0)}"
        command = PAGES[path][0]
    ctx = click.Context(command, info_name=path)
    parsed, left, _ = command.make_parser(ctx).parse_args(args=list(arguments))
    assert left == []
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.required:
            assert parameter.name in parsed
