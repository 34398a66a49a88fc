"""docs/reference/cli.md: the help of every command."""

import copy
from collections.abc import Iterator

import click
from hightide_cli.main import cli

from reference_pages.markdown import page

_WIDTH = 100
#: What each command takes, and the first one shows.
_EVERYWHERE = frozenset(
    {"bootstrap", "context", "output", "tls_ca", "tls_certificate", "tls_key", "token_file"}
)


def text() -> str:
    """The page."""
    return page(
        "The command line",
        """`hightide` and its commands, as `--help` shows them. Those options of the first one that all
        commands take may stand anywhere in the line; they are left out below it.""",
        *(
            f"## `{context.command_path}`\n\n```text\n{_help(command, context)}\n```"
            for command, context in _walk(
                cli, click.Context(cli, info_name="hightide", max_content_width=_WIDTH)
            )
        ),
    )


def _walk(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, name
            if inner.hidden:
                continue
            yield from _walk(inner, click.Context(inner, parent=context, info_name=name))


def _help(command: click.Command, context: click.Context) -> str:
    shown = copy.copy(command)
    if context.parent is not None:
        shown.params = [option for option in command.params if option.name not in _EVERYWHERE]
    context.terminal_width = _WIDTH
    lines = shown.get_help(context).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")
