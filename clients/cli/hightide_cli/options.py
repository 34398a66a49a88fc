"""The options that every command takes, wherever in the command line they stand."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import click


class OutputFormat(Enum):
    """How a command prints its result: for people (wide: with more columns), or for programs."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    WIDE = "wide"


@dataclass(slots=True)
class Choices:
    """What the user chose for the whole command line; lives in click's context."""

    bootstrap: str | None = None
    output: OutputFormat = OutputFormat.TABLE

    def address(self) -> str | None:
        """Return the bootstrap address, None for the SDK's default.

        The order: --bootstrap, HIGHTIDE_BOOTSTRAP, the cluster of `hightide dev up` where one runs.
        """
        if self.bootstrap is not None:
            return self.bootstrap
        from hightide_cli.dev_cluster import bootstrap_of_the_running_one

        return bootstrap_of_the_running_one()


Decorated = TypeVar("Decorated", bound=click.Command)


def common_options(command: Decorated) -> Decorated:
    """Add --bootstrap and --output to a command or group. The innermost one given counts."""
    command.params.append(
        click.Option(
            ["--bootstrap"],
            metavar="HOST:PORT[,…]",
            envvar="HIGHTIDE_BOOTSTRAP",
            show_envvar=True,
            expose_value=False,
            callback=_take_bootstrap,
            help="A broker of the cluster, or several.",
        )
    )
    command.params.append(
        click.Option(
            ["-o", "--output"],
            type=click.Choice([form.value for form in OutputFormat]),
            expose_value=False,
            callback=_take_output,
            help="How to print results; table unless said.",
        )
    )
    return command


def choices(ctx: click.Context) -> Choices:
    """Return what was chosen so far. Called by every command that prints or connects."""
    return ctx.find_root().ensure_object(Choices)


def _take_bootstrap(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    source = ctx.get_parameter_source(parameter.name or "")
    from_command_line = source is click.core.ParameterSource.COMMANDLINE
    chosen = choices(ctx)
    # The root command's option is read first; a subcommand's environment default must not undo it.
    if value is not None and (from_command_line or chosen.bootstrap is None):
        chosen.bootstrap = value


def _take_output(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        choices(ctx).output = OutputFormat(value)
