"""The options that every command takes, at any place in the command line."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

import click

from hightide_cli.command_line.choices import OutputFormat, choices
from hightide_cli.command_line.completing import context_names

_OF_SECONDS = frozenset({"--timeout", "--interval", "--seconds", "--idle-seconds"})

#: The field of CredentialFiles, the option, its variable, its help.
_FILES: Final = (
    ("ca", "--tls-ca", "HIGHTIDE_TLS_CA", "Use TLS, and trust servers whose certificates these CAs signed."),
    ("certificate", "--tls-certificate", "HIGHTIDE_TLS_CERTIFICATE", "The certificate to show to servers."),
    ("key", "--tls-key", "HIGHTIDE_TLS_KEY", "The key of --tls-certificate."),
    ("token", "--token-file", "HIGHTIDE_TOKEN_FILE", "The file with the bearer token to show to servers."),
)

Decorated = TypeVar("Decorated", bound=click.Command)


def common_options(command: Decorated) -> Decorated:
    """Add --bootstrap, --context, the files of TLS and of the token, and --output to a command or group. The
    innermost one given counts.

    Numbers are called N and SECONDS in its help, unless the option names them itself.
    """
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.metavar is None:
            parameter.metavar = _metavar_of(parameter)
    command.params.append(
        click.Option(
            ["--bootstrap"],
            metavar="HOST:PORT[,…]",
            envvar="HIGHTIDE_BOOTSTRAP",
            show_envvar=True,
            expose_value=False,
            callback=_take_bootstrap,
            help="The address of a broker of the cluster, or of several.",
        )
    )
    command.params.append(
        click.Option(
            ["--context"],
            metavar="NAME",
            envvar="HIGHTIDE_CONTEXT",
            show_envvar=True,
            expose_value=False,
            callback=_take_context,
            shell_complete=context_names,
            help="Use the cluster with this name; see `hightide context`.",
        )
    )
    command.params.extend(
        click.Option(
            [name],
            metavar="FILE",
            type=click.Path(dir_okay=False),
            envvar=variable,
            show_envvar=True,
            expose_value=False,
            callback=_take_file(field),
            help=text,
        )
        for field, name, variable, text in _FILES
    )
    command.params.append(
        click.Option(
            ["-o", "--output"],
            type=click.Choice([form.value for form in OutputFormat]),
            expose_value=False,
            callback=_take_output,
            help="The form of the results; the default is table.",
        )
    )
    return command


def _metavar_of(option: click.Option) -> str | None:
    """The name of the value in the help. None leaves it to click, which shows choices and kinds of paths."""
    if option.is_flag or not isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
        return None
    return "SECONDS" if _OF_SECONDS.intersection(option.opts) else "N"


def _take_bootstrap(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    chosen, is_said = choices(ctx), _is_said(ctx, parameter)
    # The root command's option is read first; a subcommand's environment default must not undo it.
    if value is not None and (is_said or chosen.bootstrap is None):
        chosen.bootstrap, chosen.bootstrap_is_said = value, is_said


def _take_context(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    chosen, is_said = choices(ctx), _is_said(ctx, parameter)
    if value is not None and (is_said or chosen.context is None):
        chosen.context, chosen.context_is_said = value, is_said


def _take_file(field: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def take(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
        # Files of the environment are left to the SDK: they count only where neither the command line nor the
        # context names any.
        if value is not None and _is_said(ctx, parameter):
            chosen = choices(ctx)
            chosen.files = replace(chosen.files, **{field: value})

    return take


def _is_said(ctx: click.Context, parameter: click.Parameter) -> bool:
    return ctx.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE


def _take_output(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        choices(ctx).output = OutputFormat(value)
