"""A click group that imports a command's module only when that command runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """The module of a command, and its text in the parent's help."""

    module: str
    attribute: str
    short_help: str


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported on use.

    `hightide --help` must answer in a quarter of a second, and grpc alone takes 0.2 s to import, so the
    help texts of the commands stand in the table and not in the modules.
    """

    def __init__(self, *, table: Mapping[str, LazyCommand], name: str, help: str) -> None:  # noqa: A002
        super().__init__(name=name, help=help)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands, in the order of the table. Called by click for the help."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command. Called by click when the command is to run."""
        entry = self._table.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command), f"{entry.module}.{entry.attribute} is no command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with, or fail with the name that was probably meant.
        Called by click, which would suggest from its own table only: that one is empty."""
        name = args[0]
        if name not in self._table and not ctx.resilient_parsing:
            from difflib import get_close_matches

            for near in get_close_matches(name, self._table, 1):
                ctx.fail(f"No such command {name!r}. Did you mean {near!r}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete from the table, and leave the modules alone: a shell waits. Called by click."""
        return [
            CompletionItem(name, help=entry.short_help)
            for name, entry in self._table.items()
            if name.startswith(incomplete)
        ] + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help without importing one of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in self._table.items()])
